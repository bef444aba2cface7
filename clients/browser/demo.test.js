/** The demo page: two windows, every button, what is pushed and when, and what is not. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { endAll, gateway } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";
import { DemoPage, complaints } from "./demo-page.js";

const GRACE_MS = 2_000;
const TTL_MS = 4_000;
const TIMES = ["--heartbeat", "1s", "--ttl", `${TTL_MS}ms`, "--grace", `${GRACE_MS}ms`];

/** From when a change may be pushed until the dot shows it. A machine that tests is a busy one. */
const LATE_MAX_MS = 1_000;

let server;
let context;

before(async () => {
  server = await gateway("--dev", ...TIMES);
  ({ context } = await startChromium());
});

after(async () => {
  await endChromium();
  await endAll();
});

/** Two windows: in one Ana watches Bo, in the other Bo is played. */
async function windows() {
  const [one, other] = await Promise.all([DemoPage.open(context, server), DemoPage.open(context, server)]);
  const ana = one.card("Ana’s phone");
  await ana.observe();
  return { one, other, ana, bo: other.card("Bo’s phone") };
}

async function close({ one, other }) {
  await Promise.all([one.page.close(), other.page.close()]);
  assert.deepEqual(complaints, []);
}

test("each button of one window moves the dot in another at once, or when grace or TTL are over", async (context) => {
  const both = await windows();
  const { other, ana, bo } = both;
  const laptop = other.card("Bo’s laptop");

  const moves = async (what, act, heldMs, look) => {
    await act();
    const { at } = await ana.until(look);
    const lateMs = at - (await other.actedAt()) - heldMs;
    context.diagnostic(`${what}: ${look} after ${heldMs} + ${lateMs.toFixed(1)} ms`);
    assert.ok(lateMs >= 0 && lateMs < LATE_MAX_MS, `${what}: ${lateMs} ms`);
  };

  await moves("Sign in", () => bo.press("Sign in"), 0, "online");
  for (const show of ["away", "busy", "online"]) await moves(show, () => bo.show(show), 0, show);
  await moves("invisible", () => bo.show("invisible"), 0, "offline");
  await moves("online again", () => bo.show("online"), 0, "online");
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
  await ana.shows(".state", "online, on laptop");
  await laptop.press("Remove this device");
  await ana.until("offline");
  await close(both);
});

test("a socket that is back within the grace changes nothing in another window, in no frame", async () => {
  const both = await windows();
  const { one, ana, bo } = both;
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
  await close(both);
});

test("a device that thaws within its TTL was never away", async () => {
  const both = await windows();
  const { ana, bo } = both;
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
  await close(both);
});

test("all that the page says to try can be done, and is ticked off", async () => {
  const both = await windows();
  const { one, other, ana, bo } = both;
  const laptop = other.card("Bo’s laptop");
  await bo.press("Sign in");
  await ana.until("online");
  await bo.isSignedIn();
  await bo.press("Drop for 1 s");
  await ana.shows(".log", "nothing was pushed");
  await bo.press("Drop socket");
  await ana.until("offline");
  await bo.press("Sign in");
  await bo.isSignedIn();
  await bo.press("Sign out");
  await ana.until("offline");
  await bo.press("Sign in");
  await bo.isSignedIn();
  await bo.press("Freeze");
  await ana.until("offline");
  await bo.press("Thaw");
  await bo.isSignedIn();
  await bo.show("invisible");
  await ana.until("offline");
  await bo.show("online");
  await ana.until("online");
  await other.page.getByRole("button", { name: "Add a device" }).click();
  await laptop.press("Sign in");
  await ana.shows(".state", "online, on laptop and phone");
  await bo.press("Drop socket");
  await ana.shows(".state", "online, on laptop");
  assert.equal(await one.stepsDone(), 7);
  await close(both);
});

test("a device may be another's, and watch somebody else", async () => {
  const both = await windows();
  const { one, other, ana } = both;
  await other.card("Bo’s phone").fill("I am", "Cy");
  await other.card("Cy’s phone").press("Sign in");
  await ana.fill("and watch", "Cy");
  await ana.until("online");
  await one.card("Bo’s phone").fill("and watch", "Cy");
  await other.card("Cy’s phone").press("Sign out");
  await ana.until("offline");
  await close(both);
});
