/** How a device looks, and what its buttons do. */
import { Device, look } from "./device.js";
import { asWritten, devices, endOf, hasAnother, heldBack, now, seconds, times } from "./scene.js";
import { tick } from "./steps.js";

const RING = { boxShadow: ["0 0 0 0 var(--now)", "0 0 0 1.1rem transparent"] };
const LOG_MAX = 60;
const isStill = matchMedia("(prefers-reduced-motion: reduce)");

/** One that runs down: it keeps its width. */
const left = (until) => `${(Math.max(0, until - now()) / 1000).toFixed(1)} s`;

/** A live region speaks whenever it is written. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export class Card {
  constructor(user, label, watched) {
    const template = document.getElementById("device");
    this.element = template.content.firstElementChild.cloneNode(true);
    this.find = (selector) => this.element.querySelector(selector);
    this.device = new Device(user, label, watched, this);
    this.mini = document.querySelector(".strip").appendChild(document.createElement("span"));
    this.mini.append(document.createElement("i"), "");
    document.querySelector(".devices").append(this.element);
    this.#bindNames();
    this.#bindButtons();
    this.render();
  }

  #bindNames() {
    const { device } = this;
    const label = this.find("[name=label]");
    label.value = device.label;
    label.onchange = () => device.become({ label: label.value });
    for (const name of ["user", "watched"]) {
      const field = this.find(`[name=${name}]`);
      field.value = device[name];
      field.onchange = () => {
        const typed = field.value.trim().normalize();
        const value = typed ? this.#known(typed) : device[name];
        field.value = value;
        if (value === device[name]) return;
        if (name === "watched") device.setWatched(value);
        else device.become({ user: value });
      };
    }
  }

  /** What looks like one user to people should be one. */
  #known(typed) {
    const name = asWritten(typed);
    if (name !== typed) this.log(`took ${typed} for ${name}`, "to the gateway these are two users", "own");
    return name;
  }

  #bindButtons() {
    for (const button of this.element.querySelectorAll("[data-do]")) {
      button.onclick = () => button.ariaDisabled !== "true" && this.device[button.dataset.do]();
    }
    const group = `show-${Math.random()}`;
    for (const radio of this.element.querySelectorAll("[type=radio]")) {
      radio.name = group;
      radio.onchange = () => this.device.setShow(radio.value);
    }
  }

  /** Offers to take the device away. */
  allowRemoval(then) {
    const button = this.find(".remove");
    button.hidden = false;
    button.onclick = () => {
      this.device.remove();
      this.element.remove();
      this.mini.remove();
      then();
    };
  }

  pushed(state, cause) {
    tick(state, cause);
  }

  ring() {
    if (!isStill.matches) this.find(".dot").animate(RING, 1_000);
  }

  /** The detail may be a promise. */
  async log(text, detail = "", kind = "told") {
    const entry = document.createElement("li");
    entry.className = kind;
    entry.append(text);
    const small = document.createElement("small");
    if (detail) entry.append(small);
    const list = this.find(".log");
    list.prepend(entry);
    if (list.children.length > LOG_MAX) list.lastElementChild.remove();
    small.append(await detail);
  }

  render() {
    const { device } = this;
    const name = `${device.user}’s ${device.label}`;
    this.element.ariaLabel = name;
    put(this.find("h2"), name);
    this.#renderLink();
    this.#renderView(name);
    this.renderClock();
  }

  #renderLink() {
    const { phase, isConnecting, isLive } = this.device;
    const link = this.find(".link");
    put(link, isConnecting ? "connecting" : phase === "lost" ? "socket lost" : phase);
    link.classList.toggle("up", isLive);
    const may = {
      signIn: !isLive && phase !== "frozen" && !isConnecting,
      thaw: phase === "frozen",
    };
    for (const button of this.element.querySelectorAll("[data-do]")) {
      button.ariaDisabled = String(!(may[button.dataset.do] ?? isLive));
    }
    this.find("[data-do=freeze]").hidden = may.thaw;
    this.find("[data-do=thaw]").hidden = !may.thaw;
    this.find("fieldset").disabled = may.thaw;
    for (const name of ["user", "label", "watched"]) {
      this.find(`[name=${name}]`).disabled = may.thaw || (isConnecting && name !== "watched");
    }
  }

  #renderView(name) {
    const { watched, states, isLive } = this.device;
    const state = states.get(watched);
    const dot = `dot ${state ? look(state) : "unknown"}`;
    const labels = state?.devices ? `, on ${state.devices.join(" and ")}` : "";
    this.find(".dot").className = this.mini.firstChild.className = dot;
    this.find(".view").classList.toggle("stale", !isLive);
    put(this.mini.lastChild, `${name} sees ${watched}`);
    put(this.find(".initial"), [...watched][0].toUpperCase());
    put(this.find(".who"), watched);
    put(this.find(".state"), state ? look(state) + labels : "not known: sign in to watch");
  }

  /** What changes by itself as time goes by. */
  renderClock() {
    put(this.find(".seen"), this.#seen());
    this.#renderHold();
    this.#renderLife();
  }

  #seen() {
    const { states, watched, isLive } = this.device;
    const state = states.get(watched);
    if (!state) return "";
    if (!isLive) return "last known here";
    if (!state.since) return "never seen";
    const ago = Math.max(0, Math.round((Date.now() - state.since) / 1000));
    const time = ago < 120 ? `${ago} s` : `${Math.round(ago / 60)} min`;
    return state.state === "online" ? `for ${time}` : `last seen ${time} ago`;
  }

  /** In the watcher's card: a loss that the gateway knows of, or will, and does not tell yet. */
  #renderHold() {
    const { states, watched, isLive } = this.device;
    const isShownOnline = isLive && states.get(watched)?.state === "online";
    const held = isShownOnline ? heldBack(watched) : undefined;
    this.find(".hold").classList.toggle("on", held !== undefined);
    if (!held) return;
    this.#fill(".hold i", (held.graceEnd - now()) / (held.graceEnd - held.from));
    const why = now() < held.ttlEnd ? "is silent" : "is gone";
    put(this.find(".hold p"), `${watched} ${why}: not told for ${left(held.graceEnd)} more`);
  }

  /** In the card that left: how long it still counts as alive, and then how long nobody is told. */
  #renderLife() {
    const { device } = this;
    const { phase } = device;
    const isLost = phase === "lost" || phase === "frozen";
    const { ttlEnd, graceEnd } = endOf(device);
    const ttlLeft = device.isLive ? times.ttl_ms : phase === "frozen" ? ttlEnd - now() : 0;
    const graceLeft = isLost ? Math.min(times.grace_ms, graceEnd - now()) : device.isLive ? times.grace_ms : 0;
    this.#fill(".ttl i", ttlLeft / times.ttl_ms);
    this.#fill(".grace i", graceLeft / times.grace_ms);
    this.find(".ttl").classList.toggle("runs", phase === "frozen" && ttlLeft > 0);
    this.find(".grace").classList.toggle("runs", isLost && graceLeft > 0 && ttlLeft <= 0);
    put(this.find(".ttl b"), ttlLeft > 0 ? left(now() + ttlLeft) : "–");
    put(this.find(".grace b"), graceLeft > 0 ? left(now() + graceLeft) : "–");
    put(this.find(".life p"), this.#toldOfLife(isLost, ttlLeft, graceLeft));
  }

  #toldOfLife(isLost, ttlLeft, graceLeft) {
    const { user, phase, isLive } = this.device;
    if (isLive) return "Each sign of life winds the TTL up again.";
    if (!isLost) return "";
    if (hasAnother(this.device)) return `${user} stays online: another device is there.`;
    const { graceEnd, isToldEarlier } = endOf(this.device);
    if (heldBack(user)?.graceEnd > graceEnd) return `Nobody is told yet: another device of ${user}’s counts for longer.`;
    if (graceLeft <= 0) return `${isToldEarlier ? "Another device signed out" : "Grace is over"}: watchers were told.`;
    if (phase === "lost") return `Nobody was told. Back within ${seconds(times.grace_ms)}, and nobody will be.`;
    return ttlLeft > 0 ? "No byte passes. The gateway cannot tell this from a quiet device yet." : "The TTL is over: now grace runs.";
  }

  #fill(selector, part) {
    this.find(selector).style.transform = `scaleX(${Math.min(1, Math.max(0, part))})`;
  }
}

/** A loss that nobody was told of is worth a line wherever it was watched. */
export function noteSilence({ user, lostAt, at, within }) {
  const watchers = [...devices].filter((device) => device.watched === user && device.isLive);
  for (const { card } of watchers) {
    card.log(`nothing was pushed: ${user} was away for ${seconds(at - lostAt)}, within ${within}`, "", "own");
  }
  return watchers.length > 0;
}
