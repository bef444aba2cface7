// What a gateway told of itself in the last ten minutes, and how its counts grew. Knows nothing of the page.

/** For how long the charts remember. */
export const KEPT_MS = 600_000;

/** "Lately", for all that is judged. */
export const WINDOW_MS = 60_000;

/** Where nothing came for longer than this, for each gateway that takes turns, the lines of the charts break. */
const GAP_MS = 5_000;

const SERIES = /^(\w+)(?:\{(.*)\})?$/;
const LABEL = /(\w+)="([^"]*)"/g;

/** One answer of `/v1/stats`, and when it came, in ms since the Unix epoch by the clock here. */
class Sample {
  #families = new Map();

  constructor(stats, at) {
    Object.assign(this, { stats, at });
    for (const [series, value] of Object.entries(stats.metrics)) {
      const [, name, text = ""] = series.match(SERIES);
      const labels = Object.fromEntries([...text.matchAll(LABEL)].map(([, label, of]) => [label, of]));
      if (!this.#families.has(name)) this.#families.set(name, []);
      this.#families.get(name).push({ labels, value });
    }
  }

  /** The sum of all series of a name that have these labels; 0 where nothing was counted yet. */
  get(name, labels = {}) {
    const wanted = Object.entries(labels);
    const found = this.#family(name).filter((one) => wanted.every(([label, of]) => one.labels[label] === of));
    return found.reduce((sum, { value }) => sum + value, 0);
  }

  /** What a label of a name's series is, each once. */
  labels(name, label) {
    return [...new Set(this.#family(name).map((one) => one.labels[label]))];
  }

  #family(name) {
    return this.#families.get(name) ?? [];
  }
}

export class History {
  #measures;
  #recent = []; // samples of the last WINDOW_MS and one before, the oldest first

  /** @param measures functions of a history, each of which gives one value for the charts, or null. */
  constructor(measures) {
    this.#measures = measures;
    /** For the charts: times, and the values of each measure at these. */
    this.columns = [[], ...measures.map(() => [])];
  }

  /**
   * @param at when they came; never earlier than what came before, though a clock may be set back.
   * @param around how many gateways take turns to answer, this one among them.
   */
  add(stats, at, around) {
    at = Math.max(at, (this.now?.at ?? 0) + 1);
    if (this.now && at - this.now.at > GAP_MS * around)
      this.#note(
        this.now.at + 1,
        this.#measures.map(() => null),
      );
    this.#recent.push(new Sample(stats, at));
    while (this.#recent[1]?.at <= at - WINDOW_MS) this.#recent.shift();
    this.#note(
      at,
      this.#measures.map((measure) => measure(this)),
    );
  }

  /** The latest sample. */
  get now() {
    return this.#recent.at(-1);
  }

  /** How much a count grew within so long, or since it is looked at. */
  grew(name, labels, ms = WINDOW_MS) {
    return Math.max(0, this.now.get(name, labels) - this.#before(ms).get(name, labels));
  }

  /** How much a count grew a second; null before there are two samples. */
  rate(name, labels, ms = WINDOW_MS) {
    const seconds = this.seconds(ms);
    return seconds > 0 ? this.grew(name, labels, ms) / seconds : null;
  }

  /** How much a count grew a second since the sample before the latest. */
  latestRate(name, labels) {
    return this.rate(name, labels, 0);
  }

  /** For how many of the last so many ms it was looked. */
  seconds(ms = WINDOW_MS) {
    return (this.now.stats.up_ms - this.#before(ms).stats.up_ms) / 1000;
  }

  /** The mean of what a histogram took in; null where that is nothing. */
  mean(name, labels, ms) {
    const count = this.grew(`${name}_count`, labels, ms);
    return count > 0 ? this.grew(`${name}_sum`, labels, ms) / count : null;
  }

  /** The bound of a histogram that so great a part of what it took in was within: Infinity beyond the last, null for nothing. */
  quantile(part, name, labels, ms) {
    const count = this.grew(`${name}_count`, labels, ms);
    if (count === 0) return null;
    const bounds = this.now
      .labels(`${name}_bucket`, "le")
      .filter((le) => le !== "+Inf")
      .sort((a, b) => a - b);
    const bound = bounds.find((le) => this.grew(`${name}_bucket`, { ...labels, le }, ms) >= part * count);
    return bound === undefined ? Infinity : Number(bound);
  }

  /** The least that a gauge was within so long. */
  least(name, ms) {
    return Math.min(
      ...this.#recent.filter(({ at }) => at >= this.now.at - ms).map((sample) => sample.get(name)),
    );
  }

  /** The sample of so long ago, or the oldest that is kept; never the latest, if there is another. */
  #before(ms) {
    const older = this.#recent.slice(0, -1);
    return older.findLast(({ at }) => at <= this.now.at - ms) ?? older[0] ?? this.now;
  }

  #note(at, values) {
    [at, ...values].forEach((value, place) => this.columns[place].push(value));
    const old = this.columns[0].findIndex((noted) => noted >= at - KEPT_MS);
    if (old > 0) this.columns.forEach((column) => column.splice(0, old));
  }
}
