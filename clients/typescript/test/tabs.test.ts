/** Several tabs in one process, with locks of their own making, against the real gateway program. */
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { after, test } from "node:test";
import type { Presence } from "presence-client";
import { type TabsOptions, connectTabs } from "presence-client/tabs";
import { WebSocket } from "ws";
import {
  SECRET,
  endAll,
  gateway,
  isConnected,
  jwt,
  sees,
  signIn,
  signal,
  until,
} from "./gateway.js";

// Browsers that have Web Locks have it too; Node 18 has it under another name.
if (!("crypto" in globalThis)) Object.assign(globalThis, { crypto: webcrypto });

/** Web Locks, as far as this needs them: one holder for each name, and others in turn. */
class FakeLocks {
  readonly #turns = new Map<string, Promise<unknown>>();

  request(
    name: string,
    { signal: ending }: { signal: AbortSignal },
    run: () => unknown,
  ): Promise<unknown> {
    const before = this.#turns.get(name) ?? Promise.resolve();
    const turn = before.then(() => {
      ending.throwIfAborted();
      return run();
    });
    this.#turns.set(
      name,
      turn.catch(() => {}),
    );
    return turn;
  }
}

after(endAll);
const started = gateway("--dev");

/** One browser with as many tabs, and how often it dialed. */
async function browser(user: string, count: number) {
  const { url } = await started;
  const dials: WebSocket[] = [];
  class Counted extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      dials.push(this);
    }
  }
  const shared = {
    name: user,
    user,
    signal,
    locks: new FakeLocks(),
    WebSocket: Counted,
    backoffMinMs: 100,
  };
  const open = (more: Partial<TabsOptions> = {}) => connectTabs(url, { ...shared, ...more });
  const tabs = Array.from({ length: count }, () => open());
  await until("all tabs are connected", () => tabs.every((tab) => isConnected(tab)()));
  return { tabs, dials, open };
}

const closeAll = (tabs: Presence[]) => tabs.forEach((tab) => tab.close());

test("a mistake in the options is said at once, as by connect", () => {
  const make = (options: object, url = "ws://gateway.test/ws") =>
    connectTabs(url, { name: "x", locks: new FakeLocks(), WebSocket, ...options } as never);
  assert.throws(() => make({}), /Say who signs in/);
  assert.throws(() => make({ user: "ana" }, "not a url"), /Invalid URL/);
  assert.throws(() => make({ user: "ana", device: "iPhone 15" }), /A device is/);
  assert.throws(() => connectTabs("ws://gateway.test/ws", undefined as never), /Say who signs in/);
});

test("twenty tabs share one socket, and each is told of whom it watches", async () => {
  const { tabs, dials } = await browser("ana", 20);
  const bo = signIn(await started, { user: "bo" });
  const told = tabs.map((tab, index) => {
    const states: string[] = [];
    tab.watch(index === 0 ? "cy" : ["bo", "cy"], (news) =>
      states.push(...news.map((s) => `${s.user} ${s.state}`)),
    );
    return states;
  });
  await until("all see bo", () => tabs.slice(1).every((tab) => sees(tab, "bo", "online")()));
  await bo.signOut();
  await until("all see bo leave", () => tabs.slice(1).every((tab) => sees(tab, "bo", "offline")()));
  assert.equal(dials.length, 1);
  assert.ok(told[0]!.every((state) => state.startsWith("cy")));
  assert.deepEqual(
    (await tabs[3]!.query(["bo", "di"])).map((state) => state.user),
    ["bo", "di"],
  );
  closeAll(tabs);
});

test("when the tab that owns the socket closes another takes over, and nothing is shown", async () => {
  const { tabs, dials } = await browser("eva", 4);
  const [bo, cy] = [signIn(await started, { user: "bo2" }), signIn(await started, { user: "cy2" })];
  const told: string[] = [];
  const seen: string[] = [];
  cy.watch("eva", (states) => seen.push(...states.map((state) => state.state)));
  for (const tab of tabs.slice(1))
    tab.watch("bo2", (states) => told.push(...states.map((s) => `${s.state} ${s.stale}`)));
  await until("all see bo", () => told.filter((state) => state === "online false").length === 3);
  await until("cy sees eva", () => seen.at(-1) === "online");
  const before = [told.length, seen.length];
  tabs[0]!.close();
  await until(
    "the socket moved",
    () => dials.length === 2 && tabs.slice(1).every((tab) => isConnected(tab)()),
  );
  const end = Date.now() + 1_500;
  await until("the grace is over", () => Date.now() > end);
  assert.equal((await tabs[2]!.query("bo2"))[0]?.state, "online");
  assert.deepEqual([told.length, seen.length], before);
  await bo.signOut();
  await until("all see bo leave", () =>
    tabs.slice(1).every((tab) => sees(tab, "bo2", "offline")()),
  );
  closeAll(tabs);
  cy.close();
});

test("a socket that is lost is one socket again, and tabs that come later are told at once", async () => {
  const { tabs, dials, open } = await browser("flo", 3);
  const bo = signIn(await started, { user: "bo3" });
  tabs[0]!.watch("bo3");
  await until("seen", sees(tabs[0]!, "bo3", "online"));
  dials[0]!.terminate();
  await until("back", () => dials.length === 2 && tabs.every((tab) => isConnected(tab)()));
  const late = open();
  late.watch("bo3");
  await until("seen there too", sees(late, "bo3", "online"));
  await until("and still seen", () => tabs[0]!.get("bo3")?.stale === false);
  assert.equal(dials.length, 2);
  closeAll([...tabs, late, bo]);
});

test("a status is that of all tabs, wherever the socket is", async () => {
  const { tabs, dials } = await browser("gil", 3);
  const bo = signIn(await started, { user: "bo4" });
  bo.watch("gil");
  tabs[1]!.setStatus("busy", "writing");
  await until("shown", () => bo.get("gil")?.text === "writing");
  tabs[2]!.setStatus("away");
  await until("shown", () => bo.get("gil")?.show === "away");
  const told: unknown[] = [];
  bo.watch("gil", (states) => told.push(...states));
  tabs[0]!.close();
  await until("the socket moved", () => dials.length === 2 && isConnected(tabs[1]!)());
  const end = Date.now() + 1_500;
  await until("the grace is over", () => Date.now() > end);
  await bo.query("gil");
  assert.ok(
    told.every((state) => (state as { show?: string }).show === "away"),
    JSON.stringify(told),
  );
  closeAll([...tabs, bo]);
});

test("signing out in one tab signs out all", async () => {
  const { tabs } = await browser("hal", 3);
  const bo = signIn(await started, { user: "bo5" });
  bo.watch("hal");
  await until("seen", sees(bo, "hal", "online"));
  await tabs[2]!.signOut();
  await until("gone", sees(bo, "hal", "offline"), 900);
  await until("all tabs ended", () => tabs.every((tab) => tab.connection.phase === "ended"));
  assert.ok(
    tabs[1]!.connection.phase === "ended" && tabs[1]!.connection.reason.message === "Signed out.",
  );
  for (const { connection } of tabs) {
    assert.equal(connection.phase === "ended" && connection.reason.kind, "signed_out");
  }
  bo.close();
});

test("every tab says why there is no connection, whatever the token function throws", async () => {
  const { url } = await started;
  const shared = { signal, locks: new FakeLocks(), WebSocket, backoffMinMs: 100 };
  for (const [what, message] of [
    [new Error("no session"), "no session"],
    [Symbol("none"), "Symbol(none)"],
  ] as const) {
    const token = () => {
      throw what;
    };
    const tabs = [1, 2].map(() => connectTabs(url, { ...shared, name: `ida ${message}`, token }));
    const reasons = () =>
      tabs.map(({ connection: c }) => (c.phase === "waiting" ? c.reason : undefined));
    await until("both wait", () => reasons().every((reason) => reason?.kind === "token"));
    for (const reason of reasons()) assert.equal((reason?.error as Error).message, message);
    closeAll(tabs);
  }
});

test("while the gateway is out of reach every tab says so, and all come back with the socket", async () => {
  const { url } = await started;
  let isDown = false;
  const dials: WebSocket[] = [];
  class Line extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(isDown ? "ws://127.0.0.1:1/" : url, protocols);
      dials.push(this);
    }
  }
  const shared = { name: "jo", user: "jo", signal, locks: new FakeLocks(), WebSocket: Line };
  const wait = { connectTimeoutMs: 200, backoffMinMs: 400, backoffMaxMs: 400 };
  const tabs = [1, 2, 3].map(() => connectTabs(url, { ...shared, ...wait }));
  const all = (is: (tab: Presence) => boolean) => () => tabs.every(is);
  await until("all connected", all((tab) => isConnected(tab)()));
  assert.ok(all(({ connection: c }) => c.phase === "connected" && c.graceMs === 1_000)());
  const told = tabs.map((tab) => {
    const reasons = new Set<string>();
    tab.on("connection", (c) => c.phase === "waiting" && reasons.add(c.reason.message));
    return reasons;
  });
  isDown = true;
  dials[0]!.terminate();
  await until("several attempts", () => dials.length > 4);
  isDown = false;
  await until("the socket is back", () => dials.at(-1)!.readyState === 1);
  await until("all connected", all((tab) => isConnected(tab)()), 200);
  for (const reasons of told) {
    assert.deepEqual([...reasons].sort(), ["No connection.", "The connection was lost."]);
  }
  closeAll(tabs);
});

test("what goes wrong in the real client is told to every tab", async () => {
  const { url } = await started;
  const grant = () => {
    throw new Error("no grant");
  };
  const shared = { name: "kim", user: "kim", signal, locks: new FakeLocks(), WebSocket, grant };
  const tabs = [1, 2].map(() => connectTabs(url, shared));
  const errors = tabs.map((tab) => {
    const messages: string[] = [];
    tab.on("error", (error) => messages.push((error as Error).message));
    return messages;
  });
  tabs[1]!.watch("bo");
  await until("both are told", () => errors.every((messages) => messages.length > 0));
  assert.deepEqual(errors, [["no grant"], ["no grant"]]);
  closeAll(tabs);
});

test("a tab that has lost patience comes when the socket is there, and not when its wait is over", async (context) => {
  context.mock.method(Math, "random", () => 0.99);
  let give = (_token: string) => {};
  const token = () => new Promise<string>((resolve) => (give = resolve));
  const at = await gateway("--auth", "jwt", "--jwt-secret", SECRET);
  const shared = { name: "lea", signal, locks: new FakeLocks(), WebSocket, token };
  const first = connectTabs(at.url, shared);
  const second = connectTabs(at.url, { ...shared, connectTimeoutMs: 100, backoffMinMs: 200 });
  const waits = () => second.connection.phase === "waiting" && second.connection.retryInMs > 3_000;
  await until("the second waits for long", waits);
  give(jwt("lea", 60));
  await until("both are connected", () => [first, second].every((tab) => isConnected(tab)()), 1_500);
  closeAll([first, second]);
});
