// Draws the charts of a report, and puts behind each the table of its figures.
"use strict";
(() => {
  const { report, never } = JSON.parse(document.getElementById("data").textContent);
  // The last second is often one that had only begun.
  const timeline = report.timeline.filter((second) => second.at_s <= Math.max(1, Math.round(report.seconds)));
  const seconds = timeline.map((second) => second.at_s);

  // ---- How figures are written.
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const number = (value) => (Math.abs(value) >= 1000 ? whole : few).format(value);
  const shortNumber = (value) =>
    Math.abs(value) >= 1e6 ? `${few.format(value / 1e6)}M` : Math.abs(value) >= 1e4 ? `${few.format(value / 1e3)}k` : number(value);
  const ms = (value) => (value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`);
  const bytes = (value) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; Math.abs(value) >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
    return `${few.format(value)} ${units[unit]}`;
  };
  const clock = (at) => {
    const two = (part) => String(part).padStart(2, "0");
    const [hours, minutes, rest] = [Math.floor(at / 3600), Math.floor(at / 60) % 60, Math.floor(at) % 60];
    return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  };
  const spoken = (name) => name.replaceAll("_", " ");

  // ---- Units: what an axis, a legend and a table call a value.
  const counted = { tick: shortNumber, value: number, increments: [1, 2, 5, 10, 20, 50].flatMap((step) => [step, step * 1e2, step * 1e4, step * 1e6]).sort((a, b) => a - b) };
  const timed = { tick: ms, value: ms, log: true };
  const sized = { tick: bytes, value: bytes, increments: Array.from({ length: 40 }, (_, power) => 2 ** power) };
  const cored = { tick: number, value: number };

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const seriesColour = (place) => colour(`--series-${(place % 8) + 1}`);

  // ---- Phases: alternate bands, each with its name above where there is room, or its number.
  const markPhases = (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "bottom";
    report.phases.forEach((phase, place) => {
      const from = Math.max(plot.valToPos(phase.from_s, "x", true), bbox.left);
      const to = Math.min(plot.valToPos(phase.to_s, "x", true), bbox.left + bbox.width);
      if (to <= from) return;
      ctx.fillStyle = place % 2 ? colour("--band") : "transparent";
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      ctx.fillStyle = colour("--soft");
      ctx.globalAlpha = 0.5;
      ctx.fillRect(from, bbox.top - 14 * devicePixelRatio, devicePixelRatio, bbox.height + 14 * devicePixelRatio);
      ctx.globalAlpha = 1;
      const room = to - from - 6 * devicePixelRatio;
      const label = [spoken(phase.name), String(place + 1)].find((text) => ctx.measureText(text).width <= room);
      if (label) ctx.fillText(label, from + 4 * devicePixelRatio, bbox.top - 2 * devicePixelRatio);
    });
    ctx.restore();
  };

  // A value with none beside it has no line: it is drawn as a point.
  const alone = (plot, place) => {
    const values = plot.data[place];
    const indices = [];
    values.forEach((value, index) => {
      if (value != null && values[index - 1] == null && values[index + 1] == null) indices.push(index);
    });
    return indices;
  };

  const secondsAxis = {
    incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400],
    values: (_, ticks) => ticks.map(clock),
    space: 46,
  };

  const options = (chart, width) => {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
    const { unit } = chart;
    return {
      width,
      height: chart.wide ? 250 : 210,
      padding: [chart.x ? 10 : 20, 26, 0, 0],
      scales: {
        // The first second is the way to its end.
        x: { time: false, range: (_, min, max) => [Math.min(0, min), max] },
        y: unit.log ? { distr: 3 } : { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.05 : 1] },
      },
      axes: [
        { ...axis, size: 32, ...(chart.x ? chart.x.axis : secondsAxis) },
        {
          ...axis,
          // As wide as its widest label, with the tick beside it.
          size: (_, labels) => Math.max(62, 20 + 8 * Math.max(0, ...(labels ?? []).map((label) => label.length))),
          ...(unit.increments && { incrs: unit.increments }),
          values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : unit.tick(tick))),
        },
      ],
      series: [
        { label: chart.x ? chart.x.label : "time", value: (_, at) => (at == null ? "–" : (chart.x ? chart.x.value : clock)(at)) },
        ...chart.series.map((series, place) => ({
          label: series.label,
          stroke: seriesColour(place),
          width: 1.75,
          dash: place % 3 === 1 ? [6, 3] : place % 3 === 2 ? [2, 3] : undefined,
          fill: chart.filled ? `${seriesColour(place)}22` : undefined,
          spanGaps: Boolean(chart.x),
          points: chart.x ? { show: false } : { show: false, filter: alone, size: 5 },
          value: (_, value) => (value == null ? "–" : unit.value(value)),
        })),
      ],
      cursor: chart.x ? {} : { sync: { key: "time" } },
      hooks: chart.x ? {} : { drawClear: [markPhases] },
    };
  };

  // ---- What is told of a chart without seeing it.
  const summary = (chart) =>
    chart.series
      .map(({ label, values }) => {
        const known = values.filter((value) => value != null);
        const [least, most] = known.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
        return known.length ? `${label}: from ${chart.unit.value(least)} to ${chart.unit.value(most)}` : `${label}: nothing`;
      })
      .join("; ");

  const table = (chart) => {
    const first = chart.x ? chart.x : { label: "time", value: clock };
    const head = element("tr", {}, ...[first.label, ...chart.series.map(({ label }) => label)].map((label) => element("th", { scope: "col" }, label)));
    const body = element("tbody");
    (chart.at ?? seconds).forEach((at, row) => {
      const values = chart.series.map(({ values }) => values[row]);
      if (values.every((value) => value == null)) return;
      const cells = values.map((value) => element("td", {}, value == null ? "–" : chart.unit.value(value)));
      body.append(element("tr", {}, element("th", { scope: "row" }, first.value(at)), ...cells));
    });
    const made = element("div", { className: "scroll", tabIndex: 0 }, element("table", {}, element("caption", { className: "unseen" }, chart.title), element("thead", {}, head), body));
    made.setAttribute("role", "region");
    made.setAttribute("aria-label", `${chart.title}, as a table`);
    return made;
  };

  const drawn = [];
  const show = (into, chart) => {
    const at = chart.at ?? seconds;
    if (at.length === 0 || (chart.series.length === 0 && !chart.none)) return;
    const figure = element("figure", { className: chart.wide ? "wide" : "" }, element("figcaption", {}, chart.title, element("small", {}, chart.note ?? "")));
    document.getElementById(into).append(figure);
    if (chart.series.length === 0) {
      figure.append(element("p", { className: "none" }, chart.none));
      return;
    }
    const place = element("div", { className: "chart" });
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `${chart.title}. ${summary(chart)}.`);
    const details = element("details", {}, element("summary", {}, "As a table"));
    details.addEventListener("toggle", () => details.querySelector("table") ?? details.append(table(chart)));
    figure.append(place, details);
    drawn.push({ chart, place, plot: null });
  };

  const draw = (entry) => {
    entry.plot?.destroy();
    const values = entry.chart.series.map((series) => series.values);
    const positive = (value) => (value == null ? value : Math.max(value, 0.001));
    const shown = entry.chart.unit.log ? values.map((list) => list.map(positive)) : values;
    entry.plot = new uPlot(options(entry.chart, entry.place.clientWidth), [entry.chart.at ?? seconds, ...shown], entry.place);
  };

  // ---- The charts.
  const grew = (name) => timeline.map((second) => second.grew[name] ?? 0);
  const rates = (names) => names.filter((name) => report.counts[name] > 0).map((name) => ({ label: spoken(name), values: grew(name) }));
  const rate = (title, note, names, more) => show("time-charts", { title, note, unit: counted, series: rates(names), ...more });

  show("time-charts", {
    title: "Connections open", note: "Signed in at the end of each second.", unit: counted, wide: true, filled: true,
    series: [{ label: "open", values: timeline.map((second) => second.open) }],
  });
  rate("Coming and going, a second", "", ["connected", "closed_on_purpose", "signed_out", "fell_silent", "froze"]);
  rate("Heartbeats a second", "", ["pings", "pongs", "pongs_sent", "heartbeats_sent"]);
  rate("Pushes a second", "States sent to watchers.", ["pushed_online", "pushed_offline"]);
  rate("Bytes a second", "", ["bytes_in", "bytes_out"], { unit: sized });
  const errors = ["failed", "dropped", ...never];
  show("time-charts", {
    title: "Errors a second", note: "Connections that failed or were lost, and broken promises.", unit: counted,
    none: "None in any second.", series: rates(errors),
  });

  const timings = report.timings.filter((timing) => timing.count > 0);
  const nines = (percentile, count) => (percentile >= 100 ? Math.log10(Math.max(count, 10)) : -Math.log10(1 - percentile / 100));
  const percentile = (at) => {
    const value = 100 * (1 - 10 ** -at);
    return `${Number(value.toFixed(Math.max(1, Math.ceil(at - 1))))} %`;
  };
  // 0, 50, 90, 99, 99.9 and so on: as many as have room.
  const nineSplits = (plot) => {
    // The width of the plot, without its axis and padding, which is not laid out yet at the first drawing.
    const [roomPx, unitPx] = [64, (plot.width - 88) / plot.scales.x.max];
    const every = Math.max(1, Math.ceil(roomPx / unitPx));
    const whole = Array.from({ length: 12 }, (_, nine) => nine * every);
    const half = unitPx * Math.log10(2) >= 40 && every === 1 ? [Math.log10(2)] : [];
    return [...half, ...whole].filter((at) => at <= plot.scales.x.max).sort((one, other) => one - other);
  };
  if (timings.length > 0) {
    const joined = uPlot.join(timings.map((timing) => {
      // Several percentiles may fall on one place; the last is the largest.
      const places = new Map(timing.curve.map(([at, value]) => [nines(at, timing.count), value]));
      const sorted = [...places].sort(([one], [other]) => one - other);
      return [sorted.map(([at]) => at), sorted.map(([, value]) => value)];
    }));
    show("curve-charts", {
      title: "Percentiles", note: "Each step to the right leaves a tenth of the rest; a curve ends at its longest.", unit: timed, wide: true, at: joined[0],
      x: { label: "percentile", value: percentile, axis: { splits: nineSplits, values: (_, ticks) => ticks.map(percentile), space: 40 } },
      series: timings.map((timing, place) => ({ label: spoken(timing.name), values: joined[place + 1] })),
    });
  }
  timings.forEach((timing) => {
    const brief = (field) => timeline.map((second) => second.timings[timing.name]?.[field] ?? null);
    const series = [["p50", "p50_ms"], ["p99", "p99_ms"], ["max", "max_ms"]].map(([label, field]) => ({ label, values: brief(field) }));
    show("latency-charts", { title: spoken(timing.name), note: timing.meaning, unit: timed, series });
  });

  const servers = report.servers.filter((server) => server.timeline.length > 0);
  if (servers.length > 0) {
    const of = (field) => {
      const joined = uPlot.join(servers.map((server) => [server.timeline.map(({ at_s }) => at_s), server.timeline.map((moment) => moment[field])]));
      return { at: joined[0], series: servers.map((server, place) => ({ label: server.kind, values: joined[place + 1] })) };
    };
    show("server-charts", { title: "Memory", note: "Resident, all processes of a kind together.", unit: sized, ...of("rss") });
    show("server-charts", { title: "Cores in use", note: "1 is one full core.", unit: cored, ...of("cores") });
  }

  // ---- Drawn again when the width or the colours change.
  const drawAll = () => drawn.forEach(draw);
  drawAll();
  drawn.forEach((entry) => {
    new ResizeObserver(([{ contentRect }]) => {
      const width = Math.floor(contentRect.width);
      if (width > 0 && width !== entry.plot.width) entry.plot.setSize({ width, height: entry.plot.height });
    }).observe(entry.place);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
