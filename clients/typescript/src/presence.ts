/**
 * The handle: says what the application wants, and reads what is known. It owns no socket, and
 * decides nothing about one.
 */
import { changes } from "./changes.js";
import type { Query } from "./asks.js";
import type { Connection } from "./effects.js";
import { Emitter } from "./emitter.js";
import { Machine } from "./machine.js";
import {
  type Refusal,
  type Show,
  type State,
  checkShow,
  checkText,
  checkUserId,
} from "./messages.js";
import { type Options, means, settings } from "./options.js";
import { type Means, Runner } from "./runner.js";
import { type Surroundings, surroundings } from "./surroundings.js";
import type { UserState } from "./view.js";
import { type Tell, Watchers } from "./watchers.js";

/** One id, or many. */
export type Users = string | Iterable<string>;

export interface PresenceEvents {
  /** Whether there is a connection, and why not. */
  connection: Connection;
  /** Watched users who look different now, whoever watches them. */
  change: readonly UserState[];
  /** One message was refused, or a session may watch no more users; all else goes on. */
  refused: Refusal;
  /**
   * What a callback threw, why a token could not be renewed, a message that makes no sense, or a
   * `PresenceError` when the `hello` was refused. What the token function throws at sign-in is the
   * reason of the `waiting`.
   */
  error: unknown;
}

/** A user's presence: signed in until `signOut` or `close`, however often the socket is lost. */
export class Presence {
  readonly #emitter = new Emitter<PresenceEvents>();
  readonly #machine: Machine;
  readonly #watchers: Watchers;
  readonly #runner: Runner;
  readonly #requestTimeoutMs: number;
  readonly #surroundings: Surroundings;
  readonly #undo: (() => void)[] = [];
  #connection: Connection = { phase: "connecting" };
  #isFlushing = false;

  /** Use `connect`. */
  constructor(url: string | URL, options: Options, place: Surroundings) {
    this.#machine = new Machine(settings(options, place));
    this.#watchers = new Watchers(this.#machine.view);
    this.#requestTimeoutMs = options.requestTimeoutMs ?? 10_000;
    this.#surroundings = place;
    const tell: Means["tell"] = (effect) => this.#tell(effect);
    this.#runner = new Runner(this.#machine, means(url, options, place, tell));
    const suspend = () => this.#runner.give({ type: "suspend" });
    this.#undo.push(place.listen({ suspect: () => this.check(), suspend }));
    this.#runner.give({ type: "start" });
    this.#undo.push(onAbort(options.signal, () => this.close()));
  }

  /** Whether there is a connection, and why not. */
  get connection(): Connection {
    return this.#connection;
  }

  /** A watched user's last known state; none when nothing is known yet. */
  get(user: string): UserState | undefined {
    return this.#machine.view.get(user);
  }

  /**
   * Watches these users until what it returns is called or the signal aborts. `tell` is called with
   * the states known already or soon, and then with each that looks different.
   */
  watch(users: Users, tell?: Tell, { signal }: { signal?: AbortSignal } = {}): () => void {
    const ids = checkUsers(users);
    if (signal?.aborted) return () => {};
    const remove = this.#watchers.add(ids, tell);
    this.#flushSoon();
    const unwatch = () => {
      off();
      remove();
      this.#flushSoon();
    };
    const off = onAbort(signal, unwatch);
    return unwatch;
  }

  /**
   * Watches these users for as long as it is iterated, and yields what `watch` would tell. A slow
   * reader is owed the latest state of each user, never a backlog. It ends when the signal aborts,
   * or when the client ends.
   */
  changes(
    users: Users,
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<readonly UserState[]> {
    return changes(this, checkUsers(users), options.signal);
  }

  /**
   * Asks for states once, without watching, in the order asked; users who may not be seen are left
   * out. While there is no connection it waits for one. Rejects with `PresenceError`, or with the
   * signal's reason.
   */
  query(users: Users, { signal }: { signal?: AbortSignal } = {}): Promise<readonly State[]> {
    const left = checkUsers(users);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const deadline = this.#surroundings.now() + this.#requestTimeoutMs;
      const off = onAbort(signal, () => {
        this.#runner.give({ type: "forget", query });
        reject(signal?.reason);
      });
      const query: Query = {
        left,
        deadline,
        resolve: (states) => (off(), resolve(states)),
        reject: (error) => (off(), reject(error)),
      };
      this.#runner.give({ type: "query", query });
    });
  }

  /** How this session wants its user shown from now on, after every reconnect too. */
  setStatus(show: Show, text?: string): void {
    const status = { show: checkShow(show), ...(text ? { text: checkText(text) } : {}) };
    this.#runner.give({ type: "status", status });
  }

  /** Listens until what it returns is called. */
  on<K extends keyof PresenceEvents>(
    name: K,
    listener: (event: PresenceEvents[K]) => void,
  ): () => void {
    return this.#emitter.on(name, listener);
  }

  /**
   * Makes sure that the socket is alive, or that the next attempt comes soon. Browsers' signals do
   * it by themselves; call it when a native application comes to the foreground.
   */
  check(): void {
    this.#runner.give({ type: "suspect" });
  }

  /**
   * Signs out: this session goes offline at once, with no grace. Resolves when the socket is
   * closed; without a connection, at once.
   */
  signOut(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#connection.phase === "ended") return resolve();
      this.on("connection", ({ phase }) => phase === "ended" && resolve());
      this.#runner.give({ type: "sign_out" });
    });
  }

  /** Ends without signing out, as a lost network would: the user goes offline after the grace. */
  close(): void {
    this.#runner.give({ type: "close" });
  }

  #tell(effect: Parameters<Means["tell"]>[0]): void {
    switch (effect.do) {
      case "tell_states":
        this.#watchers.changed(effect.states);
        this.#emitter.emit("change", effect.states);
        return this.#flushSoon();
      case "tell_connection":
        return this.#tellConnection(effect.connection);
      case "tell_refusal":
        if (this.#emitter.emit("refused", effect.refusal)) return;
        return console.warn("presence-client: the gateway refused:", effect.refusal);
      case "tell_error":
        return this.#emitter.fail(effect.error);
    }
  }

  #tellConnection(connection: Connection): void {
    this.#connection = connection;
    if (connection.phase === "ended") {
      this.#undo.forEach((undo) => undo());
      this.#watchers.flush(this.#emitter.call);
    }
    this.#emitter.emit("connection", connection);
  }

  /** All that happens until the microtask runs is one difference. */
  #flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => {
      this.#isFlushing = false;
      this.#watchers.settle();
      this.#runner.give({ type: "wanted" });
      this.#watchers.flush(this.#emitter.call);
    });
  }
}

/**
 * Starts to connect, and goes on in the background. Throws when the options make no sense, and
 * never because a gateway cannot be reached.
 */
export function connect(url: string | URL, options: Options): Presence {
  return new Presence(url, options ?? {}, surroundings);
}

function checkUsers(users: Users): string[] {
  if (typeof users === "string") return [checkUserId(users)];
  if (Symbol.iterator in Object(users)) return Array.from(users, checkUserId);
  throw new TypeError("Users are one id, or a list of ids");
}

/** Returns what ends the listening. */
function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (signal?.aborted) run();
  signal?.addEventListener("abort", run, { once: true });
  return () => signal?.removeEventListener("abort", run);
}
