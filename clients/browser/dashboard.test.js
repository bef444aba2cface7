/** The dashboard, as an operator uses it: the key, a pause, themes, load, and a gateway that dies. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { endAll, gateway, signIn, until } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";
import { complaints, listenTo } from "./complaints.js";

const API_KEY = "the-key-of-these-tests";
const CONNECTIONS = 30;
const USERS = 10;

/** What the browser says of a key that was refused, and of a gateway that is gone. */
const isExpected = (text) => text.startsWith("Failed to load resource");

let context;

before(async () => {
  // Of its own: Playwright has each page of it believe that it is in front.
  context = await (await startChromium()).browser.newContext();
});

after(async () => {
  await endChromium();
  await endAll();
});

// Each test answers for its own.
afterEach(() => assert.deepEqual(complaints.splice(0), []));

async function open(test, server) {
  const page = await context.newPage();
  test.after(() => page.close());
  await listenTo(page, isExpected);
  await page.goto(`http://127.0.0.1:${server.port}/dashboard`);
  return page;
}

async function shows(page, selector, text) {
  const place = page.locator(selector);
  await until(`${selector} shows ${text}`, async () => (await place.textContent()).includes(text));
}

const isHealthy = (page) => shows(page, "#headline", "Healthy.");

const press = (page, name) => page.getByRole("button", { name, exact: true }).click();

/** A figure, by its label. */
const figure = (page, label) =>
  page.locator("#tiles div").filter({ has: page.getByText(label, { exact: true }) }).locator(".figure").textContent();

const chart = (page, title) => page.locator("figure").filter({ hasText: title });

test("a wrong key is refused in words, the right one opens, and it stays in this tab until it is forgotten", async (test) => {
  const server = await gateway("--auth", "none", "--api-key", API_KEY);
  const page = await open(test, server);
  const enter = async (key) => {
    await page.getByLabel("Key", { exact: true }).fill(key);
    await press(page, "Show");
  };
  await shows(page, "#headline", "Locked.");
  assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
  await enter("another-key");
  await shows(page, "#refusal", "This gateway does not know that key.");
  assert.equal(await page.locator("#told").isVisible(), false);
  await enter(API_KEY);
  await isHealthy(page);
  assert.equal(await figure(page, "Connections"), "0");

  const { session, ...elsewhere } = await page.evaluate(() => ({
    address: location.href,
    cookies: document.cookie,
    field: document.getElementById("key-field").value,
    local: JSON.stringify({ ...localStorage }),
    session: JSON.stringify({ ...sessionStorage }),
  }));
  for (const [place, text] of Object.entries(elsewhere)) assert.ok(!text.includes(API_KEY), `${place}: ${text}`);
  assert.ok(session.includes(API_KEY), session);
  await page.reload();
  await isHealthy(page);
  await shows(await open(test, server), "#headline", "Locked.");

  await press(page, "Forget the key");
  await shows(page, "#headline", "Locked.");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.equal(await page.locator("#told").isVisible(), false);
  await page.reload();
  await shows(page, "#headline", "Locked.");
});

test("a page that pauses asks nothing and stays as it is, and goes on", async (test) => {
  const server = await gateway("--dev");
  const page = await open(test, server);
  await isHealthy(page);
  await press(page, "Pause");
  await shows(page, "#headline", "Paused.");

  let asked = 0;
  page.on("request", () => (asked += 1));
  const presence = signIn(server, { user: "ana" });
  const end = Date.now() + 2_500;
  await until("it would have asked twice", () => Date.now() >= end);
  assert.equal(asked, 0);
  assert.equal(await figure(page, "Connections"), "0");

  await press(page, "Pause");
  await isHealthy(page);
  await until("the figures are new", async () => (await figure(page, "Connections")) === "1");
  presence.close();
});

test("the theme is the system’s until another is chosen, also in the charts, and the choice is kept", async (test) => {
  const server = await gateway("--dev");
  const page = await open(test, server);
  await page.emulateMedia({ colorScheme: "light" });
  await isHealthy(page);
  const drawn = page.locator("#charts canvas").first();
  await drawn.waitFor();
  // Else each second brings another picture.
  await press(page, "Pause");
  const picture = () => drawn.evaluate((canvas) => canvas.toDataURL());
  const lightness = () => page.evaluate(() => Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)[0]));
  const isDark = () => until("it is dark", async () => (await lightness()) < 60);
  const isLight = () => until("it is light", async () => (await lightness()) > 200);

  await isLight();
  const light = await picture();
  await page.emulateMedia({ colorScheme: "dark" });
  await isDark();
  await until("the chart is drawn in other colours", async () => (await picture()) !== light);
  await page.getByLabel("Theme").selectOption("light");
  await isLight();
  await until("the chart is drawn as before", async () => (await picture()) === light);
  await page.reload();
  await isLight();
  await page.getByLabel("Theme").selectOption("auto");
  await isDark();
});

test("of many gateways behind one address the chosen one stays, and is said to be gone when it is", async (test) => {
  const server = await gateway("--dev");
  const page = await context.newPage();
  test.after(() => page.close());
  await listenTo(page, isExpected);
  await page.clock.install();
  let names = Array.from({ length: 8 }, (_, index) => `gateway${index}`);
  let [asked, answered] = [0, 0];
  await page.route("**/v1/stats", async (route) => {
    const name = names[asked++ % names.length];
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), gateway: name } });
    answered++;
  });
  await page.goto(`http://127.0.0.1:${server.port}/dashboard`);
  const shown = async () => (await page.locator("#about").textContent()).split(",")[0];
  // The clock would run ahead of an answer that is under way, and the page give up on it.
  const turns = async (count, eachMs = 1_000) => {
    for (const end = answered + count; answered < end; ) {
      const before = answered;
      await until("it is answered again", async () => {
        if (asked === answered) await page.clock.runFor(eachMs);
        return answered > before;
      });
    }
  };

  await until("one has answered", async () => (await shown()).startsWith("Gateway"));
  await turns(30);
  assert.equal(await shown(), "Gateway gateway0");
  await page.locator("#choice").selectOption("gateway3");
  await turns(20);
  await turns(10, 60_000);
  assert.equal(await shown(), "Gateway gateway3");
  await shows(page, "#headline", "Healthy.");

  names = names.filter((name) => name !== "gateway3");
  await turns(50);
  await shows(page, "#headline", "No answer from gateway3 since");
  assert.equal(await shown(), "Gateway gateway3");
  await page.locator("#choice").selectOption("gateway5");
  await shows(page, "#headline", "Healthy.");
});

test("figures and charts move with the load, and a killed gateway is shown as gone until it is back", async (test) => {
  const server = await gateway("--dev");
  const page = await open(test, server);
  await isHealthy(page);
  const connections = chart(page, "Connections and users");

  /** The part of a chart's height that its first line reaches. */
  const height = () =>
    connections.evaluate((figure) => {
      const canvas = figure.querySelector("canvas");
      const line = getComputedStyle(figure.querySelector(".series-1")).color.match(/\d+/g).map(Number);
      const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const isLine = (at) => line.every((part, place) => Math.abs(data[at + place] - part) < 24) && data[at + 3] > 200;
      for (let at = 0; at < data.length; at += 4) if (isLine(at)) return 1 - at / 4 / width / canvas.height;
      return 0;
    });
  await connections.locator("canvas").waitFor();
  await until("it is drawn at the bottom", async () => (await height()) < 0.3);

  const clients = Array.from({ length: CONNECTIONS }, (_, index) => signIn(server, { user: `user${index % USERS}` }));
  await until("the figure is right", async () => (await figure(page, "Connections")) === String(CONNECTIONS));
  assert.equal(await figure(page, "Users online"), String(USERS));
  await until("the line has risen", async () => (await height()) > 0.7);
  const told = await connections.getByRole("img").getAttribute("aria-label");
  assert.match(told, new RegExp(`connections from 0 to ${CONNECTIONS}; users from 0 to ${USERS}\\.`));
  await until("heartbeats are counted", async () => Number(await figure(page, "Heartbeats a second")) > 1);
  const id = (await page.locator("#about").textContent()).split(",")[0];

  await server.kill();
  await shows(page, "#headline", "No answer since");
  await shows(page, "#reasons", "It is gone, or the way to it is. What is below is what it told last.");
  assert.match(await page.title(), /^\? no answer/);
  assert.equal(await figure(page, "Connections"), String(CONNECTIONS));
  for (const client of clients) client.close();
  await server.start();
  await isHealthy(page);
  await until("it shows the new one", async () => !(await page.locator("#about").textContent()).startsWith(id));
  assert.equal(await figure(page, "Connections"), "0");
});
