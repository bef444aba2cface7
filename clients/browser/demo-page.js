/** The demo page in one window, as a person uses it: cards, buttons, and what is to be seen. */
import { until } from "../typescript/build/gateway.js";
import { listenTo } from "./complaints.js";

export class DemoPage {
  static async open(context, gateway) {
    const page = await context.newPage();
    await listenTo(page);
    await page.addInitScript(() => {
      // When a person acted, by the same clock as what is seen.
      addEventListener("click", (event) => (window.actedAt = performance.timeOrigin + event.timeStamp), true);
    });
    await page.goto(`http://127.0.0.1:${gateway.port}/`);
    const demo = new DemoPage(page);
    await demo.card("Ana’s phone").isSignedIn();
    return demo;
  }

  constructor(page) {
    this.page = page;
  }

  card(name) {
    return new Card(this, this.page.getByRole("region", { name, exact: true }));
  }

  actedAt() {
    return this.page.evaluate(() => actedAt);
  }

  /** What was not seen to happen yet, of the list of things to try. */
  stepsToDo() {
    return this.page.locator(".steps li:not(.done)").allTextContents();
  }
}

class Card {
  constructor(demo, region) {
    this.demo = demo;
    this.region = region;
  }

  press(button) {
    return this.region.getByRole("button", { name: button, exact: true }).click();
  }

  show(status) {
    return this.region.getByRole("radio", { name: status, exact: true }).check();
  }

  fill(field, value) {
    const input = this.region.getByLabel(field, { exact: true });
    return input.fill(value).then(() => input.press("Enter"));
  }

  async shows(selector, text) {
    const place = this.region.locator(selector);
    await until(`${selector} shows ${text}`, async () => (await place.textContent()).includes(text));
  }

  async saysNoMore(selector, text) {
    const place = this.region.locator(selector);
    await until(`${selector} says no more ${text}`, async () => !(await place.textContent()).includes(text));
  }

  isSignedIn() {
    return this.shows(".link", "signed in");
  }

  pushes() {
    return this.region.locator(".log").textContent();
  }

  /** From now on notes each change of what the card shows of the watched user, and when it was. */
  observe() {
    return this.region.evaluate((card) => {
      const read = () => {
        const [dot, who, state] = [".face .dot", ".who", ".state"].map((part) => card.querySelector(part));
        return { look: dot.className.replace("dot ", ""), text: `${who.textContent}: ${state.textContent}` };
      };
      window.seen = [read()];
      const note = () => {
        const now = { at: performance.timeOrigin + performance.now(), ...read() };
        const last = seen.at(-1);
        if (now.look !== last.look || now.text !== last.text) seen.push(now);
      };
      new MutationObserver(note).observe(card.querySelector(".view"), {
        attributes: true,
        characterData: true,
        childList: true,
        subtree: true,
      });
    });
  }

  seen() {
    return this.demo.page.evaluate(() => seen);
  }

  async until(look) {
    let last;
    const isThere = async () => (last = (await this.seen()).at(-1)).look === look;
    await until(`the dot is ${look}`, isThere);
    return last;
  }
}
