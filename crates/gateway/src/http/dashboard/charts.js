// The charts: what each shows.

import { BAD_REQUESTS, CLIENTS, LIMITS, NEWCOMERS } from "./limits.js";
import { bytes, number, short, time } from "./words.js";

/** What shows a user offline, and the words for it. The other causes are changes of users who are there. */
export const OFFLINE_CAUSES = {
  bye: "signed out",
  closed: "socket lost",
  silent: "silent",
  drained: "drained",
  expired: "gateway lost",
};

// Units: how values are written, on an axis and elsewhere.
const counted = { tick: short, write: number };
const sized = { tick: bytes, write: bytes, increments: Array.from({ length: 40 }, (_, power) => 2 ** power) };
const timed = { tick: time, write: time };
const timedWidely = { ...timed, isLogarithmic: true };

const gauge = (name) => (history) => history.now.get(`presence_${name}`);
const rate = (name, labels) => (history) => history.latestRate(`presence_${name}_total`, labels);

export const CHARTS = [
  chart("Connections and users", "Open sockets, and the users with a session on this gateway.", counted, {
    connections: gauge("connections"),
    users: gauge("users"),
  }),
  chart("Heartbeats a second", "Signs of life that were heard, and Pings sent to who was silent.", counted, {
    heartbeats: rate("heartbeats"),
    "pings sent": rate("pings_sent"),
  }),
  chart("Changes a second", "Users who came, went or changed, on any gateway, by cause.", counted, {
    joined: rate("transitions", { cause: "joined" }),
    status: rate("transitions", { cause: "status" }),
    ...Object.fromEntries(
      Object.entries(OFFLINE_CAUSES).map(([cause, words]) => [words, rate("transitions", { cause })]),
    ),
  }),
  chart(
    "Pushes and hidden flaps a second",
    "States sent to watchers, and losses of which nobody was told.",
    counted,
    {
      pushes: rate("pushes"),
      "flaps hidden": rate("flaps_hidden"),
    },
  ),
  chart(
    "How late offlines are shown",
    "Within 10 s, 99 in 100 were no later than this after the ideal moment, by cause. 1 s is promised.",
    timedWidely,
    Object.fromEntries(
      ["bye", "closed", "silent", "expired"].map((cause) => [OFFLINE_CAUSES[cause], lateness(cause)]),
    ),
  ),
  chart(
    "How long the store takes",
    "To renew this gateway’s lease, on average. Nothing while it does not answer.",
    timedWidely,
    {
      renewal: (history) => history.mean("presence_renewal_time_seconds", {}, 0),
    },
  ),
  chart("Memory", "Of this process, and with 10 KiB of the kernel’s for each socket.", sized, {
    process: ({ now }) => now.stats.memory.resident,
    "with sockets": gauge("memory_bytes"),
  }),
  chart(
    "Memory of a connection",
    "What the process has taken since its start, divided by its connections.",
    sized,
    { "per connection": bytesPerConnection },
  ),
  chart("Watch entries", "Watches that sessions here hold, and the users who are watched.", counted, {
    entries: gauge("watches"),
    "users watched": gauge("watched_users"),
  }),
  chart(
    "Limits hit a second",
    "By newcomers, by single clients, and by bad requests: see the table below.",
    counted,
    Object.fromEntries([NEWCOMERS, CLIENTS, BAD_REQUESTS].map((by) => [by, limitsHit(by)])),
  ),
  chart("How late timers fire", "On average over a second: the CPU time that this process lacks.", timed, {
    timers: gauge("lag_seconds"),
  }),
];

function chart(title, note, unit, series) {
  return {
    title,
    note,
    unit,
    series: Object.entries(series).map(([label, measure]) => ({ label, measure })),
  };
}

function lateness(cause) {
  return (history) => history.quantile(0.99, "presence_lateness_seconds", { cause }, 10_000);
}

function limitsHit(by) {
  const limits = LIMITS.filter(({ who }) => who === by);
  return (history) =>
    limits.reduce((sum, { name, labels }) => sum + (history.latestRate(name, labels) ?? 0), 0);
}

/** Null where there are so few connections that it says nothing. */
export function bytesPerConnection({ now }) {
  const { resident, resident_at_start: atStart } = now.stats.memory;
  const connections = now.get("presence_connections");
  return resident && connections >= 100 ? Math.max(0, resident - atStart) / connections : null;
}

/** One function for each series of all charts, in their order: see `History`. */
export const measures = CHARTS.flatMap(({ series }) => series.map(({ measure }) => measure));
