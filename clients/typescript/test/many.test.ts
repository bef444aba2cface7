/**
 * Many clients in one process against two gateways on one Redis, through a killed gateway and a
 * paused Redis: at the end every view is right, and meanwhile nobody who stayed was shown offline.
 *
 * `CLIENTS=1000 node --test build/many.test.js` is the large run.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Presence, type UserState } from "presence-client";
import { msgpack } from "presence-client/msgpack";
import { WebSocket } from "ws";
import { endAll, gateway, isConnected, redis, signIn, until } from "./gateway.js";

const CLIENTS = Number(process.env.CLIENTS ?? 60);
const WATCHED = 20;

/** A machine with little to spare must not take slow clients for dead ones. */
const BEAT = ["--heartbeat", "2s", "--ttl", "8s", "--grace", "3s"];

after(endAll);

const name = (index: number) => `user${index % CLIENTS}`;

/** Whom a client watches: its neighbours, wherever they are. */
const watched = (index: number) =>
  Array.from({ length: WATCHED }, (_, step) => name(index + step + 1));

test(`${CLIENTS} clients see the truth after a gateway was killed and Redis paused`, async (context) => {
  const store = await redis();
  const shared = ["--dev", "--redis-url", `redis://127.0.0.1:${store.port}`, ...BEAT];
  const [killed, kept] = await Promise.all([gateway(...shared), gateway(...shared)]);

  const clients: Presence[] = [];
  const backMs: number[] = [];
  const falseOffline = new Set<string>();
  let killedAt = 0;
  const gone = new Set<string>();

  const start = (index: number) => {
    // The gateways stand behind one address: who cannot reach the first is sent to the second.
    let dials = 0;
    class Balanced extends WebSocket {
      constructor(_: string, protocols: string[]) {
        super((index + dials++) % 2 === 0 ? killed.url : kept.url, protocols);
      }
    }
    const codec = index % 3 === 0 ? { codec: msgpack } : {};
    const presence = signIn(kept, { user: name(index), WebSocket: Balanced, ...codec });
    presence.watch(watched(index));
    let wasRight = false;
    presence.on("change", (states: readonly UserState[]) => {
      wasRight ||= watched(index).every((user) => presence.get(user)?.state === "online");
      for (const { user, state } of states) {
        if (wasRight && state === "offline" && !gone.has(user)) falseOffline.add(user);
      }
    });
    presence.on("connection", ({ phase }) => {
      if (phase === "connected" && killedAt > 0) backMs.push(Date.now() - killedAt);
    });
    return presence;
  };

  for (let index = 0; index < CLIENTS; index += 50) {
    for (let next = index; next < Math.min(index + 50, CLIENTS); next++) clients.push(start(next));
    await until("the batch is connected", () => clients.every((client) => isConnected(client)()));
  }
  const isRight = (presence: Presence, index: number) =>
    watched(index).every((user) => {
      const state = presence.get(user);
      return state && !state.stale && (state.state === "offline") === gone.has(user);
    });
  const wrong = () =>
    clients.filter((client, index) => !gone.has(name(index)) && !isRight(client, index)).length;
  const allRight = async (when: string) => {
    const began = Date.now();
    await until(`every view is right ${when}, but ${wrong()} are not`, () => wrong() === 0);
    return Date.now() - began;
  };
  context.diagnostic(`views right at first after ${await allRight("at first")} ms`);

  killedAt = Date.now();
  await killed.kill();
  await until("all are back", () => clients.every((client) => isConnected(client)()));
  backMs.sort((a, b) => a - b);
  const at = (share: number) => backMs[Math.floor((backMs.length - 1) * share)];
  context.diagnostic(
    `${backMs.length} came back after ${at(0)} to ${at(1)} ms, half of them by ${at(0.5)} ms`,
  );
  killedAt = 0;
  await killed.start();

  store.signal("SIGSTOP");
  const paused = Date.now() + 4_000;
  // Some sign out while nobody can know, and some just close.
  for (let index = 0; index < CLIENTS; index += 10) {
    gone.add(name(index));
    if (index % 20 === 0) void clients[index]!.signOut();
    else clients[index]!.close();
  }
  await until("the pause is over", () => Date.now() > paused);
  store.signal("SIGCONT");
  const healedMs = await allRight("after the pause");
  context.diagnostic(
    `views right ${healedMs} ms after the pause; memory ${Math.round(process.memoryUsage().rss / 1e6)} MB`,
  );

  assert.deepEqual([...falseOffline], [], "shown offline though they stayed");
  for (const client of clients) client.close();
});
