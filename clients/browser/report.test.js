/** The page of a load test, as whoever it is sent to opens it: a file, with nothing beside it. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import axe from "axe-core";
import { PROGRAM, endAll, gateway } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";
import { complaints, listenTo } from "./complaints.js";

const CONNECTIONS = 40;

const folder = mkdtempSync(join(tmpdir(), "presence-report-"));
const file = join(folder, "report.html");
let context;

before(async () => {
  const server = await gateway("--dev");
  const tester = join(dirname(PROGRAM), "presence-loadtest");
  const args = ["--connections", CONNECTIONS, "--rate", "40/s", "--watch", "5", "--duration", "3s", "--heartbeat", "500ms"];
  const where = ["--url", `ws://127.0.0.1:${server.port}/ws`, "--pid", server.pid, "--html", file];
  await promisify(execFile)(tester, ["run", ...args, ...where].map(String));
  context = await (await startChromium()).browser.newContext();
});

after(async () => {
  await endChromium();
  await endAll();
  rmSync(folder, { recursive: true });
});

// Each test answers for its own.
afterEach(() => assert.deepEqual(complaints.splice(0), []));

async function open(test, look = {}, [width, height] = [1280, 900]) {
  const page = await context.newPage();
  test.after(() => page.close());
  await listenTo(page);
  await page.emulateMedia(look);
  await page.setViewportSize({ width, height });
  await page.goto(pathToFileURL(file).href);
  return page;
}

/** Colours in a chart: one, where nothing was drawn. */
const colours = (canvas) =>
  canvas.evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });

test("every chart is drawn, told in words, and has its figures in a table", async (test) => {
  const page = await open(test);
  const charts = page.locator("figure", { has: page.locator(".chart") });
  const count = await charts.count();
  assert(count >= 10, `${count} charts`);
  for (let place = 0; place < count; place += 1) {
    const chart = charts.nth(place);
    const title = await chart.locator("figcaption").textContent();
    assert((await colours(chart.locator("canvas"))) > 2, title);
    assert.match(await chart.getByRole("img").getAttribute("aria-label"), /from .* to /, title);
    await chart.locator("summary").click();
    assert((await chart.locator("tbody tr").count()) >= 3, title);
  }
  const connections = page.getByRole("img", { name: /^Connections open/ });
  assert.match(await connections.getAttribute("aria-label"), new RegExp(`to ${CONNECTIONS}\\.`));
  const errors = page.locator("figure", { hasText: "Errors a second" });
  assert.match(await errors.textContent(), /None in any second/);
});

test("charts take the colours and the width that are given to them later", async (test) => {
  const page = await open(test, { colorScheme: "light" });
  const canvas = page.locator("canvas").first();
  const light = await canvas.evaluate((canvas) => canvas.toDataURL());
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction((light) => document.querySelector("canvas").toDataURL() !== light, light);
  const { width } = await canvas.boundingBox();
  await page.setViewportSize({ width: 700, height: 900 });
  await page.waitForFunction((before) => document.querySelector("canvas").getBoundingClientRect().width < before, width);
});

for (const colorScheme of ["light", "dark"]) {
  for (const size of [[1280, 900], [360, 740]]) {
    test(`nothing is wrong with it, ${colorScheme}, ${size[0]} pixels wide`, async (test) => {
      const page = await open(test, { colorScheme }, size);
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`)), []);
      const isWide = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;
      assert.equal(await page.evaluate(isWide), false, "it scrolls sideways");
    });
  }
}
