/** One device: its socket, and what it was told. It must not touch the page: its card shows it. */
import * as scene from "./scene.js";
import { milliseconds, now, seconds, times } from "./scene.js";

/** After these it makes no sense to come back. */
const FINAL = [1000, 1002, 1003, 1007, 1009, 4002, 4007, 4008];
const SILENT = 4004;

export const look = (state) => state.show ?? state.state;

export class Device {
  /** What it is to the gateway: `signed out`, `signed in`, `frozen` or `lost`. */
  phase = "signed out";
  /** Since when; while it is frozen, when it gave its last sign of life. */
  since = 0;
  isConnecting = false;
  /** How it wants its user shown. */
  show = "online";
  /** By user: the newest state that it was told. */
  states = new Map();

  /** By user: when the last of them was pushed. */
  #pushedAt = new Map();
  #socket;
  #line;
  #alive;
  #comeback;
  #delayMs;
  #failures = 0;

  constructor(user, label, watched, card) {
    Object.assign(this, { user, label, watched, card });
    scene.devices.add(this);
  }

  get isLive() {
    return this.phase === "signed in";
  }

  // What its buttons do.

  signIn(what = "signed in") {
    if (this.#socket) return;
    clearTimeout(this.#comeback);
    if (this.#failures === 0) this.#act(what);
    const words = crypto.getRandomValues(new Uint32Array(4));
    this.#line = new URL(`demo/lines/${words.join("-")}`, location.href);
    const endpoint = new URL(this.#line);
    endpoint.protocol = endpoint.protocol.replace("http", "ws");
    const socket = (this.#socket = new WebSocket(endpoint, "presence.v1.json"));
    socket.onopen = () => {
      this.#send({ type: "hello", user: this.user, device: this.label, show: this.show });
      this.#watch();
    };
    socket.onmessage = ({ data }) => socket === this.#socket && this.#hear(JSON.parse(data));
    socket.onclose = (event) => socket === this.#socket && this.#closed(event);
    this.isConnecting = true;
    this.card.render();
  }

  signOut() {
    this.#act("signed out");
    scene.tellSignOut(this);
    this.#send({ type: "bye" });
    this.#letGo();
    this.#enter("signed out");
  }

  /** Closes without a bye, as a closed tab does: to the gateway the device is lost. */
  drop(what = "dropped the socket") {
    const socket = this.#socket;
    this.#lose(what);
    socket.close();
  }

  dropBriefly() {
    this.drop();
    this.#comeBackAfter(1_000);
  }

  /** From here on nothing reaches the gateway, nor this device: not even a Ping. */
  async freeze() {
    const line = this.#line;
    const socket = this.#socket;
    // The TTL begins anew with this question.
    const askedAt = now();
    await this.#ask();
    if (!(await this.#setCut("PUT", line))) return;
    // Whoever has left meanwhile had something to say on it.
    if (socket !== this.#socket) return this.#setCut("DELETE", line);
    this.#act("froze", askedAt, { ms: times.ttl_ms + times.grace_ms, name: "TTL and grace" });
    this.#enter("frozen", askedAt);
  }

  async thaw() {
    if (!(await this.#setCut("DELETE", this.#line))) return;
    // A gateway that has given this device up answers nothing, and closes the socket.
    await this.#ask();
    if (this.phase !== "frozen") return;
    this.#act("thawed");
    scene.tellComeback(this.user, this.since, "TTL");
    this.#enter("signed in");
  }

  setShow(show) {
    this.show = show;
    if (!this.#isOpen) return; // the next hello tells it
    this.#act(`chose ${show}`);
    this.#send({ type: "status", show });
  }

  setWatched(user) {
    this.#send({ type: "unwatch", users: [this.watched] });
    this.watched = user;
    this.#watch();
    scene.tellDevices();
    this.card.render();
  }

  /** Another user's, or another kind of device. */
  become(change) {
    const { isLive } = this;
    if (isLive) this.signOut();
    Object.assign(this, change);
    if (isLive) this.signIn();
    scene.tellDevices();
    this.card.render();
  }

  remove() {
    if (this.isLive) this.signOut();
    this.#socket?.close();
    this.#letGo();
    clearTimeout(this.#comeback);
    scene.remove(this);
  }

  // The socket.

  #setCut(method, line) {
    const answer = fetch(`${line}/cut`, { method });
    return answer.then(({ ok }) => ok, () => false);
  }

  /** From then on it has said hello. */
  get #isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** A socket that is closing takes nothing more: what follows is `#closed`. */
  #send(message) {
    if (this.#isOpen) this.#socket.send(JSON.stringify(message));
  }

  #watch() {
    this.askedAt = now();
    this.#send({ type: "watch", users: [this.watched] });
  }

  /** Asks about nobody: the answer says no more than that the gateway has heard it. */
  #ask() {
    this.#send({ type: "query", users: [], id: "alive" });
    return new Promise((resolve) => (this.#alive = resolve));
  }

  #hear(message) {
    switch (message.type) {
      case "welcome":
        return this.#welcomed(message);
      case "snapshot":
        return message.id === "alive" ? this.#alive() : this.#snapshot(message.users);
      case "presence":
        return this.#pushed(message.users);
      case "degraded":
        return this.card.log(message.since ? "the store is out of reach: dots show what was last known" : "the store is back");
      case "draining":
        this.#delayMs = message.reconnect_after_ms;
        return this.card.log("the gateway is stopping", `come back in ${seconds(this.#delayMs)}`);
      case "error":
        return this.card.log(`refused: ${message.message}`);
    }
  }

  #welcomed({ heartbeat_ms, ttl_ms, grace_ms }) {
    Object.assign(times, { heartbeat_ms, ttl_ms, grace_ms });
    this.isConnecting = false;
    this.#failures = 0;
    this.card.log("welcome", scene.causeOf(this.user).then(({ told }) => told));
    if (this.phase === "lost" && now() < scene.endOf(this).graceEnd) {
      scene.tellComeback(this.user, this.since, "grace");
    }
    this.#enter("signed in");
  }

  #snapshot(states) {
    const why = `in the snapshot, ${milliseconds(now() - this.askedAt)} after it was asked for`;
    for (const state of states) this.#learn(state, why);
  }

  #pushed(states) {
    for (const state of states) {
      scene.notePush(state.user);
      const since = this.#pushedAt.get(state.user);
      this.#pushedAt.set(state.user, now());
      const cause = scene.causeOf(state.user, { isLoss: state.state === "offline", since });
      this.#learn(state, cause.then(({ told }) => told));
      cause.then(({ what }) => this.card.pushed(state, what));
    }
  }

  /** Keeps a state that is newer than what is known; any other is covered by it. */
  #learn(state, why) {
    const known = this.states.get(state.user);
    const isNews = !known || state.version > known.version;
    this.card.log(`${state.user} is ${look(state)}${isNews ? "" : ", as before"}`, why);
    if (!isNews) return;
    this.states.set(state.user, state);
    this.card.render();
    if (known) this.card.ring();
  }

  /** The gateway closed, or the network did. */
  #closed({ code, reason }) {
    if (this.#failures === 0) this.card.log(`closed with ${code}`, reason || "no close frame came");
    if (this.phase === "signed in") this.#lose("lost the socket");
    if (this.phase === "frozen") this.#enter("lost", this.since + times.ttl_ms);
    if (this.isConnecting) this.#failures += 1;
    this.#letGo();
    this.card.render();
    if (FINAL.includes(code)) return;
    this.#comeBackAfter(this.#delayMs ?? (code === SILENT ? 0 : 1_000 + 1_000 * Math.random()));
    this.#delayMs = undefined;
  }

  #lose(what) {
    this.#act(what, now(), { ms: times.grace_ms, name: "grace" });
    this.#letGo();
    this.#enter("lost");
  }

  #letGo() {
    this.#socket = undefined;
    this.isConnecting = false;
  }

  #comeBackAfter(delayMs) {
    this.#comeback = setTimeout(() => this.signIn("came back"), delayMs);
  }

  #enter(phase, since = now()) {
    Object.assign(this, { phase, since });
    scene.tellDevices();
    this.card.render();
  }

  #act(what, at, held) {
    scene.tellAct(this.user, what, at, held);
    this.card.log(`${this.user} ${what}`, "", "own");
  }
}
