/**
 * The gateway's side of the protocol, spoken to tabs by the one that owns the real client. It must
 * decide nothing about presence: states pass through as they are, and what is stale does not pass.
 */
import type { Disconnected } from "./effects.js";
import type { Connection, Presence, State, UserState } from "./index.js";
import type { ClientMessage, GatewayMessage, Hello } from "./messages.js";
import type { ToHub, ToTab } from "./tab-socket.js";

/** Between tabs nothing is lost but a tab, which its lock tells; so these need be no other. */
const BEAT = { heartbeat_ms: 10_000, ttl_ms: 30_000 };

interface Tab {
  readonly socket: string;
  /** What ends the watch, by user. */
  readonly watches: Map<string, () => void>;
  phase: "opened" | "greeted" | "welcomed";
}

export class TabHub {
  readonly #tabs = new Map<string, Tab>();
  #status = "";

  constructor(
    private readonly presence: Presence,
    private readonly channel: BroadcastChannel,
    /** Calls back when this socket is no more. */
    private readonly whenGone: (socket: string, run: () => void) => void,
  ) {
    channel.onmessage = ({ data }) => this.#take(data as Partial<ToHub>);
    presence.on("change", (states) => this.#changed(states));
    presence.on("connection", (connection) => this.#connection(connection));
    presence.on("refused", (refusal) => {
      const { id: _, ...error } = refusal;
      for (const tab of this.#tabs.values()) {
        const users = error.users?.filter((user) => tab.watches.has(user));
        if (!users) this.#say(tab, error);
        else if (users.length > 0) this.#say(tab, { ...error, users });
      }
    });
    presence.on("error", (error) => this.#post({ to: "all", problem: sendable(error) }));
    this.#post({ to: "all", moved: true });
  }

  close(): void {
    this.channel.close();
  }

  #take({ from, frame }: Partial<ToHub>): void {
    if (from === undefined) return;
    const tab = this.#tabs.get(from);
    if (!tab) this.#open(from);
    else if (frame !== undefined) this.#obey(tab, JSON.parse(frame) as ClientMessage);
  }

  #open(socket: string): void {
    const tab: Tab = { socket, watches: new Map(), phase: "opened" };
    this.#tabs.set(socket, tab);
    this.whenGone(socket, () => this.#remove(tab));
    this.#post({ to: socket, opened: true });
  }

  #remove(tab: Tab): void {
    this.#tabs.delete(tab.socket);
    for (const unwatch of tab.watches.values()) unwatch();
  }

  #obey(tab: Tab, message: ClientMessage): void {
    switch (message.type) {
      case "hello":
        return this.#greet(tab, message);
      case "watch":
        for (const user of message.users) {
          if (!tab.watches.has(user)) tab.watches.set(user, this.presence.watch(user));
        }
        // Whoever is not known yet comes as a change.
        return this.#say(tab, { ...message, type: "snapshot", users: this.#known(message.users) });
      case "unwatch":
        for (const user of message.users) {
          tab.watches.get(user)?.();
          tab.watches.delete(user);
        }
        return;
      case "query":
        return void this.#answer(tab, message);
      case "status":
        return this.#setStatus(message);
      case "bye":
        return void this.presence.signOut();
    }
  }

  #greet(tab: Tab, hello: Hello): void {
    tab.phase = "greeted";
    if (hello.show) this.#setStatus(hello);
    else if (this.#status) this.#post({ to: "all", status: JSON.parse(this.#status) });
    // Somebody is there who would like it to come soon.
    if (this.presence.connection.phase === "waiting") this.presence.check();
    const { connection } = this.presence;
    if (connection.phase === "connected") this.#welcome(tab, connection);
    else if (connection.phase !== "connecting") this.#lose(tab, connection);
  }

  #welcome(tab: Tab, connection: Connection & { phase: "connected" }): void {
    tab.phase = "welcomed";
    const { user, session, maxWatch: max_watch, graceMs: grace_ms, degradedSince } = connection;
    this.#say(tab, { type: "welcome", user, session, max_watch, grace_ms, ...BEAT });
    if (degradedSince !== undefined) this.#say(tab, { type: "degraded", since: degradedSince });
  }

  #setStatus({ show, text }: Pick<Hello, "show" | "text">): void {
    const status = JSON.stringify({ show, text });
    // Every tab says it again when it hears of it.
    if (!show || status === this.#status) return;
    this.#status = status;
    this.presence.setStatus(show, text);
    this.#post({ to: "all", status: JSON.parse(status) });
  }

  async #answer(tab: Tab, { users, id }: ClientMessage & { type: "query" }): Promise<void> {
    const mark = id === undefined ? {} : { id };
    try {
      // Of nobody, it asks whether the hub is there.
      const states = users.length > 0 ? await this.presence.query(users) : [];
      this.#say(tab, { type: "snapshot", users: states, ...mark });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#say(tab, { type: "error", code: "store_unavailable", message, ...mark });
    }
  }

  #known(users: readonly string[]): State[] {
    const states = users.flatMap((user) => this.presence.get(user) ?? []);
    return states.filter((state) => !state.stale);
  }

  #changed(states: readonly UserState[]): void {
    const live = states.filter((state) => !state.stale);
    for (const tab of this.#tabs.values()) {
      const users = live.filter((state) => tab.watches.has(state.user));
      if (users.length > 0) this.#say(tab, { type: "presence", users });
    }
  }

  #connection(connection: Connection): void {
    switch (connection.phase) {
      case "connecting":
        return this.#post({ to: "all", up: true });
      case "connected":
        for (const tab of this.#tabs.values()) this.#tellConnected(tab, connection);
        // Where a tab waits all the same, its own patience was shorter.
        return this.#post({ to: "all", up: true });
      case "waiting":
        for (const tab of [...this.#tabs.values()]) this.#lose(tab, connection);
        return;
      case "ended":
        return this.#post({ to: "all", closed: closed(connection) });
    }
  }

  #tellConnected(tab: Tab, connection: Connection & { phase: "connected" }): void {
    if (tab.phase === "greeted") return this.#welcome(tab, connection);
    const { degradedSince } = connection;
    if (tab.phase === "welcomed") {
      this.#say(tab, {
        type: "degraded",
        ...(degradedSince !== undefined && { since: degradedSince }),
      });
    }
  }

  /** The tab is what the real client is, and comes back with it. */
  #lose(tab: Tab, connection: Disconnected): void {
    this.#remove(tab);
    this.#post({ to: tab.socket, closed: closed(connection) });
  }

  #say(tab: Tab, message: GatewayMessage): void {
    this.#post({ to: tab.socket, frame: JSON.stringify(message) });
  }

  #post(parcel: ToTab): void {
    this.channel.postMessage(parcel);
  }
}

/** Only the tab that has the socket is closed by its application: the others come back. */
function closed(connection: Disconnected): NonNullable<ToTab["closed"]> {
  const { kind, message: reason, closeCode } = connection.reason;
  if (kind === "closed" && connection.phase === "ended") return { code: 1006, reason };
  const code = closeCode ?? 1006;
  if (connection.phase === "ended") return { code, reason, follow: connection };
  const error = sendable(connection.reason.error);
  return { code, reason, follow: { ...connection, reason: { ...connection.reason, error } } };
}

/** What an application threw may be anything, and not all of it goes from tab to tab. */
function sendable(error: unknown): unknown {
  try {
    return structuredClone(error);
  } catch {
    return new Error(String(error));
  }
}
