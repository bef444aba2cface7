// The figures: those of now, and the tables.

import { OFFLINE_CAUSES, bytesPerConnection } from "./charts.js";
import { byId, element, write, writeRows } from "./dom.js";
import { lately } from "./health.js";
import { LIMITS, hits } from "./limits.js";
import { atMost, bytes, clock, count, number, time } from "./words.js";

const LATENESS = "presence_lateness_seconds";

export function showFigures(history) {
  tiles.forEach(({ value, note, places }) => {
    write(places[0], value(history));
    write(places[1], note(history));
  });
  writeRows(byId("lateness"), latenessRows(history));
  writeRows(byId("limits"), limitRows(history));
  writeRows(byId("gateways"), gatewayRows(history.now.stats));
  writeRows(byId("settings"), Object.entries(history.now.stats.settings));
}

const orNone = (value, written) => (value === null ? "–" : written(value));

const rateOf = (history, name) => orNone(history.rate(name, {}, 10_000), number);

const tiles = [
  tile(
    "Connections",
    gauge("connections"),
    ({ now }) => `of ${number(Number(now.stats.settings.max_connections))}`,
  ),
  tile(
    "Users online",
    gauge("users"),
    ({ now }) => `here, with ${count(now.get("presence_sessions"), "session")}`,
  ),
  tile(
    "Heartbeats a second",
    (history) => rateOf(history, "presence_heartbeats_total"),
    () => "over 10 s",
  ),
  tile(
    "Changes a second",
    (history) => rateOf(history, "presence_transitions_total"),
    (history) => `${rateOf(history, "presence_pushes_total")} pushes a second`,
  ),
  tile("Flaps hidden", (history) => number(history.grew("presence_flaps_hidden_total")), lately),
  tile("Offlines shown late by", offlineLateness, (history) => `99 in 100, ${lately(history)}`),
  tile("Store", storeState, storeNote),
  tile(
    "Watch entries",
    gauge("watches"),
    ({ now }) => `of ${count(now.get("presence_watched_users"), "user")}`,
  ),
  tile("Memory", ({ now }) => bytes(now.get("presence_memory_bytes")), memoryNote),
  tile(
    "Memory of a connection",
    (history) => orNone(bytesPerConnection(history), bytes),
    (history) => (bytesPerConnection(history) === null ? "told from 100 connections on" : "in this process"),
  ),
  tile("Gateways", ({ now }) => number(living(now.stats).length), gatewayNote),
  tile(
    "Slow clients closed",
    (history) => number(history.grew("presence_closes_total", { reason: "too_slow" })),
    (history) =>
      `${count(history.grew("presence_answers_dropped_total"), "answer")} dropped, ${lately(history)}`,
  ),
];

function gauge(name) {
  return ({ now }) => number(now.get(`presence_${name}`));
}

function tile(label, value, note) {
  const places = [element("dd", { className: "figure" }), element("dd", { className: "note" })];
  byId("tiles").append(element("div", {}, element("dt", {}, label), ...places));
  return { value, note, places };
}

function offlineLateness(history) {
  const bounds = Object.keys(OFFLINE_CAUSES).map((cause) => history.quantile(0.99, LATENESS, { cause }));
  const known = bounds.filter((bound) => bound !== null);
  return known.length > 0 ? atMost(Math.max(...known)) : "–";
}

function storeState({ now }) {
  return now.stats.not_ready === "store" ? "away" : now.stats.degraded_since ? "back" : "answers";
}

function storeNote(history) {
  if (history.now.stats.not_ready === "store")
    return `since ${clock(history.now.stats.degraded_since ?? history.now.at)}`;
  const mean = history.mean("presence_renewal_time_seconds", {}, 10_000);
  return mean === null ? "" : `in ${time(mean)} on average`;
}

function memoryNote({ now }) {
  const { max } = now.stats.memory;
  return max ? `of ${bytes(max)}, sockets included` : "with no limit";
}

/** This one lives, though its lease lapses while the store is away. */
function living({ gateway, gateways }) {
  return gateways.filter(({ id, lease }) => lease !== "lapsed" || id === gateway);
}

function gatewayNote({ now }) {
  const { gateways, not_ready, settings } = now.stats;
  if (settings.store === "embedded") return "with a store of its own";
  if (not_ready === "store") return "known last";
  const lost = gateways.length - living(now.stats).length;
  return lost > 0 ? `${lost} lost within an hour` : "on this store";
}

function latenessRows(history) {
  return history.now
    .labels(`${LATENESS}_count`, "cause")
    .sort()
    .map((cause) => {
      const within = (part) => orNone(history.quantile(part, LATENESS, { cause }), atMost);
      const counts = [
        history.grew(`${LATENESS}_count`, { cause }),
        history.now.get(`${LATENESS}_count`, { cause }),
      ];
      return [cause, number(counts[0]), within(0.5), within(0.99), within(1), number(counts[1])];
    });
}

/** Those that were ever hit. */
function limitRows(history) {
  const rows = LIMITS.map((limit) => {
    const { what, setting, name, labels } = limit;
    return [
      what,
      `${setting}: ${history.now.stats.settings[setting]}`,
      number(hits(history, limit)),
      number(history.now.get(name, labels)),
    ];
  });
  const hit = rows.filter((row) => row.at(-1) !== "0");
  byId("limits").closest(".scroll").hidden = hit.length === 0;
  byId("no-limits").hidden = hit.length > 0;
  return hit;
}

function gatewayRows({ gateway, gateways }) {
  return gateways.map(({ id, lease, renewed_ago_ms: ago, held_for_ms: held }) => [
    id === gateway ? `${id} (this one)` : id,
    lease,
    `${time(ago / 1000)} ago`,
    time(Math.floor(held / 1000)),
  ]);
}
