/**
 * What the page knows beyond one device: who did what last, which devices there are in all windows of
 * this browser, and the gateway's times.
 *
 * Windows tell each other over a channel. The gateway cannot do that: it tells a watcher nothing at all
 * while a loss is held back, which is just what the page is to show.
 */

/** In ms, the same in all windows of this machine: their other clock stands still while it sleeps. */
export const now = () => Date.now();

export const milliseconds = (duration) => `${Math.round(duration).toLocaleString("en")} ms`;
export const seconds = (duration) => `${+(duration / 1000).toFixed(2)} s`;

/** The gateway's; until a welcome tells them, its defaults. */
export const times = { heartbeat_ms: 10_000, ttl_ms: 30_000, grace_ms: 3_000 };

/** The devices of this window. */
export const devices = new Set();

/** Those that were removed from it, as they were then: the gateway may count them still. */
const removed = [];

/** By window: `{ user, watched, phase, since }` of each of its devices. */
const elsewhere = new Map();

/** By user: when the last device that lived signed out, and watchers were told whatever else was held back. */
const signOuts = new Map();

/** By user: what the user's devices did lately, the last at the end. */
const acts = new Map();
const ACTS_MAX = 20;

/** The channel is slower than the gateway: whoever asks why something was pushed waits for it. */
const CHANNEL_MS = 100;
const CHANNEL_MAX_MS = 2_000;

/** By user: when this window was last pushed something about the user. */
const pushes = new Map();

const silenceListeners = new Set();
const me = String(Math.random());
const channel = new BroadcastChannel("presence demo");
channel.onmessage = ({ data }) => take(data);
channel.postMessage({ whoIsThere: true });

function take({ window, list, act, comeback, lastSignOut, whoIsThere }) {
  if (list) elsewhere.set(window, list);
  if (act) acts.set(act.user, [...actsOf(act.user), act].slice(-ACTS_MAX));
  if (comeback) expectSilence(comeback);
  if (lastSignOut) signOuts.set(lastSignOut.user, lastSignOut.at);
  if (whoIsThere) tellDevices();
}

const actsOf = (user) => acts.get(user) ?? [];

function tell(what) {
  channel.postMessage(what);
  take(what);
}

/** To be called when a device changed its phase. */
export function tellDevices() {
  channel.postMessage({ window: me, list: [...[...devices].map(asItIs), ...removed] });
}

const asItIs = ({ user, watched, phase, since }) => ({ user, watched, phase, since });

/** Takes a device out of this window. */
export function remove(device) {
  devices.delete(device);
  removed.push(asItIs(device));
  tellDevices();
}

/**
 * A device of this window did something. `held` says for how long the gateway has to hold an offline
 * back then, and what that time is called.
 */
export const tellAct = (user, what, at = now(), held) => tell({ act: { user, what, at, held } });

/** A device is back that was lost so lately that nobody should have been told. */
export const tellComeback = (user, lostAt, within) =>
  tell({ comeback: { user, lostAt, within, at: now() } });

/** To be called when a device signs out. */
export function tellSignOut(device) {
  const { user } = device;
  const others = devicesOf(user).filter((other) => other !== device);
  if (!others.some(isAlive)) tell({ lastSignOut: { user, at: now() } });
}

export const notePush = (user) => pushes.set(user, now());

/** Calls back with each such comeback of which this window was told nothing. */
export const onSilence = (listener) => silenceListeners.add(listener);

function expectSilence(comeback) {
  const { user, lostAt, at } = comeback;
  const look = () => {
    const wasPushed = pushes.get(user) > lostAt;
    const actedSince = actsOf(user).at(-1)?.at > at;
    if (!wasPushed && !actedSince) silenceListeners.forEach((listener) => listener(comeback));
  };
  setTimeout(look, times.grace_ms + 300);
}

/**
 * What the user did that a push or an answer is due to, as far as can be known, and a sentence with the
 * time that it took. The push before, at `since`, had causes of its own.
 */
export async function causeOf(user, { isLoss = false, since = 0 } = {}) {
  const at = now();
  const act = await lastAct(user, since, at, isLoss);
  const tookMs = at - act?.at;
  if (!(tookMs < times.ttl_ms + times.grace_ms + 5_000)) return { told: "by another page or client" };
  const told = `${milliseconds(tookMs)} after ${user} ${act.what}`;
  const moreMs = tookMs - act.held?.ms;
  if (!isLoss || !(moreMs >= 0)) return { what: act.what, told };
  return { what: act.what, told: `${told}: ${act.held.name}, and ${milliseconds(moreMs)}` };
}

/**
 * The last act that was due until `at`, as soon as there is one since `since`; else, in the end, one before
 * that. A loss is due when it is held back no longer: what was frozen first may be lost last.
 */
async function lastAct(user, since, at, isLoss) {
  const dueAt = (act) => act.at + (isLoss ? (act.held?.ms ?? 0) : 0);
  const giveUpAt = at + CHANNEL_MAX_MS;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, CHANNEL_MS));
    const due = actsOf(user).filter((act) => dueAt(act) <= at);
    const act = due.sort((a, b) => dueAt(a) - dueAt(b)).at(-1);
    if ((act && dueAt(act) >= since) || now() >= giveUpAt) return act;
  }
}

const allDevices = () => [...devices, ...removed, ...[...elsewhere.values()].flat()];
const devicesOf = (user) => allDevices().filter((device) => device.user === user);

/** The name as it is written here already, if but its capitals are others: those would be two users. */
export function asWritten(name) {
  const names = allDevices().flatMap(({ user, watched }) => [user, watched]);
  const isSame = (other) => other.localeCompare(name, undefined, { sensitivity: "accent" }) === 0;
  return names.includes(name) ? name : (names.find(isSame) ?? name);
}

/** Whether another device of the user's lives. */
export const hasAnother = (device) =>
  devicesOf(device.user).some((other) => other !== device && other.phase === "signed in");

/** Whether it is to the gateway, which cannot tell a frozen one yet. */
const isAlive = (device) =>
  device.phase === "signed in" || (device.phase === "frozen" && now() < endOf(device).ttlEnd);

/**
 * When the TTL and the grace of a device that was lost are over. A socket that closed has no TTL to
 * wait for, and a last sign-out ends the grace of all that were lost before.
 */
export function endOf({ user, phase, since }) {
  const ttlEnd = phase === "frozen" ? since + times.ttl_ms : since;
  const graceEnd = ttlEnd + times.grace_ms;
  const signOut = signOuts.get(user);
  const isToldEarlier = signOut >= ttlEnd && signOut < graceEnd;
  return { from: since, ttlEnd, graceEnd: isToldEarlier ? signOut : graceEnd, isToldEarlier };
}

/** While a user's loss is held back, that of the device which lasts longest. */
export function heldBack(user) {
  const all = devicesOf(user);
  if (all.some(({ phase }) => phase === "signed in")) return undefined;
  const lost = all.filter(({ phase }) => phase === "lost" || phase === "frozen").map(endOf);
  lost.sort((a, b) => b.graceEnd - a.graceEnd);
  return lost[0]?.graceEnd > now() ? lost[0] : undefined;
}
