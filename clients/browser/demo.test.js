/** The demo page: two windows, every button, what is pushed and when, and what is not. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { endAll, gateway, until } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";
import { complaints } from "./complaints.js";
import { DemoPage } from "./demo-page.js";

const GRACE_MS = 2_000;
const TTL_MS = 3_000;
const TIMES = ["--heartbeat", "1s", "--ttl", `${TTL_MS}ms`, "--grace", `${GRACE_MS}ms`];

/** From when a change may be pushed until the dot shows it. A machine that tests is a busy one. */
const LATE_MAX_MS = 1_000;

let server;
let context;

before(async () => {
  server = await gateway("--dev", ...TIMES);
  // Of its own: Playwright has each page of it believe that it is in front.
  context = await (await startChromium()).browser.newContext();
});

after(async () => {
  await endChromium();
  await endAll();
});

/** Two windows: in one Ana watches Bo, in the other Bo is played. */
async function windows(test) {
  const [one, other] = await Promise.all([DemoPage.open(context, server), DemoPage.open(context, server)]);
  test.after(() => Promise.all([one.page.close(), other.page.close()]));
  const ana = one.card("Ana’s phone");
  await ana.observe();
  return { one, other, ana, bo: other.card("Bo’s phone") };
}

// Each test answers for its own.
afterEach(() => assert.deepEqual(complaints.splice(0), []));

test("each button of one window moves the dot in another at once, or when grace or TTL are over", async (test) => {
  const { one, other, ana, bo } = await windows(test);
  const laptop = other.card("Bo’s laptop");

  const moves = async (what, act, heldMs, look) => {
    await act();
    const { at } = await ana.until(look);
    const lateMs = at - (await other.actedAt()) - heldMs;
    test.diagnostic(`${what}: ${look} after ${heldMs} + ${lateMs.toFixed(1)} ms`);
    assert.ok(lateMs >= 0 && lateMs < LATE_MAX_MS, `${what}: ${lateMs} ms`);
  };

  await ana.until("offline");
  await moves("Sign in", () => bo.press("Sign in"), 0, "online");
  for (const show of ["away", "busy", "online"]) await moves(show, () => bo.show(show), 0, show);
  await moves("invisible", () => bo.show("invisible"), 0, "offline");
  await moves("online again", () => bo.show("online"), 0, "online");
  await bo.press("Drop for 1 s");
  await ana.shows(".log", "nothing was pushed");
  await moves("Drop socket", () => bo.press("Drop socket"), GRACE_MS, "offline");
  await moves("Sign in", () => bo.press("Sign in"), 0, "online");
  await moves("Sign out", () => bo.press("Sign out"), 0, "offline");
  await moves("Sign in", () => bo.press("Sign in"), 0, "online");
  await bo.isSignedIn();
  await moves("Freeze", () => bo.press("Freeze"), TTL_MS + GRACE_MS, "offline");
  await moves("Thaw", () => bo.press("Thaw"), 0, "online");

  await other.page.getByRole("button", { name: "Add a device" }).click();
  await laptop.press("Sign in");
  await ana.shows(".state", "online, on laptop and phone");
  await bo.press("Drop socket");
  await ana.saysNoMore(".state", "and phone");
  await until("all is ticked off that the page says to try", async () => (await one.stepsToDo()).length === 0);
  await laptop.press("Remove this device");
  await ana.until("offline");
});

test("a socket that is back within the grace changes nothing in another window, in no frame", async (test) => {
  const { one, ana, bo } = await windows(test);
  await bo.press("Sign in");
  await ana.until("online");
  await bo.isSignedIn();

  await one.page.bringToFront();
  await ana.region.evaluate((card) => {
    window.framesSeen = new Map();
    window.held = 0;
    const look = () => {
      const parts = [".face .dot", ".who", ".state"].map((part) => card.querySelector(part));
      const shown = parts.map((part) => `${part.className} ${part.textContent}`).join(", ");
      framesSeen.set(shown, (framesSeen.get(shown) ?? 0) + 1);
      held += card.querySelector(".hold").classList.contains("on");
      requestAnimationFrame(look);
    };
    look();
  });
  const before = (await ana.seen()).length;
  await bo.press("Drop for 1 s");
  await bo.shows(".link", "socket lost");
  await bo.isSignedIn();
  await ana.shows(".log", "nothing was pushed: Bo was away for 1");

  const { frames, held } = await one.page.evaluate(() => ({ frames: [...framesSeen], held }));
  assert.equal(frames.length, 1, JSON.stringify(frames));
  assert.equal((await ana.seen()).length, before);
  assert.ok(frames[0][1] > 10, `${frames[0][1]} frames`);
  assert.ok(held > 0, "the bar that shows what is held back was never there");
});

test("a device that thaws within its TTL was never away", async (test) => {
  const { ana, bo } = await windows(test);
  await bo.press("Sign in");
  await ana.until("online");
  await bo.isSignedIn();
  const before = (await ana.seen()).length;
  await bo.press("Freeze");
  await bo.shows(".link", "frozen");
  await ana.shows(".hold p", "Bo is silent");
  await bo.press("Thaw");
  await bo.isSignedIn();
  await ana.shows(".log", "nothing was pushed: Bo was away for");
  assert.equal((await ana.seen()).length, before);
});

/** Bo's phone and laptop, both signed in, and Ana sees them. */
async function withALaptop(test) {
  const { other, ana, bo } = await windows(test);
  await bo.press("Sign in");
  await bo.isSignedIn();
  await other.page.getByRole("button", { name: "Add a device" }).click();
  const laptop = other.card("Bo’s laptop");
  await laptop.press("Sign in");
  await ana.shows(".state", "online, on laptop and phone");
  return { ana, bo, laptop };
}

test("a last sign-out ends the grace of a device that was lost before, in its card too", async (test) => {
  const { ana, bo, laptop } = await withALaptop(test);
  await bo.press("Drop socket");
  await laptop.press("Sign out");
  await ana.until("offline");
  await bo.shows(".life p", "Another device signed out: watchers were told.");
  assert.equal(await ana.region.locator(".hold.on").count(), 0);
});

test("a frozen device that is removed counts for its TTL and grace, and is the cause in the end", async (test) => {
  const { ana, bo, laptop } = await withALaptop(test);
  await laptop.press("Freeze");
  await laptop.shows(".link", "frozen");
  await laptop.press("Remove this device");
  await bo.press("Drop socket");
  await bo.shows(".life p", "Nobody is told yet: another device of Bo’s counts for longer.");
  await ana.shows(".hold p", "Bo is silent");
  await ana.shows(".hold p", "Bo is gone");
  await bo.shows(".life p", "Nobody is told yet");
  await ana.until("offline");
  await bo.shows(".life p", "Grace is over: watchers were told.");
  await ana.shows(".log", "after Bo froze: TTL and grace, and");
});

test("a device may be another's, and watch somebody else", async (test) => {
  const { one, other, ana } = await windows(test);
  await other.card("Bo’s phone").fill("I am", "Cy");
  await other.card("Cy’s phone").press("Sign in");
  await ana.fill("and watch", "Cy");
  await ana.until("online");
  await one.card("Bo’s phone").fill("and watch", "Cy");
  await other.card("Cy’s phone").press("Sign out");
  await ana.until("offline");
});

test("a name whose capitals are others is the user who is known already, in whichever window", async (test) => {
  const { one, other, ana, bo } = await windows(test);
  await bo.press("Sign in");
  await ana.fill("and watch", "BO");
  await ana.until("online");
  await ana.shows(".who", "Bo");
  await ana.shows(".log", "took BO for Bo");

  await ana.fill("and watch", "Dee");
  await ana.until("offline");
  const asWritten = () => import("/demo/scene.js").then(({ asWritten }) => asWritten("dee"));
  await until("the other window knows Dee", async () => (await other.page.evaluate(asWritten)) === "Dee");
  await bo.fill("I am", "dee");
  await other.card("Dee’s phone").isSignedIn();
  await ana.until("online");
  assert.equal(await one.card("Ana’s phone").region.getByLabel("and watch").inputValue(), "Dee");
});
