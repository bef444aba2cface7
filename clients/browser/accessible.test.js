/** What axe-core finds on the pages that the gateway serves, in both themes, on a desk and on a phone. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import axe from "axe-core";
import { endAll, gateway } from "../typescript/build/gateway.js";
import { endChromium, startChromium } from "./chromium.js";

const PATHS = ["/", "/dashboard"];

let server;
let context;

before(async () => {
  server = await gateway("--dev");
  // Of its own: Playwright has each page of it believe that it is in front.
  context = await (await startChromium()).browser.newContext();
});

after(async () => {
  await endChromium();
  await endAll();
});

for (const path of PATHS) {
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [[1280, 900], [360, 740]]) {
      test(`nothing is wrong with ${path}, ${colorScheme}, ${width} pixels wide`, async () => {
        const page = await context.newPage();
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        await page.setViewportSize({ width, height });
        await page.goto(`http://127.0.0.1:${server.port}${path}`, { waitUntil: "networkidle" });
        await page.evaluate(axe.source);
        const { violations } = await page.evaluate(() => window.axe.run());
        const found = violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}\n${node.failureSummary}`));
        assert.deepEqual(found, []);
        const isWide = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;
        assert.equal(await page.evaluate(isWide), false, "it scrolls sideways");
        await page.close();
      });
    }
  }
}
