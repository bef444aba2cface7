/** Histories of connections: how a client comes back, when, and when it does not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PresenceError } from "presence-client";
import { History, connected, does, online, sent, shown, source, told, waitMs } from "./history.js";

test("the first message is hello with all that it knows", () => {
  const history = new History({ device: "web", status: { show: "away", text: "tea" } });
  assert.ok(does(history.give({ type: "start" }), "dial"));
  assert.deepEqual(sent(history.give({ type: "opened" })), [
    { type: "hello", user: "ana", device: "web", show: "away", text: "tea" },
  ]);
});

test("a lost network is tried at once and then with growing jitter", () => {
  const history = connected({ random: () => 1 });
  let wait = waitMs(history.close(1006));
  assert.equal(wait, 0);
  for (const cap of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
    assert.ok(does(history.pass(wait), "dial"));
    wait = waitMs(history.close(1006));
    assert.equal(wait, cap);
  }
});

test("the jitter is full: from nothing to the cap", () => {
  for (const dice of [0, 0.25, 1]) {
    const history = connected({ random: () => dice });
    assert.equal(waitMs(history.close(1013)), 500 * dice);
  }
});

test("every close code is obeyed", () => {
  const expected: Record<string, number[]> = {
    ended: [1002, 1003, 1007, 1009, 4002, 4003, 4007, 4008],
    "at once": [1000, 1005, 1006, 1011, 4001, 4004, 4005, 4999],
    later: [1001, 1012, 1013, 4006, 4009],
  };
  for (const [what, codes] of Object.entries(expected)) {
    for (const code of codes) {
      const history = connected();
      const connection = shown(history.close(code));
      const got =
        connection?.phase !== "waiting"
          ? connection?.phase
          : connection.retryInMs
            ? "later"
            : "at once";
      assert.equal(got, what, `close code ${code}`);
      if (what === "ended") assert.equal(history.deadline(), Infinity);
    }
  }
});

test("a connection that lasted makes the next loss a first one, a short one does not", () => {
  const history = connected();
  history.close(1006);
  history.pass(0);
  history.signIn();
  assert.ok(waitMs(history.close(1006)) > 0, "lost right after the welcome");
  history.pass(60_000);
  history.signIn();
  history.pass(9_000);
  history.hear({ type: "presence", users: [] });
  history.pass(9_000);
  history.hear({ type: "presence", users: [] });
  assert.equal(waitMs(history.close(1006)), 0);
});

test("a draining gateway is left after the time it told, and not before", () => {
  const history = connected();
  history.hear({ type: "draining", reconnect_after_ms: 2_500 });
  assert.ok(!does(history.pass(2_499), "drop"));
  const effects = history.pass(1);
  assert.ok(does(effects, "drop") && does(effects, "dial"));
});

test("a draining gateway that closes early is given the rest of the time", () => {
  const history = connected();
  history.hear({ type: "draining", reconnect_after_ms: 2_500 });
  history.pass(500);
  assert.equal(waitMs(history.close(1012)), 2_000);
  // Nor does a user who looks at the page shorten it.
  history.give({ type: "suspect" });
  assert.ok(!does(history.pass(1_999), "dial"));
  assert.ok(does(history.pass(1), "dial"));
});

test("what forbids a return is obeyed even while draining", () => {
  const history = connected();
  history.hear({ type: "draining", reconnect_after_ms: 2_500 });
  assert.equal(shown(history.close(4007))?.phase, "ended");
});

test("a gateway that cannot be reached is not tried at once", () => {
  const history = new History();
  history.give({ type: "start" });
  assert.equal(waitMs(history.close(1006)), 250);
});

test("why a hello was refused is told", () => {
  const history = new History();
  history.give({ type: "start" });
  history.give({ type: "opened" });
  const effects = history.hear({ type: "error", code: "bad_user_id", message: "too long" });
  const [error] = effects.flatMap((effect) => (effect.do === "tell_error" ? [effect.error] : []));
  assert.ok(error instanceof PresenceError && error.refusal?.code === "bad_user_id");
  assert.match(error.message, /too long/);
  assert.equal(shown(history.close(4001))?.phase, "waiting");
});

test("a gateway that says no welcome is given up in time", () => {
  const history = new History();
  history.give({ type: "start" });
  history.give({ type: "opened" });
  assert.ok(!does(history.pass(14_999), "drop"));
  assert.ok(does(history.pass(1), "drop"));
});

test("when the network is back a wait is cut short, but not one that the gateway asked for", () => {
  const lost = connected({ random: () => 1 });
  let wait = waitMs(lost.close(1006));
  while (wait < 10_000) {
    lost.pass(wait);
    wait = waitMs(lost.close(1006));
  }
  lost.give({ type: "suspect" });
  assert.ok(does(lost.pass(500), "dial"));

  const overloaded = connected({ random: () => 1, backoffMinMs: 5_000 });
  overloaded.close(1013);
  overloaded.give({ type: "suspect" });
  assert.ok(!does(overloaded.pass(4_999), "dial"));
});

test("a page that is put away lets its socket go, and connects at once when it is back", () => {
  const history = connected();
  assert.ok(does(history.give({ type: "suspend" }), "drop"));
  history.pass(0);
  assert.ok(!does(history.pass(1e9), "dial"));
  assert.ok(does(history.give({ type: "suspect" }), "dial"));
});

test("signing out says bye, and ends when the gateway closes", () => {
  const history = connected();
  const effects = history.give({ type: "sign_out" });
  assert.deepEqual(sent(effects), [{ type: "bye" }]);
  assert.ok(!does(effects, "drop"));
  const last = shown(history.close(1000));
  assert.deepEqual(last, {
    phase: "ended",
    reason: { kind: "signed_out", message: "Signed out." },
  });
});

test("signing out ends all the same when nobody answers", () => {
  const history = connected();
  history.give({ type: "sign_out" });
  const effects = history.pass(2_000);
  assert.ok(does(effects, "drop"));
  assert.equal(shown(effects)?.phase, "ended");
});

test("signing out between hello and welcome says bye too, since the session may live already", () => {
  const history = new History();
  history.give({ type: "start" });
  history.give({ type: "opened" });
  assert.deepEqual(sent(history.give({ type: "sign_out" })), [{ type: "bye" }]);
});

test("closing says nothing, and nothing comes after it", () => {
  const history = connected();
  assert.deepEqual(sent(history.give({ type: "close" })), []);
  assert.deepEqual(history.give({ type: "suspect" }), []);
  assert.deepEqual(history.pass(1e9), []);
});

test("the last view stays through a quick reconnect, and not even staleness shows", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  history.close(1006);
  assert.equal(history.machine.view.get("bo")?.state, "online");
  history.pass(0);
  const effects = history.signIn();
  assert.deepEqual(sent(effects).at(-1), { type: "watch", users: ["bo"], id: 2 });
  assert.deepEqual(told(history.hear({ type: "snapshot", id: 2, users: [online("bo", 5)] })), []);
  assert.deepEqual(told(history.pass(9_000)), []);
});

test("after the grace the last view is marked stale, until the new snapshot", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  history.close(1006);
  assert.deepEqual(told(history.pass(2_999)), []);
  assert.deepEqual(told(history.pass(1)), [{ ...online("bo", 5), stale: true }]);
  history.signIn();
  const effects = history.hear({ type: "snapshot", id: 2, users: [online("bo", 5)] });
  assert.deepEqual(told(effects), [{ ...online("bo", 5), stale: false }]);
});

test("a token is asked for before the dial, and another one when it was refused", () => {
  const history = new History({ credential: source });
  assert.ok(does(history.give({ type: "start" }), "ask_token"));
  assert.ok(does(history.give({ type: "token", token: "one", lifetimeMs: 1e6 }), "dial"));
  history.give({ type: "opened" });
  assert.equal(shown(history.close(4002))?.phase, "waiting");
  assert.ok(does(history.pass(500), "ask_token"));
  const again = shown(history.give({ type: "token", token: "one", lifetimeMs: 1e6 }));
  assert.ok(again?.phase === "waiting" && again.reason.kind === "token");
  history.pass(60_000);
  assert.ok(does(history.give({ type: "token", token: "two", lifetimeMs: 1e6 }), "dial"));
});

test("a token that is good for long is used again, one that does not say is asked for again", () => {
  for (const [lifetimeMs, isAsked] of [
    [1e6, false],
    [undefined, true],
  ] as const) {
    const history = new History({ credential: source });
    history.give({ type: "start" });
    history.give({ type: "token", token: "one", lifetimeMs });
    history.signIn();
    history.close(1006);
    assert.equal(does(history.pass(0), "ask_token"), isAsked);
  }
});

test("a token is renewed by another hello before it expires, and everybody is asked for again", () => {
  const history = new History({ credential: source });
  history.give({ type: "start" });
  history.give({ type: "token", token: "one", lifetimeMs: 100_000 });
  history.signIn();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  let asked = false;
  for (let at = 0; at < 95_000 && !asked; at += 1_000) {
    asked = does(history.pass(1_000), "ask_token");
    history.hear({ type: "presence", users: [] });
  }
  assert.ok(asked, "asked for a token in time");
  const renewal = history.give({ type: "token", token: "two", lifetimeMs: 100_000 });
  assert.deepEqual(sent(renewal), [{ type: "hello", token: "two" }]);
  const welcomed = history.signIn();
  assert.deepEqual(sent(welcomed).at(-1), { type: "watch", users: ["bo"], id: 2 });
});

test("a token function that fails is tried again with backoff, and the error is told", () => {
  const history = new History({ credential: source });
  history.give({ type: "start" });
  const error = new Error("no network");
  const last = shown(history.give({ type: "no_token", error }));
  assert.ok(last?.phase === "waiting" && last.reason.error === error && last.retryInMs > 0);
  assert.ok(does(history.pass(60_000), "ask_token"));
});
