/**
 * React hooks. All components below one provider share its client, and so one socket: what they
 * watch is united, and only differences are sent. No state of its own beyond what is on the screen.
 */
import {
  type ReactNode,
  createContext,
  createElement,
  useContext,
  useMemo,
  useSyncExternalStore,
} from "react";
import type { Connection, Presence, UserState, Users } from "./index.js";

/** `null`: there is no provider. */
const Client = createContext<Presence | undefined | null>(null);

/** Shares a client with all components below; none while nobody is signed in, or on a server. */
export function PresenceProvider(props: {
  readonly presence: Presence | undefined;
  readonly children?: ReactNode;
}): ReactNode {
  return createElement(Client.Provider, { value: props.presence }, props.children);
}

/** The client of the nearest provider, to call `setStatus` or `signOut`. */
export function usePresenceClient(): Presence | undefined {
  const presence = useContext(Client);
  if (presence === null)
    throw new Error("No <PresenceProvider presence={…}> is above this component");
  return presence;
}

/** One user's state, none when nothing is known yet. The component watches while it is mounted. */
export function usePresence(user: string): UserState | undefined;
/** The states of those who are known, by user. The list may be another array in each render. */
export function usePresence(users: Iterable<string>): ReadonlyMap<string, UserState>;
export function usePresence(users: Users): UserState | undefined | ReadonlyMap<string, UserState> {
  const presence = usePresenceClient();
  const isOne = typeof users === "string";
  const key = JSON.stringify(isOne ? [users] : [...users]);
  const shown = useMemo(() => new Shown(presence, JSON.parse(key) as string[]), [presence, key]);
  const states = useSyncExternalStore(shown.subscribe, shown.get, nothing);
  return isOne ? states.get(users) : states;
}

/** Whether there is a connection, and why not; none while there is no client. */
export function useConnection(): Connection | undefined {
  const presence = usePresenceClient();
  const subscribe = useMemo(
    () => (changed: () => void) => presence?.on("connection", changed) ?? (() => {}),
    [presence],
  );
  return useSyncExternalStore(
    subscribe,
    () => presence?.connection,
    () => undefined,
  );
}

const NOTHING: ReadonlyMap<string, UserState> = new Map();
const nothing = () => NOTHING;

/** What one component shows: a map that is another one only when something in it is. */
class Shown {
  #states = NOTHING;

  constructor(
    private readonly presence: Presence | undefined,
    private readonly users: readonly string[],
  ) {
    this.#read();
  }

  readonly get = (): ReadonlyMap<string, UserState> => this.#states;

  readonly subscribe = (changed: () => void): (() => void) => {
    if (!this.presence) return () => {};
    return this.presence.watch(this.users, () => {
      this.#read();
      changed();
    });
  };

  #read(): void {
    const states = new Map<string, UserState>();
    for (const user of this.users) {
      const state = this.presence?.get(user);
      if (state) states.set(user, state);
    }
    const isSame =
      states.size === this.#states.size && [...states].every(([u, s]) => this.#states.get(u) === s);
    if (!isSame) this.#states = states;
  }
}
