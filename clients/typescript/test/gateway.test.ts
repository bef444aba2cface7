/** The package against the real gateway program. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Connection, type UserState } from "presence-client";
import { msgpack } from "presence-client/msgpack";
import {
  type Program,
  SECRET,
  endAll,
  gateway,
  isConnected,
  jwt,
  redis,
  sees,
  signIn,
  until,
} from "./gateway.js";

after(endAll);

let dev: Promise<Program> | undefined;
const devGateway = () => (dev ??= gateway("--dev"));

for (const [name, codec] of [
  ["JSON", {}],
  ["MessagePack", { codec: msgpack }],
] as const) {
  test(`contacts see each other, and a sign-out at once, in ${name}`, async () => {
    const at = await devGateway();
    const ana = signIn(at, { user: `ana-${name}`, ...codec });
    const bo = signIn(at, {
      user: `bo-${name}`,
      device: "web",
      status: { show: "away" },
      ...codec,
    });
    const told: UserState[] = [];
    ana.watch(`bo-${name}`, (states) => told.push(...states));
    await until("ana sees bo", () => told.at(-1)?.show === "away");
    bo.setStatus("busy", "à midi ☕");
    await until("ana sees the status", () => told.at(-1)?.text === "à midi ☕");
    assert.deepEqual(
      (await ana.query([`bo-${name}`, "nobody"])).map((state) => state.state),
      ["online", "offline"],
    );
    const before = Date.now();
    await bo.signOut();
    await until("ana sees bo leave", () => told.at(-1)?.state === "offline");
    assert.ok(Date.now() - before < 900, "before the grace was over");
    ana.close();
  });
}

test("a socket that is dropped and comes back shows nothing to anybody", async () => {
  const at = await devGateway();
  const ana = signIn(at, { user: "ana" });
  let drop = () => {};
  const { WebSocket } = await import("ws");
  class Droppable extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      drop = () => this.terminate();
    }
  }
  const bo = signIn(at, { user: "bo", WebSocket: Droppable });
  const told: string[] = [];
  const seen: string[] = [];
  ana.watch("bo", (states) => told.push(...states.map((state) => state.state)));
  bo.watch("ana", (states) => seen.push(...states.map((state) => `${state.state} ${state.stale}`)));
  await until(
    "both see each other",
    () => told.at(-1) === "online" && seen.at(-1) === "online false",
  );
  const [toldBefore, seenBefore] = [told.length, seen.length];
  const phases: string[] = [];
  bo.on("connection", ({ phase }) => phases.push(phase));
  drop();
  await until("bo is back", () => phases.at(-1) === "connected");
  assert.deepEqual(phases, ["waiting", "connecting", "connected"]);
  // A query comes back after all that the gateway had to say before it.
  const done = Date.now() + 1_500;
  await until("the grace is over", () => Date.now() > done);
  await Promise.all([ana.query("bo"), bo.query("ana")]);
  assert.deepEqual([told.length, seen.length], [toldBefore, seenBefore]);
  ana.close();
  bo.close();
});

test("a gateway that falls silent is noticed within the TTL and a bit, and found again", async () => {
  const at = await gateway("--dev");
  const ana = signIn(at, { user: "ana", connectTimeoutMs: 1_000 });
  await until("connected", isConnected(ana));
  const reasons: string[] = [];
  ana.on("connection", (connection) => {
    if (connection.phase === "waiting") reasons.push(connection.reason.kind);
  });
  at.signal("SIGSTOP");
  await until("noticed", () => reasons.length > 0, 5_000);
  assert.equal(reasons[0], "silent");
  at.signal("SIGCONT");
  await until("connected again", isConnected(ana));
  ana.close();
});

test("the question whether the gateway is there keeps a quiet connection for many TTLs", async () => {
  const at = await devGateway();
  const ana = signIn(at, { user: "quiet" });
  await until("connected", isConnected(ana));
  const phases: Connection[] = [];
  ana.on("connection", (connection) => phases.push(connection));
  const end = Date.now() + 5_000;
  await until("three TTLs are over", () => Date.now() > end);
  assert.deepEqual(phases, []);
  ana.close();
});

test("tokens: a bad one ends, a short one is renewed without losing the session", async () => {
  const at = await gateway("--auth", "jwt", "--jwt-secret", SECRET);
  const bad = signIn(at, { token: "bad" });
  await until("refused", () => bad.connection.phase === "ended");
  assert.ok(bad.connection.phase === "ended" && bad.connection.reason.closeCode === 4002);

  let calls = 0;
  const ana = signIn(at, { token: () => (calls++, jwt("ana", 4)) });
  await until("connected", isConnected(ana));
  const { session } = ana.connection as Connection & { phase: "connected" };
  await until("renewed", () => calls >= 2);
  assert.equal((await ana.query("bo")).length, 1);
  assert.equal((ana.connection as Connection & { phase: "connected" }).session, session);
  ana.close();
});

test("whom a token does not allow is refused by name, and the others are watched", async () => {
  const at = await gateway("--auth", "jwt", "--jwt-secret", SECRET);
  const ana = signIn(at, { token: jwt("ana", 60, { watch: ["bo", "team:*"] }) });
  const refused: string[] = [];
  ana.on("refused", ({ users }) => refused.push(...(users ?? [])));
  ana.watch(["bo", "cy", "team:di"]);
  await until(
    "the others are known",
    () => ana.get("bo") !== undefined && ana.get("team:di") !== undefined,
  );
  await until("refused", () => refused.length > 0);
  assert.deepEqual(refused, ["cy"]);
  assert.deepEqual(await ana.query("cy"), []);
  ana.close();
});

test("a draining gateway moves its clients to another one, unseen", async () => {
  const store = await redis();
  const shared = ["--dev", "--redis-url", `redis://127.0.0.1:${store.port}`];
  const [one, two] = await Promise.all([gateway(...shared, "--drain", "2s"), gateway(...shared)]);
  const ana = signIn(two, { user: "ana" });
  // What a load balancer does: the first that takes connections.
  const { WebSocket } = await import("ws");
  let dials = 0;
  class Balanced extends WebSocket {
    constructor(_: string, protocols: string[]) {
      super(dials++ === 0 ? one.url : two.url, protocols);
    }
  }
  const bo = signIn(one, { user: "bo", WebSocket: Balanced });
  const told: string[] = [];
  ana.watch("bo", (states) => told.push(...states.map((state) => state.state)));
  await until("ana sees bo", () => told.at(-1) === "online");
  const before = told.length;
  let wasDraining = false;
  bo.on("connection", (connection) => {
    wasDraining ||= connection.phase === "connected" && connection.drainingMs !== undefined;
  });
  one.signal("SIGTERM");
  await until("bo moved", () => dials === 2 && isConnected(bo)());
  assert.ok(wasDraining);
  await until("the gateway is gone", () =>
    fetch(`http://127.0.0.1:${one.port}/healthz`).then(
      () => false,
      () => true,
    ),
  );
  const end = Date.now() + 1_500;
  await until("the grace is over", () => Date.now() > end);
  await ana.query("bo");
  assert.equal(told.length, before);
  ana.close();
  bo.close();
});

test("while the store is away states stay, degraded is told, and its end too", async () => {
  const store = await redis();
  const at = await gateway("--dev", "--redis-url", `redis://127.0.0.1:${store.port}`);
  const [ana, bo] = [signIn(at, { user: "ana" }), signIn(at, { user: "bo" })];
  ana.watch("bo");
  await until("ana sees bo", sees(ana, "bo", "online"));
  const degraded = () =>
    ana.connection.phase === "connected" && ana.connection.degradedSince !== undefined;
  store.signal("SIGSTOP");
  await until("degraded", degraded);
  assert.equal(ana.get("bo")?.state, "online");
  store.signal("SIGCONT");
  await until("no longer degraded", () => !degraded());
  assert.equal(ana.get("bo")?.state, "online");
  ana.close();
  bo.close();
});
