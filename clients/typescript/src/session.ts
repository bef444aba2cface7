/**
 * One session, from its `welcome` to the end of its socket: takes in what the gateway says, and
 * says what is wanted. Pure, and a part of the state machine: it must not decide what comes next.
 */
import type { Asks } from "./asks.js";
import type { Connection, Effect, Status } from "./effects.js";
import type { GatewayMessage, Refusal, Welcome } from "./messages.js";
import { type Beat, Pulse } from "./pulse.js";
import type { Lost } from "./retry.js";
import type { Tokens } from "./tokens.js";
import type { UserState, View } from "./view.js";

/** The id of the question whether the gateway is there; requests count from 1. */
const PULSE_ID = 0;

/** What outlives a session, and where its effects go. */
export interface Surviving {
  readonly view: View;
  readonly asks: Asks;
  readonly tokens: Tokens;
  readonly random: () => number;
  readonly emit: (effect: Effect) => void;
  status: Status | undefined;
  statusIsUnsent: boolean;
}

export class Session {
  readonly graceMs: number;
  readonly #began: number;
  readonly #pulse: Pulse;
  #shown: Connection & { phase: "connected" };
  #moveAt = Infinity;
  #isRenewing = false;

  constructor(
    private readonly client: Surviving,
    welcome: Welcome,
    now: number,
  ) {
    this.graceMs = welcome.grace_ms;
    this.#began = now;
    this.#pulse = new Pulse(welcome, now, client.random);
    this.#shown = {
      phase: "connected",
      user: welcome.user,
      session: welcome.session,
      maxWatch: welcome.max_watch,
      graceMs: welcome.grace_ms,
    };
    client.view.connected();
    client.asks.connected(welcome.max_watch);
    this.#show(this.#shown);
  }

  /** A frame came; without a message it was not understood, and is a sign of life all the same. */
  hear(message: GatewayMessage | undefined, now: number): void {
    this.#pulse.heard(now);
    switch (message?.type) {
      case "snapshot":
        this.client.asks.answered(message.id, message.users);
        return this.#tellStates(this.client.view.apply(message.users));
      case "presence":
        return this.#tellStates(this.client.view.apply(message.users));
      case "degraded":
        return this.#degraded(message.since);
      case "draining":
        this.#moveAt = now + message.reconnect_after_ms;
        return this.#show({ ...this.#shown, drainingMs: message.reconnect_after_ms });
      case "error":
        return this.#refused(message, now);
      // The answer to a renewed token, which may allow more users or fewer.
      case "welcome":
        return this.client.view.watchAllAgain();
    }
  }

  #degraded(since: number | undefined): void {
    const { degradedSince: _, ...shown } = this.#shown;
    this.#show(since === undefined ? shown : { ...shown, degradedSince: since });
  }

  #refused(refusal: Refusal, now: number): void {
    const { client } = this;
    const verdict = client.asks.refused(refusal, now);
    if (verdict === "untold") client.statusIsUnsent = client.status !== undefined;
    if (verdict !== "other") return;
    if (refusal.code !== "not_allowed" || !refusal.users) {
      return client.emit({ do: "tell_refusal", refusal });
    }
    const { fresh, states } = client.view.refused(refusal.users);
    this.#tellStates(states);
    if (fresh.length === 0) return;
    client.emit({ do: "tell_refusal", refusal: { ...refusal, users: fresh } });
  }

  /** Sends all that may be sent now. */
  sayWhatIsWanted(now: number): void {
    const { client } = this;
    if (client.statusIsUnsent && client.status && !client.asks.arePaused(now)) {
      client.emit({ do: "send", message: { type: "status", ...client.status } });
      client.statusIsUnsent = false;
    }
    const next = () => client.asks.next(client.view, now);
    for (let message = next(); message; message = next()) client.emit({ do: "send", message });
    const refusal = client.asks.takeUntold();
    if (refusal) client.emit({ do: "tell_refusal", refusal });
  }

  /** The token that was asked for; none when there is none, and the present one must do. */
  renewed(token: string | undefined): void {
    this.#isRenewing = false;
    if (token !== undefined) this.client.emit({ do: "send", message: { type: "hello", token } });
  }

  get isRenewing(): boolean {
    return this.#isRenewing;
  }

  /** When to call `keepTime`. */
  deadline(): number {
    const renewAt = this.#isRenewing ? Infinity : this.client.tokens.renewAt;
    return Math.min(this.#pulse.deadline(), this.#moveAt, renewAt);
  }

  /** Returns why the session is over, if it is. */
  keepTime(now: number): Lost | undefined {
    if (now >= this.#moveAt) return { kind: "draining", message: "The gateway is going away." };
    if (now >= this.client.tokens.renewAt && !this.#isRenewing) {
      this.#isRenewing = true;
      this.client.emit({ do: "ask_token" });
    }
    return this.#act(this.#pulse.beat(now));
  }

  /** The socket may be dead. Returns why the session is over, if it is. */
  suspect(now: number): Lost | undefined {
    return this.#act(this.#pulse.suspect(now));
  }

  #act(beat: Beat): Lost | undefined {
    if (beat === "dead") return { kind: "silent", message: "The gateway fell silent." };
    if (beat === "ask") {
      this.client.emit({ do: "send", message: { type: "query", users: [], id: PULSE_ID } });
    }
    return undefined;
  }

  /** Whether it lasted long enough to count as a good one. */
  wasGood(): boolean {
    return this.#pulse.wasGood(this.#began);
  }

  /** How much is left of the gateway's `reconnect_after_ms`, if it told one. */
  toldMs(now: number): number | undefined {
    return this.#moveAt === Infinity ? undefined : Math.max(0, this.#moveAt - now);
  }

  #show(shown: Connection & { phase: "connected" }): void {
    this.#shown = shown;
    this.client.emit({ do: "tell_connection", connection: shown });
  }

  #tellStates(states: readonly UserState[]): void {
    if (states.length > 0) this.client.emit({ do: "tell_states", states });
  }
}
