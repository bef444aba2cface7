// Whether a gateway is healthy, and if not, where. Each rule is a sign that docs/operations.md says to be woken for.

import { WINDOW_MS } from "./history.js";
import { CLIENTS, LIMITS, NEWCOMERS, hits, isOfMessages } from "./limits.js";
import { atMost, bytes, clock, count, number, time } from "./words.js";

/** What is promised: nobody is shown a change later than that. */
const LATENESS_MAX_S = 1;

/** A store nearby answers within a few milliseconds, and a call that takes a second is given up. */
const STORE_SLOW_S = 0.05;

/** A process at ease is below 2 ms. */
const LAG_MAX_S = 0.05;

/** So full is worth a word, before newcomers are turned away. */
const NEARLY = 0.9;

/** Connections that single clients lost, or did not get, are a sign of something when they are one to so many open ones. */
const CLIENTS_PER_SIGN = 1000;

const CERTIFICATE_DAYS_MIN = 14;

/**
 * What there is to say of a gateway that answers: its state, the reasons if it is not healthy, and a headline that stays the
 * same while nothing else is wrong, so that it can be read out.
 */
export function judge(history) {
  const { not_ready } = history.now.stats;
  const reasons = [whyNotReady, ...RULES].map((rule) => rule(history)).filter(Boolean);
  const state = not_ready ? "not ready" : reasons.length > 0 ? "degraded" : "healthy";
  const word = { "not ready": "Not ready", degraded: "Degraded", healthy: "Healthy" }[state];
  const briefs = reasons.slice(0, 3).map(({ brief }) => brief);
  if (reasons.length > 3) briefs.push(`and ${reasons.length - 3} more`);
  return { state, headline: briefs.length > 0 ? `${word}: ${briefs.join("; ")}.` : `${word}.`, reasons };
}

/** How long "lately" is. */
export function lately(history) {
  const seconds = Math.max(1, Math.round(history.seconds()));
  return seconds * 1000 < WINDOW_MS ? `in the last ${time(seconds)}` : "in the last minute";
}

/** A rule gives a reason, or nothing. In the order of what is worst. */
const RULES = [
  storeIsBack,
  storeFails,
  storeIsSlow,
  changesWait,
  grown("presence_losses_total", {}, "the store forgot this gateway", (n) => `Its lease was lost or had lapsed ${count(n, "time")}`,
    "The store came back empty, or this process was stopped or cut off from it."),
  grown("presence_rejoins_total", {}, "the store lost users", (n) => `${count(n, "user")} with a session here had to be told again`,
    "If this goes on, Redis evicts keys: its policy must be noeviction."),
  grown("presence_gaps_total", {}, "events may have been missed", (n) => `${count(n, "gap")}`,
    "Watched users were read again. If this goes on, subscriptions break: see client-output-buffer-limit pubsub."),
  grown("presence_reconciled_total", {}, "changes were found only by comparing", (n) => `${count(n, "difference")} to the store`),
  grown("presence_gateways_lost_total", {}, "a gateway was lost",
    (n) => `${count(n, "gateway")} stopped without a drain, or cannot reach the store`),
  gatewayIsLate,
  changesAreLate,
  cpuIsShort,
  memoryIsShort,
  isNearlyFull,
  grown("presence_accept_errors_total", {}, "connections cannot be accepted", (n) => `${count(n, "accept")} failed`,
    "Raise the limit of open files, or lower max_connections."),
  newcomersHitLimits,
  clientsHitLimits,
  grown("presence_auth_refused_total", { rule: "keys_out_of_reach" }, "keys for tokens are out of reach",
    (n) => `${count(n, "client")} could not be checked`),
  failed("presence_jwks_refresh_total", "keys cannot be fetched", (n) => `${count(n, "attempt")} at jwks_url failed`,
    "Known keys go on, new ones are not seen."),
  failed("presence_key_file_reads_total", "the file of keys is bad", (n) => `jwt_public_key_file could not be used ${count(n, "time")}`,
    "The log says why."),
  grown("presence_watch_callback_pairs_total", { by: "nobody" }, "the app’s backend does not say who may watch whom",
    (n) => `It left ${count(n, "question")} open`, "The log says why."),
  grown("presence_tls_renewals_total", { result: "failed" }, "a new certificate cannot be used",
    (n) => `${count(n, "reading")} of it failed`, "The one before goes on; the log says why."),
  certificateExpires,
];

function reason(brief, detail) {
  return { brief, detail };
}

/** A count that should not grow: what it means that it did, how to say how far, and what to know. */
function grown(name, labels, brief, say, advice) {
  return (history) => toldAsGrown(history, history.grew(name, labels), brief, say, advice);
}

/** The same, of results other than `ok`. */
function failed(name, brief, say, advice) {
  return (history) =>
    toldAsGrown(history, history.grew(name) - history.grew(name, { result: "ok" }), brief, say, advice);
}

function toldAsGrown(history, n, brief, say, advice = "") {
  return n > 0 ? reason(brief, `${say(n)}, ${lately(history)}. ${advice}`.trim()) : null;
}

/** By the word of `/v1/stats`. */
function whyNotReady(history) {
  const { now } = history;
  const { not_ready: why, degraded_since: since, memory, settings } = now.stats;
  switch (why) {
    case null:
      return null;
    case "store":
      return reason(
        `the store is out of reach${since ? ` since ${clock(since)}` : ""}`,
        `${settings.store} does not answer. Sockets stay, clients see what was known last, and nobody is shown offline for it.`,
      );
    case "draining": {
      const left = count(now.get("presence_sessions"), "session is left", "sessions are left");
      return reason("it is draining", `${left}, and drain is ${settings.drain}.`);
    }
    case "connections": {
      const open = count(now.get("presence_connections"), "connection");
      return reason("it is full", `${open}, and max_connections is ${settings.max_connections}.`);
    }
    case "memory":
      return reason("memory is short", `${memoryUsed(now)} Newcomers are turned away until a twentieth of that is free.`);
    default:
      return reason(why, "See /readyz.");
  }
}

// The store.

function storeIsBack({ now }) {
  const { degraded_since: since, not_ready } = now.stats;
  if (!since || not_ready === "store") return null;
  return reason("the store has just come back", `It was out of reach since ${clock(since)}.`);
}

function storeFails(history) {
  if (history.now.stats.not_ready === "store") return null; // then it goes without saying
  const n = history.grew("presence_store_errors_total");
  return toldAsGrown(history, n, "calls to the store fail", (n) => `${count(n, "call")} failed`);
}

function storeIsSlow(history) {
  const mean = history.mean("presence_renewal_time_seconds");
  if (!(mean > STORE_SLOW_S)) return null;
  return reason("the store is slow", `It takes ${time(mean)} to answer, on average ${lately(history)}.`);
}

function changesWait(history) {
  const waiting = history.least("presence_claims_waiting", 5_000);
  const told = history.rate("presence_claims_total", {}, 10_000) ?? 0;
  if (waiting <= Math.max(100, 2 * told)) return null;
  return reason(
    "changes wait for the store",
    `${count(waiting, "change")} wait to be told, and ${number(told)} a second are: it is slow, or refuses writes.`,
  );
}

// Gateways, this one and the others.

function gatewayIsLate({ now }) {
  const { gateway, gateways } = now.stats;
  const late = gateways.filter(({ id, lease }) => lease === "late" && id !== gateway).map(({ id }) => id);
  if (late.length === 0) return null;
  return reason("a gateway is late with its lease", `${late.join(", ")}: it may be gone, busy or cut off.`);
}

function changesAreLate(history) {
  const name = "presence_lateness_seconds";
  const late = history.now
    .labels(`${name}_count`, "cause")
    .map((cause) => ({ cause, bound: history.quantile(0.99, name, { cause }) }))
    .filter(({ bound }) => bound > LATENESS_MAX_S);
  if (late.length === 0) return null;
  const each = late.map(({ cause, bound }) => `${cause} took ${atMost(bound)}`).join(", ");
  return reason(
    "changes are shown late",
    `Fewer than 99 in 100 were within the promised ${time(LATENESS_MAX_S)}, ${lately(history)}: ${each}.`,
  );
}

function cpuIsShort({ now }) {
  const lag = now.get("presence_lag_seconds");
  if (lag <= LAG_MAX_S) return null;
  return reason("it is short of CPU time", `Timers fire ${time(lag)} late on average.`);
}

function memoryIsShort({ now }) {
  const { memory, not_ready } = now.stats;
  if (!memory.max || not_ready === "memory" || now.get("presence_memory_bytes") <= NEARLY * memory.max) return null;
  return reason("memory runs short", memoryUsed(now));
}

function memoryUsed(now) {
  return `${bytes(now.get("presence_memory_bytes"))} are used of ${bytes(now.stats.memory.max)} (max_memory).`;
}

function isNearlyFull({ now }) {
  const { not_ready, settings } = now.stats;
  const open = now.get("presence_connections");
  if (not_ready === "connections" || open <= NEARLY * settings.max_connections) return null;
  return reason("it is nearly full", `${count(open, "connection")}, and max_connections is ${settings.max_connections}.`);
}

// Those who come.

function newcomersHitLimits(history) {
  return limitsHit(history, NEWCOMERS, 1, "newcomers hit its limits");
}

function clientsHitLimits(history) {
  const enough = Math.max(1, history.now.get("presence_connections") / CLIENTS_PER_SIGN);
  return limitsHit(history, CLIENTS, enough, "clients hit limits");
}

function limitsHit(history, by, enough, brief) {
  const { settings } = history.now.stats;
  const parts = LIMITS.filter((limit) => limit.who === by && !isOfMessages(limit))
    .map((limit) => ({ ...limit, n: hits(history, limit) }))
    .filter(({ n }) => n >= enough)
    .map(({ n, what, setting }) => `${number(n)} ${what} (${setting} is ${settings[setting]})`);
  return parts.length > 0 ? reason(brief, `${parts.join("; ")}, ${lately(history)}.`) : null;
}

// Certificates.

function certificateExpires({ now }) {
  const expiry = now.get("presence_tls_certificate_expiry_seconds");
  const days = Math.floor((expiry - now.at / 1000) / 86_400);
  if (expiry === 0 || days >= CERTIFICATE_DAYS_MIN) return null;
  return reason("the certificate expires soon", `It is good for ${count(Math.max(0, days), "more day")} (tls_cert_file).`);
}
