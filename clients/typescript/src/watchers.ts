/**
 * Who in the application watches whom: unions the lists by counting, so that the gateway hears of
 * differences only, and hands out what changed. What happens within one microtask is one difference
 * and one call. It must not know what a gateway is.
 */
import type { UserState, View } from "./view.js";

/** Called with those who look different since the last call, each at most once. */
export type Tell = (states: readonly UserState[]) => void;

interface Watch {
  readonly users: ReadonlySet<string>;
  readonly tell: Tell | undefined;
}

export class Watchers {
  readonly #byUser = new Map<string, Set<Watch>>();
  /** Users whose watches changed since the last `settle`. */
  readonly #touched = new Set<string>();
  readonly #added = new Set<Watch>();
  readonly #news = new Map<Watch, Map<string, UserState>>();

  constructor(private readonly view: View) {}

  /** Returns what ends the watch. It counts from the next `settle`. */
  add(users: Iterable<string>, tell: Tell | undefined): () => void {
    const watch: Watch = { users: new Set(users), tell };
    for (const user of watch.users) {
      const watches = this.#byUser.get(user) ?? new Set();
      this.#byUser.set(user, watches.add(watch));
      this.#touched.add(user);
    }
    this.#added.add(watch);
    return () => this.#remove(watch);
  }

  #remove(watch: Watch): void {
    for (const user of watch.users) {
      const watches = this.#byUser.get(user);
      if (!watches?.delete(watch)) continue;
      if (watches.size === 0) this.#byUser.delete(user);
      this.#touched.add(user);
    }
    this.#added.delete(watch);
    this.#news.delete(watch);
  }

  /** Brings the view's list in line; new watches have news of whom the view knows already. */
  settle(): void {
    for (const user of this.#touched) {
      if (this.#byUser.has(user)) this.view.watch(user);
      else this.view.unwatch(user);
    }
    this.#touched.clear();
    for (const watch of this.#added) {
      for (const user of watch.users) {
        const state = this.view.get(user);
        if (state) this.#note(watch, state);
      }
    }
    this.#added.clear();
  }

  /** These look different now. */
  changed(states: readonly UserState[]): void {
    for (const state of states) {
      for (const watch of this.#byUser.get(state.user) ?? []) this.#note(watch, state);
    }
  }

  /** Tells every watch its news, each through `call`, so that one that throws stops no other. */
  flush(call: (run: () => void) => void): void {
    while (this.#news.size > 0) {
      const [watch, states] = this.#news.entries().next().value!;
      this.#news.delete(watch);
      call(() => watch.tell?.([...states.values()]));
    }
  }

  #note(watch: Watch, state: UserState): void {
    if (!watch.tell) return;
    const states = this.#news.get(watch) ?? new Map<string, UserState>();
    this.#news.set(watch, states.set(state.user, state));
  }
}
