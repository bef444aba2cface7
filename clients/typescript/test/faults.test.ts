/**
 * Many clients in one process on the gateways of `presence-loadtest verify`, while it breaks them
 * and their Redis: whenever it has waited until all must be the truth, every view is.
 *
 * `CLIENTS=1000 SECONDS=120 node --test build/faults.test.js` is the large run.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import type { Presence } from "presence-client";
import { msgpack } from "presence-client/msgpack";
import { WebSocket } from "ws";
import { PROGRAM, endAll, env, signIn } from "./gateway.js";

const CLIENTS = Number(process.env.CLIENTS ?? 60);
const SECONDS = Number(process.env.SECONDS ?? 20);
const WATCHED = 20;

/** Things break for so long in each round; users act no longer than that. */
const ROUND_MS = 20_000;
const ACTS_PER_ROUND = CLIENTS / 2;

after(endAll);

const name = (index: number) => `node${index % CLIENTS}`;

/** Whom a client watches: its neighbours, wherever they are. */
const watched = (index: number) =>
  Array.from({ length: WATCHED }, (_, step) => name(index + step + 1));

test(`${CLIENTS} clients see the truth after whatever breaks`, async (context) => {
  const times = ["--heartbeat", "2s", "--ttl", "6s", "--grace", "2s"];
  const size = ["--gateways", "2", "--users", "50", "--watch", "5", "--acts", "5"];
  const random = ["--seed", String(Date.now() % 1_000), "--duration", `${SECONDS}s`];
  const args = ["verify", "--gateway", PROGRAM, ...times, ...size, ...random];
  const verify = spawn(join(dirname(PROGRAM), "presence-loadtest"), args, {
    env,
    stdio: ["ignore", "ignore", "pipe"],
    signal: context.signal,
  });
  const ended = once(verify, "exit");

  let urls: string[] = [];
  const clients = new Map<number, Presence>();
  const start = (index: number) => {
    // The gateways stand behind one address: who cannot reach the first is sent to the second.
    let dials = index;
    class Balanced extends WebSocket {
      constructor(_: string, protocols: string[]) {
        super(urls[dials++ % urls.length]!, protocols);
      }
    }
    const codec = index % 3 === 0 ? { codec: msgpack } : {};
    const presence = signIn({ url: urls[0]! }, { user: name(index), WebSocket: Balanced, ...codec });
    presence.watch(watched(index));
    clients.set(index, presence);
  };

  /** Somebody comes, or goes with or without a word. */
  const act = () => {
    const index = Math.floor(Math.random() * CLIENTS);
    const presence = clients.get(index);
    if (!presence) return start(index);
    clients.delete(index);
    if (Math.random() < 0.5) void presence.signOut();
    else presence.close();
  };
  const actForAWhile = () => {
    const acting = setInterval(act, ROUND_MS / ACTS_PER_ROUND);
    setTimeout(() => clearInterval(acting), ROUND_MS);
  };

  const wrong: string[] = [];
  let compared = 0;
  const compare = () => {
    for (const [index, presence] of clients) {
      for (const user of watched(index)) {
        const isHere = clients.has(Number(user.slice("node".length)));
        const state = presence.get(user)?.state;
        compared += 1;
        if (state === (isHere ? "online" : "offline")) continue;
        wrong.push(`${name(index)} sees ${user} ${state}, ${presence.connection.phase}`);
      }
    }
  };

  for await (const line of createInterface(verify.stderr)) {
    if (/seed|break|healed|judged/.test(line)) context.diagnostic(line);
    const addresses = line.match(/clients may connect to (.*), and/)?.[1];
    if (addresses) urls = addresses.split(", ");
    // With more behind it, it is a line of progress.
    if (/: everybody signs in$/.test(line)) for (let index = 0; index < CLIENTS; index++) start(index);
    if (/: churn and faults$/.test(line)) actForAWhile();
    if (/judged/.test(line)) compare();
  }
  const [code] = await ended;
  for (const presence of clients.values()) presence.close();
  const memory = Math.round(process.memoryUsage().rss / 1e6);
  context.diagnostic(`verify ended with ${code}; ${compared} views compared; ${memory} MB`);
  assert.ok(compared >= 2 * (CLIENTS / 3) * WATCHED, "too little was compared");
  assert.deepEqual(wrong, []);
});
