/**
 * Runs the state machine: owns the socket and the one timer, and performs the effects. It must not
 * decide anything; that is for `machine.ts`.
 */
import type { Codec } from "./codec.js";
import { MalformedMessage, readGatewayMessage } from "./decode.js";
import type { Disconnected, Effect, Input } from "./effects.js";
import type { Machine } from "./machine.js";
import type { ClientMessage, GatewayMessage } from "./messages.js";
import type { Surroundings } from "./surroundings.js";
import { lifetimeMs } from "./tokens.js";

/** What the client uses of a WebSocket, of whatever make. */
export interface WebSocketLike {
  binaryType: string;
  readonly readyState: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
  /** Node's `ws` has it: a dead socket's `close` would wait for half a minute. */
  terminate?(): void;
}

export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

/** What a socket that depends on another client tells of that one, beside what all tell. */
export interface Told {
  /** What became of its connection, in the event of `onclose`. */
  readonly follow?: Disconnected;
  /** What went wrong there, in the event of `onerror`. */
  readonly problem?: unknown;
}

export interface Means {
  readonly url: string;
  readonly codec: Codec;
  readonly WebSocket: WebSocketConstructor;
  readonly token: () => unknown;
  readonly grant: ((users: readonly string[]) => string | undefined) | undefined;
  readonly surroundings: Surroundings;
  /** Effects that are for the application. */
  readonly tell: (effect: Exclude<Effect, { do: "ask_token" | "dial" | "send" | "drop" }>) => void;
}

/** No timer is set for longer; `setTimeout` takes 24 days at most. */
const TIMER_MAX_MS = 3_600_000;

/** The clocks differ by so much when the machine slept. */
const SLEPT_MS = 3_000;

const OPEN = 1;

export class Runner {
  readonly #inputs: Input[] = [];
  #isBusy = false;
  #socket: WebSocketLike | undefined;
  #tokenCalls = 0;
  #timer: unknown;
  #timerAt = Infinity;
  #clocksDiffer: number;

  constructor(
    private readonly machine: Machine,
    private readonly means: Means,
  ) {
    this.#clocksDiffer = this.#clockDifference();
  }

  /** Nothing that happens meanwhile is lost: inputs wait for each other. */
  give(input: Input): void {
    this.#inputs.push(input);
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      for (let next = this.#inputs.shift(); next; next = this.#inputs.shift()) {
        const effects = this.machine.handle(next, this.means.surroundings.now());
        for (const effect of effects) this.#perform(effect);
      }
    } finally {
      this.#isBusy = false;
    }
    this.#setTimer();
  }

  #perform(effect: Effect): void {
    switch (effect.do) {
      case "ask_token":
        return void this.#askToken();
      case "dial":
        return this.#dial();
      case "send":
        return this.#send(effect.message);
      case "drop":
        return this.#drop();
      default:
        return this.means.tell(effect);
    }
  }

  async #askToken(): Promise<void> {
    const call = ++this.#tokenCalls;
    try {
      const token = await this.means.token();
      if (typeof token !== "string" || token === "") {
        throw new TypeError("The token function must give a string that is not empty");
      }
      const lifetime = lifetimeMs(token, this.means.surroundings.wallNow());
      this.give({ type: "token", token, lifetimeMs: lifetime });
    } catch (error) {
      if (call === this.#tokenCalls) this.give({ type: "no_token", error });
    }
  }

  #dial(): void {
    const { WebSocket, url, codec } = this.means;
    try {
      const socket = new WebSocket(url, [codec.subprotocol]);
      this.#socket = socket;
      socket.binaryType = "arraybuffer";
      socket.onopen = () => this.give({ type: "opened" });
      socket.onmessage = (event: { data: string | ArrayBuffer }) => this.#hear(event.data);
      socket.onclose = ({ code, reason, follow }: { code: number; reason: string } & Told) => {
        this.#socket = undefined;
        this.give({ type: "closed", code, message: reason, ...(follow && { follow }) });
      };
      // Of a socket of its own `close` follows, and tells all that a script may know.
      socket.onerror = (event?: Told) => {
        if (event?.problem !== undefined) {
          this.means.tell({ do: "tell_error", error: event.problem });
        }
      };
    } catch (error) {
      this.give({ type: "closed", code: 1006, message: String(error) });
    }
  }

  #hear(frame: string | ArrayBuffer): void {
    const message = this.#read(frame);
    this.give(message ? { type: "heard", message } : { type: "heard" });
  }

  #read(frame: string | ArrayBuffer): GatewayMessage | undefined {
    try {
      return readGatewayMessage(this.means.codec.decode(frame));
    } catch (error) {
      // A newer gateway may say more than this client knows.
      const isNew = error instanceof MalformedMessage && error.code === "unknown_type";
      if (!isNew) this.means.tell({ do: "tell_error", error });
      return undefined;
    }
  }

  #send(message: ClientMessage): void {
    if (this.#socket?.readyState !== OPEN) return;
    this.#socket.send(this.means.codec.encode(this.#granted(message)));
  }

  /** The message with a grant, where it asks for users and the application gives one. */
  #granted(message: ClientMessage): ClientMessage {
    if (message.type !== "watch" && message.type !== "query") return message;
    if (!this.means.grant || message.users.length === 0) return message;
    try {
      const grant = this.means.grant(message.users);
      return grant === undefined ? message : { ...message, grant };
    } catch (error) {
      this.means.tell({ do: "tell_error", error });
      return message;
    }
  }

  #drop(): void {
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = undefined;
    socket.onopen = socket.onmessage = socket.onclose = null;
    if (socket.terminate) socket.terminate();
    else socket.close();
  }

  /** A timer that is early only looks and is set again: one is left alone when it may be later. */
  #setTimer(): void {
    const { surroundings } = this.means;
    const now = surroundings.now();
    const deadline = this.machine.deadline(now);
    if (deadline !== Infinity && deadline >= this.#timerAt) return;
    if (this.#timer !== undefined) surroundings.stopTimer(this.#timer);
    this.#timer = undefined;
    this.#timerAt = Infinity;
    if (deadline === Infinity) return;
    const waitMs = Math.min(Math.ceil(Math.max(deadline - now, 0)), TIMER_MAX_MS);
    this.#timerAt = now + waitMs;
    this.#timer = surroundings.startTimer(() => this.#ring(), waitMs);
  }

  #ring(): void {
    this.#timer = undefined;
    this.#timerAt = Infinity;
    const before = this.#clocksDiffer;
    this.#clocksDiffer = this.#clockDifference();
    if (this.#clocksDiffer - before > SLEPT_MS) this.give({ type: "suspect" });
    this.give({ type: "time" });
  }

  #clockDifference(): number {
    return this.means.surroundings.wallNow() - this.means.surroundings.now();
  }
}
