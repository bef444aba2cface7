/**
 * What a client does, as a state machine: inputs go in with the time, effects come out. It must not
 * touch a socket, a timer, a clock or the application; `runner.ts` does, so that tests can write
 * whole histories down. This file is about connections, `session.ts` about what is said on one.
 */
import { Asks } from "./asks.js";
import type { Connection, Disconnected, Effect, Ended, Input, Settings } from "./effects.js";
import { PresenceError } from "./errors.js";
import type { GatewayMessage, Refusal } from "./messages.js";
import { Backoff, type Lost, comeback } from "./retry.js";
import { Session, type Surviving } from "./session.js";
import { Tokens } from "./tokens.js";
import { View } from "./view.js";

/** How long a gateway may take to answer `bye` by closing. */
const BYE_TIMEOUT_MS = 2_000;

type Phase =
  | { readonly is: "new" | "ended" }
  | { readonly is: "asking" | "dialing" | "greeting"; readonly deadline: number }
  | { readonly is: "online"; readonly session: Session }
  | { readonly is: "leaving"; readonly deadline: number }
  | { readonly is: "waiting"; readonly deadline: number; readonly mayHurry: boolean };

export class Machine {
  readonly view = new View();
  readonly #client: Surviving;
  readonly #backoff: Backoff;
  #phase: Phase = { is: "new" };
  #effects: Effect[] = [];
  /** When what nobody vouches for is shown as stale. */
  #staleAt = Infinity;

  constructor(private readonly settings: Settings) {
    const { credential, status, random, backoffMinMs, backoffMaxMs } = settings;
    this.#backoff = new Backoff(backoffMinMs, backoffMaxMs, random);
    this.#client = {
      view: this.view,
      asks: new Asks(),
      tokens: new Tokens(credential, random),
      random,
      emit: (effect) => this.#effects.push(effect),
      status,
      statusIsUnsent: false,
    };
  }

  /** `now` is in ms, from anywhere, and never goes back. */
  handle(input: Input, now: number): Effect[] {
    this.#effects = [];
    this.#take(input, now);
    if (this.#phase.is === "online") this.#phase.session.sayWhatIsWanted(now);
    if (this.#phase.is === "ended") this.#client.asks.end();
    return this.#effects;
  }

  /** When to give the next `time`. */
  deadline(now: number): number {
    const phase = this.#phase;
    if (phase.is === "ended") return Infinity;
    const common = Math.min(this.#staleAt, this.#client.asks.deadline(now));
    if (phase.is === "online") return Math.min(common, phase.session.deadline());
    return "deadline" in phase ? Math.min(common, phase.deadline) : common;
  }

  #take(input: Input, now: number): void {
    if (input.type === "query") return this.#client.asks.query(input.query);
    if (this.#phase.is === "ended") return;
    switch (input.type) {
      case "start":
        return this.#connect(now);
      case "token":
        return this.#takeToken(input.token, input.lifetimeMs, now);
      case "no_token":
        return this.#doWithoutToken("The token function failed", input.error, now);
      case "opened":
        return this.#greet();
      case "heard":
        return this.#hear(input.message, now);
      case "closed":
        if (input.follow) return this.#follow(input.follow, now);
        return this.#closed(input.code, input.message, now);
      case "time":
        return this.#keepTime(now);
      case "wanted":
        return;
      case "forget":
        return this.#client.asks.forget(input.query);
      case "status":
        this.#client.status = input.status;
        this.#client.statusIsUnsent = true;
        return;
      case "suspect":
        return this.#suspect(now);
      case "suspend":
        return this.#suspend(now);
      case "sign_out":
        return this.#signOut(now);
      case "close":
        return this.#end({ kind: "closed", message: "Closed by the application." });
    }
  }

  // From nothing to the welcome.

  #connect(now: number): void {
    const deadline = now + this.settings.connectTimeoutMs;
    const hasToken = this.#client.tokens.usable(now) !== undefined;
    this.#phase = { is: hasToken ? "dialing" : "asking", deadline };
    this.#tell({ phase: "connecting" });
    this.#effects.push({ do: hasToken ? "dial" : "ask_token" });
  }

  #takeToken(token: string, lifetimeMs: number | undefined, now: number): void {
    const phase = this.#phase;
    const isRenewal = phase.is === "online" && phase.session.isRenewing;
    if (phase.is !== "asking" && !isRenewal) return;
    if (!this.#client.tokens.accept(token, lifetimeMs, now)) {
      const message = "The token function gave the refused token again";
      return this.#doWithoutToken(message, new Error(message), now);
    }
    if (isRenewal) return phase.session.renewed(token);
    if (phase.is !== "asking") return;
    this.#phase = { is: "dialing", deadline: phase.deadline };
    this.#effects.push({ do: "dial" });
  }

  #doWithoutToken(message: string, error: unknown, now: number): void {
    const phase = this.#phase;
    if (phase.is === "asking") return this.#lose({ kind: "token", message, error }, now);
    if (phase.is !== "online" || !phase.session.isRenewing) return;
    this.#client.tokens.putOff(now);
    phase.session.renewed(undefined);
    this.#effects.push({ do: "tell_error", error });
  }

  #greet(): void {
    if (this.#phase.is !== "dialing") return;
    this.#phase = { is: "greeting", deadline: this.#phase.deadline };
    const { device } = this.settings;
    const label = device === undefined ? {} : { device };
    const { tokens, status } = this.#client;
    this.#effects.push({
      do: "send",
      message: { type: "hello", ...tokens.current(), ...label, ...status },
    });
    this.#client.statusIsUnsent = false;
  }

  #hear(message: GatewayMessage | undefined, now: number): void {
    const phase = this.#phase;
    if (phase.is === "online") return phase.session.hear(message, now);
    if (phase.is !== "greeting") return;
    // What follows is a close, or nothing at all: only this says why.
    if (message?.type === "error") this.#tellRefused(message);
    if (message?.type !== "welcome") return;
    this.#phase = { is: "online", session: new Session(this.#client, message, now) };
  }

  #tellRefused(refusal: Refusal): void {
    const error = new PresenceError("refused", `Refused: ${refusal.message}`, refusal);
    this.#effects.push({ do: "tell_error", error });
  }

  #keepTime(now: number): void {
    this.#client.asks.expire(this.view, now);
    if (now >= this.#staleAt) this.#markStale();
    const phase = this.#phase;
    if (phase.is === "online") return this.#loseIf(phase.session.keepTime(now), now);
    if (!("deadline" in phase) || now < phase.deadline) return;
    if (phase.is === "waiting") return this.#connect(now);
    if (phase.is === "leaving") return this.#signedOut();
    const seconds = this.settings.connectTimeoutMs / 1000;
    this.#lose({ kind: "unreachable", message: `No welcome within ${seconds} s.` }, now);
  }

  #suspect(now: number): void {
    const phase = this.#phase;
    if (phase.is === "online") return this.#loseIf(phase.session.suspect(now), now);
    if (phase.is !== "waiting" || !phase.mayHurry) return;
    if (phase.deadline === Infinity) return this.#connect(now);
    // Not quite at once: the network may have come back for a whole building.
    const deadline = now + this.settings.random() * this.settings.backoffMinMs;
    this.#phase = { ...phase, deadline: Math.min(phase.deadline, deadline) };
  }

  // From a connection to the next, or to the end.

  #closed(code: number, message: string, now: number): void {
    const { is } = this.#phase;
    if (is === "leaving") return this.#signedOut();
    const isLost = code === 1005 || code === 1006;
    if (is === "dialing" || (is === "greeting" && isLost)) {
      this.#lose({ kind: "unreachable", message: message || "No connection." }, now);
    } else if (isLost) {
      this.#lose({ kind: "lost", message: message || "The connection was lost." }, now);
    } else {
      this.#lose({ kind: "closed", closeCode: code, message }, now);
    }
  }

  #loseIf(reason: Lost | undefined, now: number): void {
    if (reason) this.#lose(reason, now);
  }

  #lose(reason: Lost, now: number): void {
    const toldMs = this.#phase.is === "online" ? this.#phase.session.toldMs(now) : undefined;
    this.#letGo(now);
    const { tokens } = this.#client;
    if (reason.closeCode === 4002 || reason.closeCode === 4003) tokens.refuse();
    const waitMs = this.#backoff.next(reason, toldMs, tokens.canRenew);
    if (waitMs === undefined) return this.#end({ ...reason, kind: "refused" });
    const isPaced = reason.closeCode !== undefined && comeback(reason.closeCode) !== "at_once";
    const mayHurry = toldMs === undefined && !isPaced;
    this.#phase = { is: "waiting", deadline: now + waitMs, mayHurry };
    this.#tell({ phase: "waiting", reason, retryInMs: waitMs });
  }

  #suspend(now: number): void {
    if (this.#phase.is === "leaving" || this.#phase.is === "new") return;
    const reason = { kind: "suspended", message: "The page is put away." } as const;
    this.#rest({ phase: "waiting", reason, retryInMs: Infinity }, now);
  }

  #follow(other: Disconnected, now: number): void {
    if (this.#phase.is === "leaving") return this.#signedOut();
    if (other.phase === "ended") return this.#end(other.reason);
    this.#rest(other, now);
  }

  /** No attempt until `suspect`. */
  #rest(waiting: Connection & { phase: "waiting" }, now: number): void {
    this.#letGo(now);
    this.#phase = { is: "waiting", deadline: Infinity, mayHurry: true };
    this.#tell(waiting);
  }

  /** Ends the socket, and the session if there was one. */
  #letGo(now: number): void {
    this.#effects.push({ do: "drop" });
    if (this.#phase.is !== "online") return;
    const { session } = this.#phase;
    const { asks } = this.#client;
    if (session.wasGood()) this.#backoff.reset();
    const wasRight = this.view.unasked.size === 0 && asks.areAnswered;
    if (wasRight || this.#staleAt === Infinity) {
      this.#staleAt = now + (this.settings.staleAfterMs ?? session.graceMs);
    }
    asks.disconnected(this.view);
    this.view.disconnected();
  }

  #signOut(now: number): void {
    if (this.#phase.is === "leaving") return;
    if (this.#phase.is !== "online" && this.#phase.is !== "greeting") return this.#signedOut();
    this.#effects.push({ do: "send", message: { type: "bye" } });
    this.#phase = { is: "leaving", deadline: now + BYE_TIMEOUT_MS };
  }

  #signedOut(): void {
    this.#end({ kind: "signed_out", message: "Signed out." });
  }

  #end(reason: Ended): void {
    this.#effects.push({ do: "drop" });
    this.#phase = { is: "ended" };
    this.view.disconnected();
    this.#markStale();
    this.#tell({ phase: "ended", reason });
  }

  #markStale(): void {
    this.#staleAt = Infinity;
    const states = this.view.markStale();
    if (states.length > 0) this.#effects.push({ do: "tell_states", states });
  }

  #tell(connection: Connection): void {
    this.#effects.push({ do: "tell_connection", connection });
  }
}
