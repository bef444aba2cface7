// The page: asks the gateway once a second, and shows what it told.

import { measures } from "./charts.js";
import { byId, element, write } from "./dom.js";
import { place } from "./drawing.js";
import { showFigures } from "./figures.js";
import { judge } from "./health.js";
import { History } from "./history.js";
import { clock, time } from "./words.js";

const ASK_MS = 1_000;
const PATIENCE_MS = 3_000;

/** A gateway is gone when it could have answered so often and others did, be it in turn or at random. */
const TURNS_MAX = 5;

/** For who wants nothing to move, the charts are drawn this rarely. */
const STILL_MS = 10_000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

const form = byId("key"); // there where a key is needed
const charts = place(byId("charts"));

// Behind one address there may be many gateways, and each answers for itself.
const histories = new Map();
let answers = 0; // of all of them; each history has the count of its latest as `answer`
let shown = null; // the gateway, of these
let isChosen = false; // by a person, and so it stays when it is gone
let trouble = null; // why the last question was not answered, and since when questions are not
let drawnAt = 0; // when the charts were

// ---- Asking.

let key = form && kept(() => sessionStorage).getItem("presence-key");
let isPaused = false;

async function ask() {
  const asker = key;
  const isWanted = () => key === asker && !isPaused; // and the key not forgotten meanwhile
  try {
    const answer = await fetch("v1/stats", {
      headers: form ? { authorization: `Bearer ${key}` } : {},
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (!isWanted()) return;
    if (answer.status === 401 && form)
      return lock("This gateway does not know that key. It is one of those in its setting api_key.");
    if (!answer.ok) throw new Error(`It answers with HTTP ${answer.status}.`);
    const stats = await answer.json();
    if (!isWanted()) return;
    learn(stats);
  } catch (error) {
    if (!isWanted()) return;
    const why = error.name === "Error" ? error.message : "It is gone, or the way to it is.";
    trouble = { since: trouble?.since ?? Date.now(), why };
  }
  render();
}

function learn(stats) {
  const wasAway = trouble !== null;
  trouble = null;
  const history = histories.get(stats.gateway) ?? new History(measures);
  histories.set(stats.gateway, history);
  history.add(stats, Date.now(), around(history));
  history.answer = ++answers;
  if (!shown || (!isChosen && (wasAway || isGone(histories.get(shown))))) shown = stats.gateway;
}

/** How many gateways take turns, as far as it was seen since this one answered: itself, and those that did after it. */
function around({ answer }) {
  return 1 + [...histories.values()].filter((other) => other.answer > answer).length;
}

/** By answers and not by time: a hidden page asks rarely. */
function isGone(history) {
  return answers - history.answer > TURNS_MAX * around(history);
}

async function askForEver() {
  for (;;) {
    const asked = performance.now();
    if (!isPaused && (key || !form)) await ask().catch(fail);
    await new Promise((done) => setTimeout(done, Math.max(100, ASK_MS - (performance.now() - asked))));
  }
}

/** Nothing here should, but then what is shown would be old and look new. */
function fail(error) {
  reportError(error);
  say("no answer", "This page has failed: load it again.", []);
}

// ---- The key.

function lock(why = "") {
  key = null;
  kept(() => sessionStorage).removeItem("presence-key");
  histories.clear();
  shown = trouble = null;
  isChosen = false;
  drawnAt = 0;
  setPaused(false);
  byId("told").hidden = byId("forget").hidden = byId("pause").hidden = true;
  form.hidden = false;
  say("locked", "Locked.", []);
  write(byId("refusal"), why);
  form.elements.key.focus();
}

function unlock(event) {
  event.preventDefault();
  const given = form.elements.key.value.trim();
  // Nothing else can be in a header.
  if (!/^[\x20-\x7e]+$/.test(given))
    return write(byId("refusal"), "A key has letters, digits and signs of ASCII only.");
  key = given;
  kept(() => sessionStorage).setItem("presence-key", key);
  form.reset();
  form.hidden = true;
  byId("forget").hidden = byId("pause").hidden = false;
  sayAsking();
}

/** A browser may keep nothing for a page, and says so by throwing. */
function kept(storage) {
  try {
    return storage();
  } catch {
    return { getItem: () => null, setItem() {}, removeItem() {} };
  }
}

// ---- Showing.

function render() {
  const history = histories.get(shown);
  const { state, headline, reasons } = verdict(history);
  say(state, headline, reasons);
  if (!history || document.hidden) return;
  byId("told").hidden = false;
  byId("told").classList.toggle("stale", trouble !== null || isPaused || isGone(history));
  about(history.now.stats);
  showFigures(history);
  charts.tell(history);
  if (!still.matches || Date.now() - drawnAt >= STILL_MS) {
    drawnAt = Date.now();
    charts.draw();
  }
}

function verdict(history) {
  if (isPaused) return { state: "waiting", headline: "Paused.", reasons: [] };
  if (trouble) return noAnswer(`No answer since ${clock(trouble.since)}.`, trouble.why, history);
  if (!isGone(history)) return judge(history);
  return noAnswer(`No answer from ${shown} since ${clock(history.now.at)}.`, "Others at this address answer.", history);
}

function noAnswer(headline, why, history) {
  const detail = history ? `${why} What is below is what it told last.` : why;
  return { state: "no answer", headline, reasons: [{ detail }] };
}

const SIGNS = { healthy: "✓", degraded: "!", "not ready": "✕", "no answer": "?", locked: "", waiting: "" };

/** The one look. Only the headline is read out, and only when it is another. */
function say(state, headline, reasons) {
  byId("state").dataset.state = state;
  write(byId("sign"), SIGNS[state]);
  write(byId("headline"), headline);
  const list = byId("reasons");
  while (list.children.length > reasons.length) list.lastElementChild.remove();
  reasons.forEach(({ detail }, index) =>
    write(list.children[index] ?? list.appendChild(element("li")), detail),
  );
  document.title = `${SIGNS[state]} ${state} · presence gateway`.trim();
}

function sayAsking() {
  say("waiting", "Asking the gateway…", []);
}

function about({ gateway, up_ms: upMs, settings }) {
  const store = settings.store === "embedded" ? "a store of its own" : settings.store;
  write(
    byId("about"),
    `Gateway ${gateway}, up for ${time(Math.floor(upMs / 1000))}, on ${store}. Heartbeat ${settings.heartbeat}, TTL ${settings.ttl}, grace ${settings.grace}.`,
  );
  const choice = byId("choice");
  if (choice.options.length !== histories.size)
    choice.replaceChildren(...[...histories.keys()].map((id) => new Option(id)));
  choice.value = shown;
  choice.parentElement.hidden = histories.size < 2;
}

// ---- What the controls do.

const theme = byId("theme");
theme.value = kept(() => localStorage).getItem("presence-theme") ?? "auto";
theme.onchange = () => {
  kept(() => localStorage).setItem("presence-theme", theme.value);
  colour();
};

function colour() {
  document.documentElement.style.colorScheme = theme.value === "auto" ? "light dark" : theme.value;
  charts.redraw();
}

byId("pause").onclick = () => {
  setPaused(!isPaused);
  if (isPaused) render();
  else sayAsking(); // what was told last may be long ago
};

function setPaused(wanted) {
  isPaused = wanted;
  byId("pause").ariaPressed = String(wanted);
}

byId("choice").onchange = ({ target }) => {
  shown = target.value;
  isChosen = true;
  drawnAt = 0;
  render();
};
if (form) {
  form.onsubmit = unlock;
  byId("forget").onclick = () => lock();
  byId("forget").hidden = !key;
  if (!key) lock();
}
matchMedia("(prefers-color-scheme: dark)").onchange = colour;
document.onvisibilitychange = () => shown && render();
colour();
askForEver();
