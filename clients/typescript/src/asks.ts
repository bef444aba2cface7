/**
 * Requests and their answers: cuts lists into messages of a bounded size, keeps few in flight, and
 * asks again for what was lost or put off. No socket and no clock here.
 *
 * A frame over the gateway's limit would close the socket, and a gateway drops the answers of a
 * client that asks for more than it reads; so both are bounded here, well below.
 */
import { PresenceError } from "./errors.js";
import type { ClientMessage, Refusal, State } from "./messages.js";
import type { View } from "./view.js";

/** The most characters of user ids in one message: in UTF-8 well below the default limit. */
const CHUNK_LEN_MAX = 5_000;

/** The most users in one message, which bounds the snapshot that answers it. */
const CHUNK_USERS_MAX = 256;

/** The most requests without an answer: two would hide the round trip, four a busy gateway too. */
const IN_FLIGHT_MAX = 4;

/** When an answer has not come by then it was lost, and the request is made again. */
const ANSWER_TIMEOUT_MS = 10_000;

/** How long to ask for nothing after `rate_limited`. */
const PAUSE_MS = 1_000;

/** A caller who waits for states; `asks` fills in the rest. */
export interface Query {
  /** Who is left to be asked for. */
  left: string[];
  readonly deadline: number;
  readonly resolve: (states: State[]) => void;
  readonly reject: (error: Error) => void;
}

interface Ask {
  readonly users: string[];
  readonly deadline: number;
  /** None: it is a watch. */
  readonly query: Query | undefined;
}

/** What an error was about: `other` is for the application, `untold` may have dropped anything. */
export type Verdict = "handled" | "untold" | "other";

export class Asks {
  #lastId = 0;
  #usersMax = CHUNK_USERS_MAX;
  readonly #inFlight = new Map<number, Ask>();
  readonly #got = new Map<Query, State[]>();
  #queries: Query[] = [];
  #maxWatch = 0;
  /** Whom this session watches at the gateway, as far as it was asked to. */
  readonly #watched = new Set<string>();
  /** The gateway said so, against our count: until the next `unwatch` nobody else is asked for. */
  #isFull = false;
  /** Who is on the list beyond what one session may watch. */
  readonly #withoutRoom = new Set<string>();
  /** Those of them of whom the application was not told yet. */
  #untold: string[] = [];
  #pausedUntil = 0;

  /** No message may name more users than one session may watch. */
  connected(maxWatch: number): void {
    this.#maxWatch = maxWatch;
    this.#watched.clear();
    this.#isFull = false;
    this.#usersMax = Math.max(1, Math.min(CHUNK_USERS_MAX, maxWatch));
  }

  /** Whether the gateway wants to be left alone for a while. */
  arePaused(now: number): boolean {
    return now < this.#pausedUntil;
  }

  /** Whether every request was answered. */
  get areAnswered(): boolean {
    return this.#inFlight.size === 0;
  }

  query(query: Query): void {
    this.#queries.push(query);
    this.#got.set(query, []);
  }

  /** The caller of the query waits no longer. */
  forget(query: Query): void {
    this.#queries = this.#queries.filter((other) => other !== query);
    this.#got.delete(query);
  }

  /**
   * The next request to send; none when all is asked, or enough is in flight.
   *
   * An `unwatch` has no id, so nobody would know that a busy gateway dropped it. It is sent only
   * when nothing is in flight, and before any new `watch`, for which it makes room.
   */
  next(view: View, now: number): ClientMessage | undefined {
    if (this.arePaused(now)) return undefined;
    if (view.unwanted.size > 0) return this.#inFlight.size > 0 ? undefined : this.#unwatch(view);
    if (this.#inFlight.size >= IN_FLIGHT_MAX) return undefined;
    const users = chunk(this.#fitting(view), this.#usersMax);
    if (users.length === 0) return this.#nextQuery(now);
    return { type: "watch", users, id: this.#begin(users, undefined, now) };
  }

  /** Whom to watch next, as long as there is room; sets aside those for whom there is none. */
  *#fitting(view: View): Generator<string, void> {
    const hasRoom = () => !this.#isFull && this.#watched.size < this.#maxWatch;
    for (const user of view.unasked) {
      view.unasked.delete(user);
      if (this.#watched.has(user) || hasRoom()) yield this.#watch(user);
      else this.#setAside(user);
    }
    for (const user of this.#withoutRoom) {
      if (!hasRoom()) return;
      if (view.has(user)) yield this.#watch(user);
      else this.#withoutRoom.delete(user);
    }
  }

  #watch(user: string): string {
    this.#withoutRoom.delete(user);
    this.#watched.add(user);
    return user;
  }

  #setAside(user: string): void {
    this.#watched.delete(user);
    if (!this.#withoutRoom.has(user)) this.#untold.push(user);
    this.#withoutRoom.add(user);
  }

  /** For whom there is no room, each once. */
  takeUntold(): Refusal | undefined {
    if (this.#untold.length === 0) return undefined;
    const message = `One session may watch ${this.#maxWatch} users: these wait until there is room`;
    return { type: "error", code: "too_many_watches", message, users: this.#untold.splice(0) };
  }

  #unwatch(view: View): ClientMessage {
    const users = chunk(view.unwanted, this.#usersMax);
    for (const user of users) {
      view.unwanted.delete(user);
      this.#watched.delete(user);
      this.#withoutRoom.delete(user);
    }
    this.#isFull = false;
    return { type: "unwatch", users };
  }

  #nextQuery(now: number): ClientMessage | undefined {
    for (let query = this.#queries.shift(); query; query = this.#queries.shift()) {
      const users = chunk(query.left, this.#usersMax);
      if (users.length === 0) {
        query.resolve(this.#got.get(query) ?? []);
        this.#got.delete(query);
        continue;
      }
      query.left = query.left.slice(users.length);
      return { type: "query", users, id: this.#begin(users, query, now) };
    }
    return undefined;
  }

  #begin(users: string[], query: Query | undefined, now: number): number {
    this.#lastId += 1;
    this.#inFlight.set(this.#lastId, { users, query, deadline: now + ANSWER_TIMEOUT_MS });
    return this.#lastId;
  }

  /** An answer came. */
  answered(id: unknown, states: readonly State[]): void {
    const query = this.#take(id)?.query;
    const got = query && this.#got.get(query);
    if (!got) return;
    got.push(...states);
    this.#queries.unshift(query);
  }

  /** A refusal came. */
  refused(error: Refusal, now: number): Verdict {
    const { code } = error;
    if (code === "rate_limited") this.#pausedUntil = now + PAUSE_MS;
    if (code === "not_allowed") for (const user of error.users ?? []) this.#watched.delete(user);
    const ask = this.#take(error.id);
    if (!ask) return code === "rate_limited" ? "untold" : "other";
    if (code === "rate_limited" || code === "undecided") {
      // Dropped at the gateway: it stays in flight until its deadline, and is made again.
      this.#inFlight.set(error.id as number, { ...ask, deadline: now + PAUSE_MS });
      return "handled";
    }
    if (code === "not_allowed" && error.users) return this.#partlyRefused(error, ask);
    if (ask.query) {
      this.#got.delete(ask.query);
      ask.query.reject(new PresenceError("refused", `Refused: ${error.message}`, error));
      return "handled";
    }
    // The gateway keeps the watch, and tells the states when it knows them.
    if (code === "store_unavailable") return "handled";
    if (code !== "too_many_watches") return "other";
    this.#isFull = true;
    for (const user of ask.users) this.#setAside(user);
    return "handled";
  }

  /** Some users may not be seen; the answer about the others is still to come, if there are any. */
  #partlyRefused(error: Refusal, ask: Ask): Verdict {
    const refused = new Set(error.users);
    const users = ask.users.filter((user) => !refused.has(user));
    if (users.length > 0) this.#inFlight.set(error.id as number, { ...ask, users });
    else if (ask.query) this.#queries.unshift(ask.query);
    return "other";
  }

  #take(id: unknown): Ask | undefined {
    const ask = this.#inFlight.get(id as number);
    this.#inFlight.delete(id as number);
    return ask;
  }

  /** When to look again. */
  deadline(now: number): number {
    let deadline = this.#pausedUntil > now ? this.#pausedUntil : Infinity;
    for (const ask of this.#inFlight.values()) deadline = Math.min(deadline, ask.deadline);
    for (const query of this.#got.keys()) deadline = Math.min(deadline, query.deadline);
    return deadline;
  }

  /** Asks again for what had no answer in time, and gives up on queries that are overdue. */
  expire(view: View, now: number): void {
    for (const query of this.#got.keys()) {
      if (now < query.deadline) continue;
      this.forget(query);
      query.reject(new PresenceError("timed_out", "No answer within the request timeout"));
    }
    for (const [id, ask] of this.#inFlight) if (now >= ask.deadline) this.#askAgain(view, id, ask);
  }

  /** The connection is gone, and every request in flight with it. */
  disconnected(view: View): void {
    for (const [id, ask] of this.#inFlight) this.#askAgain(view, id, ask);
    this.#pausedUntil = 0;
  }

  /** No request will ever be answered. */
  end(): void {
    const error = new PresenceError("ended", "The client has ended, and does not come back");
    for (const query of this.#got.keys()) query.reject(error);
    this.#got.clear();
  }

  #askAgain(view: View, id: number, { users, query }: Ask): void {
    this.#inFlight.delete(id);
    if (!query) return view.watchAgain(users);
    if (!this.#got.has(query)) return;
    query.left.unshift(...users);
    this.#queries.unshift(query);
  }
}

/** As many users as one message may name, at least one if there is one. */
function chunk(list: Iterable<string>, usersMax: number): string[] {
  const users: string[] = [];
  let len = 0;
  for (const user of list) {
    users.push(user);
    len += user.length + 3;
    if (len >= CHUNK_LEN_MAX || users.length >= usersMax) break;
  }
  return users;
}
