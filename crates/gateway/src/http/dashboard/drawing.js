// How the charts are drawn, by uPlot, and told without being seen.

import { CHARTS } from "./charts.js";
import { element, write, writeRows } from "./dom.js";
import { tickClock } from "./words.js";

/* global uPlot */

/** A chart spans this at least, or its first seconds would be stretched over all of it. */
const SPAN_MIN_MS = 60_000;

const HEIGHT = 160;

/** Puts all charts into an element. What it answers tells what there is, draws it, and draws it again in other colours. */
export function place(parent) {
  let column = 1;
  const drawn = CHARTS.map((definition) => {
    const one = new Drawn(definition, column);
    column += definition.series.length;
    parent.append(one.figure);
    return one;
  });
  return {
    tell: (history) => drawn.forEach((one) => one.tell(history)),
    draw: () => drawn.forEach((one) => one.draw()),
    redraw: () => drawn.forEach((one) => one.redraw()),
  };
}

class Drawn {
  #plot = null;
  #data = [];

  constructor({ title, note, unit, series }, column) {
    Object.assign(this, { title, unit, series, column });
    this.values = series.map(() => element("b"));
    this.swatches = series.map((_, index) =>
      element("i", { className: `swatch series-${index + 1}`, ariaHidden: "true" }),
    );
    const key = element(
      "ul",
      { className: "key" },
      ...series.map(({ label }, index) =>
        element("li", {}, this.swatches[index], `${label} `, this.values[index]),
      ),
    );
    this.canvas = element("div", { className: "chart", role: "img" });
    this.minutes = element("tbody");
    const head = element(
      "tr",
      {},
      ...["minute", ...series.map(({ label }) => label)].map((label) =>
        element("th", { scope: "col" }, label),
      ),
    );
    const table = element(
      "table",
      {},
      element("caption", { className: "unseen" }, `${title}, by the minute, on average`),
      element("thead", {}, head),
      this.minutes,
    );
    const scroll = element(
      "div",
      { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `${title}, as a table` },
      table,
    );
    this.details = element("details", {}, element("summary", {}, "As a table"), scroll);
    this.details.addEventListener("toggle", () => this.#describe());
    this.figure = element(
      "figure",
      {},
      element("figcaption", {}, title, element("small", {}, note)),
      key,
      this.canvas,
      this.details,
    );
    new ResizeObserver(([{ contentRect }]) => {
      const width = Math.floor(contentRect.width);
      if (width > 0 && width !== this.#plot?.width) this.#plot?.setSize({ width, height: HEIGHT });
    }).observe(this.canvas);
  }

  tell({ columns }) {
    const values = columns.slice(this.column, this.column + this.series.length);
    this.#data = [columns[0], ...values.map((list) => (this.unit.isLogarithmic ? list.map(drawable) : list))];
    this.#writeKey();
    this.#describe();
  }

  draw() {
    if (this.#plot) this.#plot.setData(this.#data);
    else if (this.canvas.clientWidth > 0) this.#plot = new uPlot(this.#options(), this.#data, this.canvas);
  }

  redraw() {
    this.#plot?.redraw(false);
  }

  /** The values under the cursor, or the latest. */
  #writeKey() {
    const at = this.#plot?.cursor.idx ?? this.#data[0].length - 1;
    this.values.forEach((place, index) => write(place, this.#written(this.#data[index + 1][at])));
  }

  #written(value) {
    return value == null ? "–" : this.unit.write(value);
  }

  /** In words, and as a table where one is wanted. */
  #describe() {
    const ranges = this.series.map(({ label }, index) => {
      const known = this.#data[index + 1]?.filter((value) => value != null) ?? [];
      return known.length > 0
        ? `${label} from ${this.#written(Math.min(...known))} to ${this.#written(Math.max(...known))}`
        : `${label}: nothing`;
    });
    this.canvas.ariaLabel = `${this.title}, in the last 10 minutes: ${ranges.join("; ")}.`;
    if (this.details.open) writeRows(this.minutes, this.#byMinute());
  }

  #byMinute() {
    const [times = [], ...values] = this.#data;
    const minutes = Map.groupBy(times.keys(), (index) => Math.floor(times[index] / 60_000));
    return [...minutes].reverse().map(([minute, indices]) => [
      tickClock(minute * 60_000),
      ...values.map((list) => {
        const known = indices.map((index) => list[index]).filter((value) => value != null);
        return this.#written(
          known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null,
        );
      }),
    ]);
  }

  #options() {
    const { tick, increments, isLogarithmic } = this.unit;
    const axis = {
      stroke: () => colourOf(this.figure.querySelector("small")),
      grid: { stroke: () => getComputedStyle(this.figure).borderTopColor, width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    return {
      width: this.canvas.clientWidth,
      height: HEIGHT,
      padding: [8, 22, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { time: false, range: (_, from, to) => [Math.min(from ?? 0, to - SPAN_MIN_MS), to] },
        y: isLogarithmic
          ? { distr: 3, range: decades }
          : { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
      },
      axes: [
        {
          ...axis,
          size: 28,
          space: 64,
          incrs: [10_000, 30_000, 60_000, 120_000, 300_000],
          values: (_, ticks) => ticks.map(tickClock),
        },
        {
          ...axis,
          size: 62,
          space: 28,
          ...(increments && { incrs: increments }),
          values: (_, ticks) => ticks.map((value) => (value == null ? "" : tick(value))),
        },
      ],
      series: [
        {},
        ...this.series.map((_, index) => ({
          stroke: () => colourOf(this.swatches[index]),
          width: 1.75,
          dash: [undefined, [6, 3], [2, 3]][index % 3],
          points: { show: false, filter: alone, size: 5 },
        })),
      ],
      hooks: { setCursor: [() => this.#writeKey()] },
    };
  }
}

/** A logarithmic axis has no zero and no end. */
function drawable(value) {
  return value == null ? null : Math.min(Math.max(value, 1e-6), 120);
}

/** Whole decades around what there is. */
function decades(_, least, most) {
  if (least == null) return [0.001, 1];
  const from = Math.floor(Math.log10(least));
  return [10 ** from, 10 ** Math.max(from + 1, Math.ceil(Math.log10(most)))];
}

/** A value with none beside it has no line: it is drawn as a point. */
function alone(plot, series) {
  const values = plot.data[series];
  return [...values.keys()].filter(
    (index) => values[index] != null && values[index - 1] == null && values[index + 1] == null,
  );
}

function colourOf(of) {
  return getComputedStyle(of).color;
}
