/**
 * The watch list and what is known of each user on it, and what the gateway has yet to be told.
 * Pure: no socket, no clock. The list is what the application wants; each connection starts by
 * asking for all of it again.
 */
import type { State } from "./messages.js";

/** A watched user's last known state. Never changed in place: another state is another object. */
export interface UserState extends State {
  /** Nobody vouches for it: there has been no connection for longer than a reconnect takes. */
  readonly stale: boolean;
}

interface Entry {
  state: UserState | undefined;
  /** On which connection the gateway vouched for it last. */
  link: number;
  /** The application was told that this one may not be seen. */
  isRefused: boolean;
}

export class View {
  readonly #users = new Map<string, Entry>();
  #link = 0;
  /** Who is still to be asked for. */
  readonly unasked = new Set<string>();
  /** Who is still watched at the gateway, but no longer on the list. */
  readonly unwanted = new Set<string>();

  watch(user: string): void {
    if (this.#users.has(user)) return;
    this.#users.set(user, { state: undefined, link: -1, isRefused: false });
    this.unwanted.delete(user);
    this.unasked.add(user);
  }

  /** Removes from the list and forgets. */
  unwatch(user: string): void {
    if (!this.#users.delete(user)) return;
    this.unasked.delete(user);
    this.unwanted.add(user);
  }

  has(user: string): boolean {
    return this.#users.has(user);
  }

  get(user: string): UserState | undefined {
    return this.#users.get(user)?.state;
  }

  /** A new connection knows nothing: everybody is to be watched again. */
  connected(): void {
    this.unwanted.clear();
    this.watchAllAgain();
  }

  watchAllAgain(): void {
    this.watchAgain(this.#users.keys());
  }

  /** From now on nobody vouches for what is known. It shows only with `markStale`. */
  disconnected(): void {
    this.#link += 1;
  }

  /** Asks again for users whose request was lost or refused, those still on the list. */
  watchAgain(users: Iterable<string>): void {
    for (const user of users) if (this.#users.has(user)) this.unasked.add(user);
  }

  /** Takes in what the gateway said; returns what thereby looks different. */
  apply(states: readonly State[]): UserState[] {
    return states.flatMap((state) => this.#applyOne(state) ?? []);
  }

  #applyOne(news: State): UserState | undefined {
    const entry = this.#users.get(news.user);
    if (!entry) return undefined;
    entry.link = this.#link;
    entry.isRefused = false;
    const old = entry.state;
    if (old && news.version <= old.version) return old.stale ? fresh(entry, old) : undefined;
    entry.state = { ...news, stale: false };
    return old && !old.stale && looksTheSame(old, news) ? undefined : entry.state;
  }

  /**
   * Forgets what is known of users who may not be seen. Returns who was not refused before, and the
   * last states, stale for ever.
   */
  refused(users: readonly string[]): { fresh: string[]; states: UserState[] } {
    const fresh = users.filter((user) => !this.#users.get(user)?.isRefused);
    const states = users.flatMap((user) => {
      const entry = this.#users.get(user);
      const state = entry?.state;
      if (entry) this.#users.set(user, { state: undefined, link: -1, isRefused: true });
      return state ? [{ ...state, stale: true }] : [];
    });
    return { fresh, states };
  }

  /** Shows what nobody vouches for as such; returns what thereby looks different. */
  markStale(): UserState[] {
    const marked: UserState[] = [];
    for (const entry of this.#users.values()) {
      if (!entry.state || entry.state.stale || entry.link === this.#link) continue;
      entry.state = { ...entry.state, stale: true };
      marked.push(entry.state);
    }
    return marked;
  }
}

function fresh(entry: Entry, old: UserState): UserState {
  return (entry.state = { ...old, stale: false });
}

function looksTheSame(old: State, news: State): boolean {
  return (
    old.state === news.state &&
    old.since === news.since &&
    old.show === news.show &&
    old.text === news.text &&
    old.devices?.join() === news.devices?.join()
  );
}
