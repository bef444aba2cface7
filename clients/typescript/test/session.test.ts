/** Histories of one session: lists, answers, refusals, and whether the gateway is still there. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Query } from "../dist/asks.js";
import { PresenceError, type State } from "presence-client";
import type { Effect } from "../dist/effects.js";
import type { ClientMessage } from "../dist/messages.js";
import { connected, does, offline, online, sent, shown, told } from "./history.js";

const names = (count: number) => Array.from({ length: count }, (_, index) => `u${index}`);

test("an older or equal version changes nothing", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  for (const version of [4, 5]) {
    const effects = history.hear({ type: "presence", users: [offline("bo", version)] });
    assert.deepEqual(told(effects), []);
  }
  assert.equal(history.machine.view.get("bo")?.state, "online");
  const effects = history.hear({ type: "presence", users: [offline("bo", 6)] });
  assert.deepEqual(told(effects), [{ ...offline("bo", 6), stale: false }]);
});

test("a newer version that looks the same is kept, and nobody is told", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  const news = { ...online("bo", 6), since: 5 };
  assert.deepEqual(told(history.hear({ type: "presence", users: [news] })), []);
  assert.equal(history.machine.view.get("bo")?.version, 6);
});

test("a state of somebody not watched is dropped", () => {
  const history = connected();
  assert.deepEqual(told(history.hear({ type: "presence", users: [online("bo", 5)] })), []);
  assert.equal(history.machine.view.get("bo"), undefined);
});

test("long lists are cut, and few are in flight", () => {
  const history = connected();
  history.close(1006);
  history.pass(0);
  history.signIn({ max_watch: 2_000 });
  const first = sent(history.watch(...names(2_000)));
  assert.equal(first.length, 4);
  for (const message of first) assert.ok(message.type === "watch" && message.users.length <= 256);
  const next = sent(history.hear({ type: "snapshot", id: 1, users: [] }));
  assert.equal(next.length, 1);
});

test("no message names more users than a session may watch", () => {
  const history = connected();
  history.close(1006);
  history.pass(0);
  history.signIn({ max_watch: 10 });
  const [first] = sent(history.watch(...names(30)));
  assert.ok(first?.type === "watch" && first.users.length === 10);
});

test("a request without an answer is made again", () => {
  const history = connected();
  history.watch("bo");
  const again = sent(history.pass(10_000)).filter((message) => message.type === "watch");
  assert.deepEqual(again, [{ type: "watch", users: ["bo"], id: 2 }]);
});

test("a busy gateway is left alone for a while, and then asked again", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "error", code: "rate_limited", message: "m", id: 1 });
  assert.deepEqual(sent(history.pass(999)), []);
  assert.deepEqual(sent(history.pass(1)), [{ type: "watch", users: ["bo"], id: 2 }]);
});

test("who cannot be decided on now is asked for again, and all else goes on", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "error", code: "undecided", message: "m", id: 1 });
  assert.deepEqual(sent(history.watch("cy")), [{ type: "watch", users: ["cy"], id: 2 }]);
  assert.deepEqual(sent(history.pass(1_000)), [{ type: "watch", users: ["bo"], id: 3 }]);
});

test("a status that a busy gateway may have dropped is said again, not at once", () => {
  const history = connected();
  const status = { type: "status", show: "busy" } as const;
  assert.deepEqual(sent(history.give({ type: "status", status: { show: "busy" } })), [status]);
  assert.deepEqual(sent(history.hear({ type: "error", code: "rate_limited", message: "m" })), []);
  assert.deepEqual(sent(history.pass(1_000)), [status]);
});

function refusals(effects: readonly Effect[]) {
  return effects.flatMap((effect) => (effect.do === "tell_refusal" ? [effect.refusal] : []));
}

test("no more are asked for than may be watched, who is left is told of once, and comes when there is room", () => {
  const history = connected();
  history.close(1006);
  history.pass(0);
  history.signIn({ max_watch: 10 });
  const answer = (message?: ClientMessage) =>
    message?.type === "watch"
      ? history.hear({ type: "snapshot", id: message.id!, users: [] })
      : assert.fail("no watch");
  const first = history.watch(...names(12));
  assert.deepEqual(sent(first), [{ type: "watch", users: names(10), id: 1 }]);
  const [refusal, ...others] = [...refusals(first), ...refusals(answer(sent(first)[0]))];
  assert.deepEqual([refusal?.code, refusal?.users, others], ["too_many_watches", ["u10", "u11"], []]);
  // A renewed token asks for those who are watched, and for nobody else.
  const renewed = history.signIn({ max_watch: 10 });
  assert.deepEqual(sent(renewed).at(-1), { type: "watch", users: names(10), id: 2 });
  assert.deepEqual(refusals(answer(sent(renewed).at(-1))), []);
  // Who leaves, and who may not be watched, make room for one each.
  history.machine.view.unwatch("u3");
  assert.deepEqual(sent(history.give({ type: "wanted" })), [
    { type: "unwatch", users: ["u3"] },
    { type: "watch", users: ["u10"], id: 3 },
  ]);
  history.hear({ type: "snapshot", id: 3, users: [] });
  const gone = { type: "error", code: "not_allowed", message: "m", users: ["u4"] } as const;
  assert.deepEqual(sent(history.hear(gone)), [{ type: "watch", users: ["u11"], id: 4 }]);
});

test("users beyond the limit are asked for again when there is room", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  history.watch("cy");
  const refusal = { type: "error", code: "too_many_watches", message: "m", id: 2 } as const;
  assert.deepEqual(refusals(history.hear(refusal))[0]?.users, ["cy"]);
  history.machine.view.unwatch("bo");
  assert.deepEqual(sent(history.give({ type: "wanted" })), [
    { type: "unwatch", users: ["bo"] },
    { type: "watch", users: ["cy"], id: 3 },
  ]);
});

test("an unwatch waits until nothing is in flight, and makes room first", () => {
  const history = connected();
  history.watch("bo");
  history.machine.view.unwatch("bo");
  history.machine.view.watch("cy");
  assert.deepEqual(sent(history.give({ type: "wanted" })), []);
  const effects = history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  assert.deepEqual(
    sent(effects).map((message) => message.type),
    ["unwatch", "watch"],
  );
});

test("who may not be watched is told, and forgotten; the others have their answer", () => {
  const history = connected();
  history.watch("bo", "cy");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5), online("cy", 5)] });
  history.machine.view.watchAllAgain();
  history.give({ type: "wanted" });
  const refusal = {
    type: "error",
    code: "not_allowed",
    message: "m",
    id: 2,
    users: ["bo"],
  } as const;
  const effects = history.hear(refusal);
  assert.ok(does(effects, "tell_refusal"));
  assert.deepEqual(told(effects), [{ ...online("bo", 5), stale: true }]);
  assert.equal(history.machine.view.get("bo"), undefined);
  assert.deepEqual(
    told(history.hear({ type: "snapshot", id: 2, users: [online("cy", 6)] })).length,
    1,
  );
});

test("a permission withdrawn is told once, and what is known then is forgotten", () => {
  const history = connected();
  history.watch("bo");
  history.hear({ type: "snapshot", id: 1, users: [online("bo", 5)] });
  const refusal = { type: "error", code: "not_allowed", message: "m", users: ["bo"] } as const;
  // The renewed token allows less: everybody is asked for again, and refused once more.
  assert.deepEqual(sent(history.signIn()).at(-1), { type: "watch", users: ["bo"], id: 2 });
  const first = history.hear(refusal);
  assert.deepEqual(told(first), [{ ...online("bo", 5), stale: true }]);
  assert.ok(does(first, "tell_refusal"));
  assert.equal(history.machine.view.get("bo"), undefined);
  assert.ok(!does(history.hear({ ...refusal, id: 2 }), "tell_refusal"));
  // It is given again, and what was is no measure for what is.
  history.signIn();
  const back = history.hear({ type: "snapshot", id: 3, users: [online("bo", 5)] });
  assert.deepEqual(told(back), [{ ...online("bo", 5), stale: false }]);
  assert.ok(does(history.hear(refusal), "tell_refusal"));
});

test("degraded is exposed, and its end too", () => {
  const history = connected();
  const during = shown(history.hear({ type: "degraded", since: 7 }));
  assert.ok(during?.phase === "connected" && during.degradedSince === 7);
  const after = shown(history.hear({ type: "degraded" }));
  assert.ok(after?.phase === "connected" && !("degradedSince" in after));
});

function query(left: string[], deadline = 1e9) {
  const outcome: { states?: State[]; error?: Error } = {};
  const asked: Query = {
    left,
    deadline,
    resolve: (states) => (outcome.states = states),
    reject: (error) => (outcome.error = error),
  };
  return { asked, outcome };
}

test("a long query is asked in parts, and its states come in the order asked", () => {
  const history = connected();
  const { asked, outcome } = query(names(600));
  let [message] = sent(history.give({ type: "query", query: asked }));
  while (message?.type === "query") {
    const users = message.users.map((user) => online(user, 1));
    [message] = sent(history.hear({ type: "snapshot", id: message.id!, users }));
  }
  assert.deepEqual(
    outcome.states?.map((state) => state.user),
    names(600),
  );
});

test("a query outlives a reconnect, but not its deadline, a refusal, or the client", () => {
  const history = connected();
  const [kept, late, refused, last] = [
    query(["a"]),
    query(["b"], history.now + 5_000),
    query(["c"]),
    query(["d"]),
  ];
  history.give({ type: "query", query: kept!.asked });
  history.close(1006);
  history.pass(0);
  assert.equal(sent(history.signIn()).at(-1)?.type, "query");
  history.hear({ type: "snapshot", id: 2, users: [online("a", 1)] });
  assert.equal(kept!.outcome.states?.length, 1);

  history.give({ type: "query", query: late!.asked });
  history.pass(5_000);
  assert.ok(
    late!.outcome.error instanceof PresenceError && late!.outcome.error.code === "timed_out",
  );

  history.give({ type: "query", query: refused!.asked });
  history.hear({ type: "error", code: "store_unavailable", message: "m", id: 4 });
  assert.ok(
    refused!.outcome.error instanceof PresenceError && refused!.outcome.error.code === "refused",
  );

  history.give({ type: "query", query: last!.asked });
  history.give({ type: "close" });
  assert.ok(last!.outcome.error instanceof PresenceError && last!.outcome.error.code === "ended");
});

const ASK = [{ type: "query", users: [], id: 0 }];
const ANSWER = { type: "snapshot", id: 0, users: [] } as const;

test("a quiet gateway is asked whether it is there once a heartbeat, and a silent one is left", () => {
  const history = connected();
  assert.deepEqual(sent(history.pass(9_500)), ASK);
  history.hear(ANSWER);
  assert.deepEqual(sent(history.pass(9_500)), ASK);
  assert.ok(!does(history.pass(20_000), "drop"));
  const effects = history.pass(1_000);
  const last = shown(effects);
  assert.ok(does(effects, "drop"));
  assert.equal(last?.phase, "connecting");
});

test("a gateway that speaks is not asked", () => {
  const history = connected();
  for (let round = 0; round < 20; round++) {
    assert.deepEqual(sent(history.pass(5_000)), []);
    history.give({ type: "heard" });
  }
});

test("after something that may have cost the socket the answer must come soon", () => {
  const history = connected();
  history.pass(2_000);
  assert.deepEqual(sent(history.give({ type: "suspect" })), ASK);
  assert.deepEqual(sent(history.give({ type: "suspect" })), [], "once is enough");
  assert.ok(!does(history.pass(4_999), "drop"));
  assert.ok(does(history.pass(1), "drop"));
});

test("a socket that was heard just before is asked a moment later, and a dead one left soon", () => {
  const history = connected();
  history.hear(ANSWER);
  history.pass(100);
  assert.deepEqual(history.give({ type: "suspect" }), []);
  assert.deepEqual(sent(history.pass(400)), ASK);
  assert.ok(!does(history.pass(4_599), "drop"));
  assert.ok(does(history.pass(1), "drop"));
});

test("a question that waits for its answer is enough, and the answer must come soon", () => {
  const history = connected();
  assert.deepEqual(sent(history.pass(9_500)), ASK);
  history.pass(100);
  assert.deepEqual(sent(history.give({ type: "suspect" })), []);
  assert.ok(!does(history.pass(4_999), "drop"));
  assert.ok(does(history.pass(1), "drop"));
});

test("a socket that is heard after it was suspected is asked no more than others", () => {
  const history = connected();
  history.hear(ANSWER);
  history.give({ type: "suspect" });
  history.pass(100);
  history.hear(ANSWER);
  assert.deepEqual(sent(history.pass(8_000)), []);
  assert.ok(!does(history.pass(15_000), "drop"));
});

test("who slept asks before it judges, and stays when the gateway answers", () => {
  const history = connected();
  history.sleep(600_000);
  assert.deepEqual(sent(history.give({ type: "time" })), ASK);
  history.hear(ANSWER);
  assert.ok(!does(history.pass(9_000), "drop"));
});

test("who slept and finds a dead socket replaces it soon", () => {
  const history = connected();
  history.sleep(600_000);
  history.give({ type: "time" });
  const effects = history.pass(5_000);
  assert.ok(does(effects, "drop") && does(effects, "dial"));
});

test("a hidden tab whose timers run once a minute keeps a live socket, and leaves a dead one", () => {
  const history = connected();
  for (let minute = 0; minute < 10; minute++) {
    history.sleep(60_000);
    assert.deepEqual(sent(history.give({ type: "time" })), ASK);
    history.hear(ANSWER);
  }
  history.sleep(60_000);
  history.give({ type: "time" });
  history.sleep(60_000);
  assert.ok(does(history.give({ type: "time" }), "drop"));
});
