/**
 * A real Chromium with a fresh profile, and Playwright to speak with it. It is started here and not by
 * Playwright, whose flags would take away what is to be tested: throttled timers in hidden tabs, and
 * the back/forward cache.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const ON_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";

const FLAGS = [
  "--headless",
  "--remote-debugging-port=0",
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-dev-shm-usage",
  "--disable-gpu",
  "--disable-sync",
  // It speaks with nobody but this machine.
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  // Root has no sandbox. The pages are our own.
  ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
];

const started = [];

export async function startChromium(...flags) {
  const profile = mkdtempSync(join(tmpdir(), "presence-chromium-"));
  const args = [...FLAGS, ...flags, `--user-data-dir=${profile}`, "about:blank"];
  // A process group of its own, so that it can be stopped and ended whole.
  const child = spawn(program(), args, { detached: true, stdio: ["ignore", "ignore", "pipe"] });
  const chromium = new Chromium(child, profile);
  started.push(chromium);
  await chromium.connect();
  return chromium;
}

export const endChromium = () => Promise.all(started.map((one) => one.end()));

class Chromium {
  constructor(child, profile) {
    this.child = child;
    this.profile = profile;
  }

  async connect() {
    this.browser = await chromium.connectOverCDP(await this.#endpoint(), { noDefaults: true });
    // As a person's: of its tabs one is in front, and the others are hidden.
    [this.context] = this.browser.contexts();
  }

  async #endpoint() {
    let said = "";
    this.child.stderr.setEncoding("utf8");
    for await (const chunk of this.child.stderr) {
      said += chunk;
      const endpoint = /^DevTools listening on (ws:\S+)/m.exec(said)?.[1];
      if (endpoint) {
        // Whoever does not read what it says makes it wait.
        this.child.stderr.resume();
        return endpoint;
      }
    }
    throw new Error(`Chromium did not start: ${said.trim()}`);
  }

  /** To all of its processes. */
  signal(signal) {
    process.kill(-this.child.pid, signal);
  }

  async end() {
    await this.browser?.close().catch(() => {});
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = once(this.child, "exit");
      this.signal("SIGKILL");
      await ended;
    }
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

function program() {
  const { CHROMIUM, PATH = "" } = process.env;
  if (CHROMIUM) return CHROMIUM;
  const places = PATH.split(":").flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const found = [...places, ON_MACOS].find((path) => existsSync(path));
  if (found) return found;
  throw new Error("no Chromium found: install it (Debian: chromium), or name it with CHROMIUM");
}
