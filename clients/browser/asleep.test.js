/**
 * Pages whose scripts do not run: in a hidden tab, whose timers are held back to one a minute, and on a
 * machine that sleeps, of which a stopped browser is the image.
 *
 * `LONG=1` has the default times: a page is hidden for eight minutes, and a browser asleep for one.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { endAll, gateway, isConnected, sees, signIn, until } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";
import { site } from "./site.js";

const IS_LONG = process.env.LONG === "1";
const TTL_MS = IS_LONG ? 30_000 : 3_000;
const GRACE_MS = IS_LONG ? 3_000 : 1_000;
const TIMES = ["--heartbeat", `${TTL_MS / 3}ms`, "--ttl", `${TTL_MS}ms`, "--grace", `${GRACE_MS}ms`];
const LATE_MAX_MS = 1_000;

/** A hidden page is held back after five minutes, unless a flag says otherwise. */
const HIDDEN_FLAGS = IS_LONG ? [] : ["--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1"];
const HIDDEN_MS = IS_LONG ? 8 * 60_000 : 3 * TTL_MS;
const ASLEEP_MS = IS_LONG ? 60_000 : 2 * (TTL_MS + GRACE_MS);

let pages;
let server;

before(async () => {
  pages = await site();
  server = await gateway("--auth", "none", ...TIMES);
});

after(async () => {
  await endChromium();
  pages.end();
  await endAll();
});

async function open(context, watched, options) {
  const page = await context.newPage();
  await page.goto(pages.app);
  await page.evaluate(([url, watched, options]) => signIn(url, watched, options), [server.url, watched, options]);
  return page;
}

function observer(user) {
  const offlineAt = [];
  const presence = signIn(server, { user: "observer" });
  presence.watch(user, ([{ state }]) => state === "offline" && offlineAt.push(Date.now()));
  return { presence, offlineAt };
}

/** Comes true when so much time is over. */
const later = (ms) => {
  const end = Date.now() + ms;
  return () => Date.now() >= end;
};

test("a hidden page stays online for three TTLs, though its timers hardly run, and is told what changes", async (test) => {
  const { context } = await startChromium(...HIDDEN_FLAGS);
  const { presence, offlineAt } = observer("bo");
  const hidden = await open(context, ["cy"], { user: "bo" });
  await until("bo is seen online", sees(presence, "bo", "online"));
  offlineAt.length = 0;

  const front = await context.newPage();
  await front.bringToFront();
  await until("the page is hidden", () => hidden.evaluate(() => document.hidden));
  const ticks = () => hidden.evaluate(() => ticks);
  const isHeldBack = async () => {
    const before = await ticks();
    await until("a while is over", later(1_500));
    return (await ticks()) === before;
  };
  await until("its timers are held back", isHeldBack, 10 * 60_000);

  const before = await ticks();
  await until("three TTLs are over", later(HIDDEN_MS), HIDDEN_MS + 1_000);
  test.diagnostic(`in ${HIDDEN_MS} ms a timer of 100 ms ran ${(await ticks()) - before} times`);
  assert.deepEqual(offlineAt, []);
  const cy = signIn(server, { user: "cy" });
  await until("the hidden page sees cy", async () => (await hidden.evaluate(() => clients[0].presence.get("cy")))?.state === "online");
  const connections = await hidden.evaluate(() => clients[0].phases.filter(({ phase }) => phase === "connected").length);
  assert.equal(connections, 1, "it had to come back");
  cy.close();
  presence.close();
});

test("a browser that sleeps is seen offline in time, and its page is right soon after it wakes", async (test) => {
  const chromium = await startChromium();
  const { presence, offlineAt } = observer("dee");
  const eve = signIn(server, { user: "eve" });
  await until("eve is there", isConnected(eve));
  const page = await open(chromium.context, ["eve"], { user: "dee" });
  await until("dee is seen online", sees(presence, "dee", "online"));
  const seesEve = (state) => async () => (await page.evaluate(() => clients[0].presence.get("eve")))?.state === state;
  await until("the page sees eve", seesEve("online"));
  offlineAt.length = 0;

  const asleepAt = Date.now();
  chromium.signal("SIGSTOP");
  await until("dee is seen offline", sees(presence, "dee", "offline"), ASLEEP_MS);
  const afterMs = offlineAt.at(-1) - asleepAt;
  test.diagnostic(`others saw it after ${afterMs} ms`);
  assert.ok(afterMs < TTL_MS + GRACE_MS + LATE_MAX_MS, `${afterMs} ms`);
  await eve.signOut();
  await until("it has slept", later(asleepAt + ASLEEP_MS - Date.now()), ASLEEP_MS + 1_000);

  const awakeAt = Date.now();
  chromium.signal("SIGCONT");
  await until("the page sees that eve is gone", seesEve("offline"), 15_000);
  test.diagnostic(`the page was right ${Date.now() - awakeAt} ms after it woke`);
  await until("dee is seen online", sees(presence, "dee", "online"), 5_000);
  presence.close();
});
