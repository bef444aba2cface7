// What the dashboard makes of a gateway's figures: run by `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { measures } from "../../src/http/dashboard/charts.js";
import { judge } from "../../src/http/dashboard/health.js";
import { History } from "../../src/http/dashboard/history.js";

const START = Date.UTC(2026, 10, 30, 12);

const settings = {
  store: "redis://127.0.0.1:6379",
  max_connections: "100000",
  max_connections_per_address: "10000",
  max_watch: "1000",
  write_timeout: "10s",
  message_rate: "50",
  drain: "30s",
  hello_timeout: "5s",
};

/** Answers of one gateway, so many seconds after the first: the metrics of each, and whatever else is not as usual. */
function history(...answers) {
  const made = new History(measures);
  for (const [seconds, metrics, other = {}] of answers)
    made.add(answer(seconds, metrics, other), START + seconds * 1000, 1);
  return made;
}

function answer(seconds, metrics, other = {}) {
  return {
    gateway: "a",
    up_ms: 5_000 + seconds * 1000,
    not_ready: null,
    degraded_since: null,
    memory: { resident: 30e6, resident_at_start: 10e6, max: 1e9 },
    gateways: [{ id: "a", lease: "good", renewed_ago_ms: 200, held_for_ms: 9_000 }],
    settings,
    metrics: { presence_connections: 200, presence_memory_bytes: 32e6, ...metrics },
    ...other,
  };
}

const verdict = (...answers) => judge(history(...answers));

test("a gateway of which nothing is wrong is healthy", () => {
  assert.deepEqual(verdict([0, {}], [1, {}]), { state: "healthy", headline: "Healthy.", reasons: [] });
  assert.equal(verdict([0, {}]).state, "healthy");
});

test("what was counted before the page looked is no reason", () => {
  const old = { presence_store_errors_total: 7, 'presence_closes_total{reason="too_slow"}': 900 };
  assert.equal(verdict([0, old], [1, old]).state, "healthy");
});

test("what was counted is a reason for a minute", () => {
  const answers = [
    [0, {}],
    ...Array.from({ length: 70 }, (_, second) => [second + 1, { presence_store_errors_total: 3 }]),
  ];
  assert.equal(verdict(...answers.slice(0, 60)).headline, "Degraded: calls to the store fail.");
  assert.equal(verdict(...answers).state, "healthy");
});

for (const [sign, metrics, headline, detail] of [
  [
    "a store that fails",
    { presence_store_errors_total: 3 },
    "calls to the store fail",
    "3 calls failed, in the last 10 s.",
  ],
  [
    "a slow store",
    { presence_renewal_time_seconds_count: 10, presence_renewal_time_seconds_sum: 2 },
    "the store is slow",
    "It takes 200 ms to answer, on average in the last 10 s.",
  ],
  [
    "a backlog",
    { presence_claims_waiting: 5_000, presence_claims_total: 1_000 },
    "changes wait for the store",
    "5,000 changes wait to be told, and 100 a second are",
  ],
  [
    "a lost gateway",
    { presence_gateways_lost_total: 1 },
    "a gateway was lost",
    "1 gateway stopped without a drain",
  ],
  ["want of CPU time", { presence_lag_seconds: 0.08 }, "it is short of CPU time", "Timers fire 80 ms late"],
  [
    "memory near its limit",
    { presence_memory_bytes: 0.95e9 },
    "memory runs short",
    "906 MiB are used of 954 MiB (max_memory).",
  ],
  [
    "many connections",
    { presence_connections: 95_000 },
    "it is nearly full",
    "95,000 connections, and max_connections is 100000.",
  ],
  [
    "too few open files",
    { presence_accept_errors_total: 2 },
    "connections cannot be accepted",
    "Raise the limit of open files",
  ],
  [
    "newcomers turned away",
    { 'presence_refused_connections_total{why="connections"}': 12 },
    "newcomers hit its limits",
    "12 turned away, since it was full (max_connections is 100000), in the last 10 s.",
  ],
  [
    "slow clients",
    { 'presence_closes_total{reason="too_slow"}': 4 },
    "clients hit limits",
    "4 closed: too slow to read (write_timeout is 10s), in the last 10 s.",
  ],
  [
    "a backend that is away",
    { 'presence_watch_callback_pairs_total{by="nobody"}': 9 },
    "the app’s backend does not say who may watch whom",
    "It left 9 questions open",
  ],
  [
    "keys that cannot be fetched",
    { 'presence_jwks_refresh_total{result="ok"}': 5, 'presence_jwks_refresh_total{result="refused"}': 1 },
    "keys cannot be fetched",
    "1 attempt at jwks_url failed",
  ],
  [
    "an old certificate",
    { presence_tls_certificate_expiry_seconds: START / 1000 + 3 * 86_400 + 60 },
    "the certificate expires soon",
    "3 more days",
  ],
]) {
  test(`${sign} is said with its figure`, () => {
    const { state, headline: said, reasons } = verdict([0, {}], [5, metrics], [10, metrics]);
    assert.equal(state, "degraded");
    assert.equal(said, `Degraded: ${headline}.`);
    assert.ok(reasons[0].detail.includes(detail), reasons[0].detail);
  });
}

test("bad requests of others are no reason", () => {
  const rude = {
    'presence_refused_connections_total{why="late"}': 50,
    'presence_refused_connections_total{why="origin"}': 50,
    'presence_auth_refused_total{rule="malformed"}': 50,
  };
  assert.equal(verdict([0, {}], [1, rude]).state, "healthy");
});

test("of many clients some are always slow", () => {
  const slow = (connections) => ({
    presence_connections: connections,
    'presence_closes_total{reason="too_slow"}': 4,
  });
  assert.equal(verdict([0, {}], [1, slow(3_900)]).state, "degraded");
  assert.equal(verdict([0, {}], [1, slow(4_100)]).state, "healthy");
});

test("messages of which one client can have any number refused are no reason, and its close is one among many", () => {
  const flood = {
    presence_connections: 50_000,
    'presence_refused_messages_total{code="rate_limited"}': 474,
    'presence_closes_total{reason="rate_limited"}': 1,
    presence_answers_dropped_total: 474,
  };
  assert.equal(verdict([0, {}], [1, flood]).state, "healthy");
  assert.equal(
    verdict([0, {}], [1, { ...flood, 'presence_closes_total{reason="rate_limited"}': 50 }]).headline,
    "Degraded: clients hit limits.",
  );
});

const lateness = (cause, ...counts) => {
  const bounds = ["0.1", "1.0", "5.0", "+Inf"];
  const sums = counts.map((_, index) => counts.slice(0, index + 1).reduce((sum, count) => sum + count));
  const buckets = bounds.map((le, index) => [
    `presence_lateness_seconds_bucket{le="${le}",cause="${cause}"}`,
    sums[index],
  ]);
  return {
    ...Object.fromEntries(buckets),
    [`presence_lateness_seconds_count{cause="${cause}"}`]: sums.at(-1),
  };
};

test("lateness is judged by cause, and by those of the last minute alone", () => {
  const before = lateness("closed", 0, 0, 500, 0);
  assert.equal(verdict([0, before], [1, lateness("closed", 1000, 0, 500, 0)]).state, "healthy");
  const { headline, reasons } = verdict(
    [0, before],
    [
      1,
      {
        ...lateness("closed", 900, 80, 520, 0),
        ...lateness("bye", 1000, 0, 0, 0),
        ...lateness("silent", 0, 0, 0, 1),
      },
    ],
  );
  assert.equal(headline, "Degraded: changes are shown late.");
  assert.equal(
    reasons[0].detail,
    "Fewer than 99 in 100 were within the promised 1 s, in the last 1 s: closed took ≤ 5 s, silent took beyond measure.",
  );
});

test("99 in 100 in time are enough", () => {
  assert.equal(verdict([0, {}], [1, lateness("closed", 990, 0, 10, 0)]).state, "healthy");
  assert.equal(verdict([0, {}], [1, lateness("closed", 989, 0, 11, 0)]).state, "degraded");
});

test("a store that is away is said with the time it went, and in the same words each second", () => {
  const away = { not_ready: "store", degraded_since: START };
  const later = [
    [0, {}],
    [1, { presence_store_errors_total: 1 }, away],
    [2, { presence_store_errors_total: 2 }, away],
  ];
  const { state, headline, reasons } = verdict(...later);
  assert.equal(state, "not ready");
  assert.match(
    headline,
    /^Not ready: the store is out of reach since \d\d:\d\d:\d\d\.$/,
  );
  assert.match(reasons[0].detail, /^redis:\/\/127\.0\.0\.1:6379 does not answer\./);
  assert.equal(verdict(...later, [3, { presence_store_errors_total: 9 }, away]).headline, headline);
});

for (const [why, other, detail] of [
  ["draining", {}, "7 sessions are left, and drain is 30s."],
  ["connections", {}, "200 connections, and max_connections is 100000."],
  ["memory", {}, "30.5 MiB are used of 954 MiB (max_memory)."],
]) {
  test(`a gateway that is not ready for ${why} says so first`, () => {
    const { state, reasons } = verdict([0, {}], [1, { presence_sessions: 7 }, { not_ready: why, ...other }]);
    assert.equal(state, "not ready");
    assert.ok(reasons[0].detail.startsWith(detail), reasons[0].detail);
  });
}

test("many reasons are headed by the first three", () => {
  const bad = {
    presence_store_errors_total: 1,
    presence_gaps_total: 1,
    presence_rejoins_total: 1,
    presence_losses_total: 1,
    presence_lag_seconds: 1,
  };
  const { headline, reasons } = verdict([0, {}], [1, bad]);
  assert.equal(reasons.length, 5);
  const first = "calls to the store fail; the store forgot this gateway; the store lost users";
  assert.equal(headline, `Degraded: ${first}; and 2 more.`);
});

test("a gateway beside this one that is late with its lease is named", () => {
  const gateways = [
    { id: "a", lease: "late" },
    { id: "b", lease: "late" },
    { id: "c", lease: "lapsed" },
  ];
  const { reasons } = verdict([0, {}], [1, {}, { gateways }]);
  assert.deepEqual(
    reasons.map(({ brief, detail }) => [brief, detail.split(":")[0]]),
    [["a gateway is late with its lease", "b"]],
  );
});

test("counts are told by the second", () => {
  const one = history(
    [0, {}],
    [1, { presence_heartbeats_total: 50 }],
    [3, { presence_heartbeats_total: 450 }],
  );
  assert.equal(one.latestRate("presence_heartbeats_total"), 200);
  assert.equal(one.rate("presence_heartbeats_total"), 150);
  assert.equal(history([0, {}]).rate("presence_heartbeats_total"), null);
});

test("the charts keep ten minutes, and break where nothing came", () => {
  const long = history(...Array.from({ length: 700 }, (_, second) => [second, {}]));
  assert.deepEqual([...new Set(long.columns.map((column) => column.length))], [601]);
  const broken = history([0, {}], [1, {}], [20, {}]);
  assert.deepEqual(
    broken.columns[0],
    [0, 1_000, 1_001, 20_000].map((at) => START + at),
  );
  assert.deepEqual(broken.columns[1], [200, 200, null, 200]);
});

test("the lines do not break where others answer in between", () => {
  const made = new History(measures);
  for (const seconds of [0, 8, 16]) made.add(answer(seconds, {}), START + seconds * 1000, 8);
  assert.deepEqual(made.columns[1], [200, 200, 200]);
  made.add(answer(60, {}), START + 60_000, 8);
  assert.deepEqual(made.columns[1], [200, 200, 200, null, 200]);
});

test("a clock that is set back does not turn a chart round", () => {
  const made = new History(measures);
  [5, 6, 2].forEach((seconds, index) => made.add(answer(index, {}), START + seconds * 1000, 1));
  assert.deepEqual(
    made.columns[0],
    [...made.columns[0]].sort((a, b) => a - b),
  );
});
