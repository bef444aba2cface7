// How figures are written.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const clockMinute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const number = (value) => (Math.abs(value) >= 1000 ? whole : few).format(value);

/** With room for seven letters. */
export const short = (value) =>
  Math.abs(value) >= 1e6
    ? `${few.format(value / 1e6)}M`
    : Math.abs(value) >= 1e4
      ? `${few.format(value / 1e3)}k`
      : number(value);

/** A time in seconds, of which little is said when it is long. */
export const time = (seconds) =>
  seconds >= 48 * 3600
    ? `${whole.format(seconds / 86_400)} days`
    : seconds >= 2 * 3600
      ? `${whole.format(seconds / 3600)} h`
      : seconds >= 120
        ? `${whole.format(seconds / 60)} min`
        : seconds >= 1 || seconds === 0
          ? `${few.format(seconds)} s`
          : seconds >= 0.001
            ? `${few.format(seconds * 1e3)} ms`
            : `${few.format(seconds * 1e6)} µs`;

/** The bound of a histogram below which a value is; none when it is beyond the last. */
export const atMost = (seconds) => (seconds === Infinity ? "beyond measure" : `≤ ${time(seconds)}`);

export const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; Math.abs(value) >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
  return `${few.format(value)} ${units[unit]}`;
};

/** A time of day here, of ms since the Unix epoch. */
export const clock = (at) => clockTime.format(at);

/** The same, without seconds where there are none. */
export const tickClock = (at) => (at % 60_000 === 0 ? clockMinute : clockTime).format(at);

export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
