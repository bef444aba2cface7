/** The npm package in a page: networks that are cut, pages that are put away, tabs, a killed gateway. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { endAll, gateway, isConnected, redis, sees, signIn, until } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";
import { lineTo } from "./line.js";
import { site } from "./site.js";

const API_KEY = "the key of these tests";
const TTL_MS = 4_000;
const GRACE_MS = 2_000;
const TIMES = ["--heartbeat", "1s", "--ttl", `${TTL_MS}ms`, "--grace", `${GRACE_MS}ms`];

/** How much later than the TTL and the grace an offline may be shown at the latest. */
const LATE_MAX_MS = 1_000;

const TABS = 20;
const PAGES = 5;
const CLIENTS_OF_A_PAGE = 10;

let pages;
let server;
let context;

before(async () => {
  pages = await site();
  server = await gateway("--auth", "none", "--api-key", API_KEY, ...TIMES);
  ({ context } = await startChromium());
});

after(async () => {
  await endChromium();
  pages.end();
  await endAll();
});

/** A page with one client. */
async function open({ url }, watched, options) {
  const page = await context.newPage();
  await page.goto(pages.app);
  await page.evaluate(([url, watched, options]) => signIn(url, watched, options), [url, watched, options]);
  return page;
}

const phase = (page) => page.evaluate(() => clients[0].presence.connection.phase);
const shows = (page, user, state) => async () =>
  (await page.evaluate((user) => clients[0].presence.get(user), user))?.state === state;

async function untilConnected(page) {
  await until("the page is connected", async () => (await phase(page)) === "connected");
}

/** Somebody outside the browser who watches these users, and all that was told. */
function observer(gateway, watched) {
  const states = [];
  const presence = signIn(gateway, { user: "observer" });
  presence.watch(watched, (told) => {
    for (const { user, state } of told) states.push({ user, state, at: Date.now() });
  });
  return { presence, states, offlineAt: () => states.findLast(({ state }) => state === "offline")?.at };
}

test("a page whose network was cut notices before its TTL is over, and is right soon after the network is back", async (test) => {
  // What tells is the browser's word that it is offline: an open socket stays open.
  const times = ["--heartbeat", "5s", "--ttl", "12s", "--grace", "1s"];
  const server = await gateway("--auth", "none", ...times);
  const line = await lineTo(server);
  const page = await open(line, ["cy"], { user: "bo" });
  const { presence, offlineAt } = observer(server, ["bo"]);
  await until("bo is seen online", sees(presence, "bo", "online"));
  await untilConnected(page);

  const cutAt = Date.now();
  line.cut();
  await context.setOffline(true);
  const cy = signIn(server, { user: "cy" });
  await until("cy is there", isConnected(cy));
  await until("the page notices", async () => (await phase(page)) !== "connected");
  const noticedMs = Date.now() - cutAt;
  test.diagnostic(`the page noticed after ${noticedMs} ms`);
  assert.ok(noticedMs < 7_000, `${noticedMs} ms`);
  await until("bo is seen offline", sees(presence, "bo", "offline"));
  const afterMs = offlineAt() - cutAt;
  test.diagnostic(`others saw it after ${afterMs} ms`);
  assert.ok(afterMs < 13_000 + LATE_MAX_MS, `${afterMs} ms`);

  const backAt = Date.now();
  line.mend();
  await context.setOffline(false);
  await until("the page sees cy", shows(page, "cy", "online"), 5_000);
  test.diagnostic(`the page was right ${Date.now() - backAt} ms after the network was back`);
  await until("bo is seen online", sees(presence, "bo", "online"));
  cy.close();
  presence.close();
  line.end();
  await page.close();
});

test("a page that comes out of the back/forward cache is right again", async (test) => {
  const page = await open(server, ["dee"], { user: "eve" });
  const { presence } = observer(server, ["eve"]);
  await until("eve is seen online", sees(presence, "eve", "online"));
  await untilConnected(page);

  await page.goto(pages.elsewhere);
  await until("eve is seen offline", sees(presence, "eve", "offline"));
  const dee = signIn(server, { user: "dee" });
  await until("dee is there", isConnected(dee));

  const backAt = Date.now();
  await page.evaluate(() => history.back());
  await until("the page is back", async () => page.url() === pages.app && (await page.evaluate(() => window.wasPersisted)));
  await until("the page sees dee", shows(page, "dee", "online"));
  test.diagnostic(`the page was right ${Date.now() - backAt} ms after it was asked for`);
  await until("eve is seen online", sees(presence, "eve", "online"));
  dee.close();
  presence.close();
  await page.close();
});

test(`${TABS} tabs of a user share one socket, and whose tab has it does not matter`, async (test) => {
  const options = { user: "fay", name: "chat fay" };
  const { presence, states } = observer(server, ["fay"]);
  const tabs = [];
  for (let tab = 0; tab < TABS; tab += 1) tabs.push(await open(server, ["gus"], options));
  for (const tab of tabs) await untilConnected(tab);
  await until("fay is seen online", sees(presence, "fay", "online"));
  assert.equal((await sessions("fay")).length, 1);

  const gus = signIn(server, { user: "gus" });
  for (const tab of tabs) await until("each tab sees gus", shows(tab, "gus", "online"));
  const at = await Promise.all(tabs.map((tab) => tab.evaluate(() => clients[0].states.findLast(({ state }) => state === "online").at)));
  test.diagnostic(`${TABS} tabs saw it within ${Math.max(...at) - Math.min(...at)} ms`);

  const [owner] = await sessions("fay");
  await tabs.shift().close();
  await until("another tab has the socket", async () => (await sessions("fay")).some(({ id }) => id !== owner.id));
  for (const tab of tabs) await untilConnected(tab);
  assert.equal((await sessions("fay")).length, 1);
  await gus.signOut();
  for (const tab of tabs) await until("each tab sees gus go", shows(tab, "gus", "offline"));

  await Promise.all(tabs.map((tab) => tab.close()));
  await until("fay is seen offline", sees(presence, "fay", "offline"));
  assert.deepEqual(states.filter(({ user }) => user === "fay").map(({ state }) => state).slice(-2), ["online", "offline"]);
  presence.close();
});

async function sessions(user) {
  const headers = { authorization: `Bearer ${API_KEY}` };
  const answer = await fetch(`http://127.0.0.1:${server.port}/v1/users/${user}/sessions`, { headers });
  return (await answer.json()).sessions;
}

test(`${PAGES * CLIENTS_OF_A_PAGE} clients of pages come back to a restarted gateway, spread, and none shows another offline`, async (test) => {
  const store = await redis();
  // Longer than a busy machine needs to start a gateway.
  const times = ["--heartbeat", "5s", "--ttl", "20s", "--grace", "3s"];
  const killed = await gateway("--auth", "none", "--redis-url", `redis://127.0.0.1:${store.port}`, ...times);
  const users = Array.from({ length: PAGES * CLIENTS_OF_A_PAGE }, (_, index) => `user${index}`);
  const crowd = [];
  for (let index = 0; index < PAGES; index += 1) {
    const own = users.slice(index * CLIENTS_OF_A_PAGE, (index + 1) * CLIENTS_OF_A_PAGE);
    const page = await context.newPage();
    await page.goto(pages.app);
    await page.evaluate(([url, users, own]) => own.forEach((user) => signIn(url, users, { user })), [killed.url, users, own]);
    crowd.push(page);
  }
  const isRight = (page) =>
    page.evaluate((users) => clients.every(({ presence }) => presence.connection.phase === "connected" && users.every((user) => presence.get(user)?.state === "online" && !presence.get(user).stale)), users);
  for (const page of crowd) await until("each page sees all", () => isRight(page));

  const killedAt = Date.now();
  await killed.kill();
  const noticed = (page) => page.evaluate(() => clients.every(({ presence }) => presence.connection.phase !== "connected"));
  for (const page of crowd) await until("each page notices", () => noticed(page));
  await killed.start();
  const readyMs = Date.now() - killedAt;
  for (const page of crowd) await until("each page sees all again", () => isRight(page));

  const told = (page) => page.evaluate((since) => clients.map(({ states, phases }) => ({
    backMs: phases.find(({ at, phase }) => at > since && phase === "connected").at - since,
    offline: states.filter(({ at, state }) => at > since && state === "offline"),
  })), killedAt);
  const all = (await Promise.all(crowd.map(told))).flat();
  const backMs = all.map((client) => client.backMs).sort((a, b) => a - b);
  const [first, median, last] = [0, backMs.length >> 1, backMs.length - 1].map((index) => backMs[index]);
  test.diagnostic(`the gateway was back after ${readyMs} ms, the clients after ${first}, ${median}, ${last} ms (first, median, last)`);
  assert.deepEqual(all.flatMap((client) => client.offline), []);
  assert.ok(last - first > 100, `all came back within ${last - first} ms`);
  await Promise.all(crowd.map((page) => page.close()));
});
