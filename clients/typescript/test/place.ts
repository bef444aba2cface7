/** A place to run in whose time, network and browser a test plays: fake timers, fake sockets. */
import { type Options, Presence } from "presence-client";
import type { ClientMessage, GatewayMessage } from "../dist/messages.js";
import type { Signals, Surroundings } from "../dist/surroundings.js";
import { welcome } from "./history.js";

export class Place implements Surroundings {
  #now = 5_000;
  #slept = 0;
  #timers = new Map<object, { at: number; run: () => void }>();
  signals: Signals | undefined;
  readonly sockets: Socket[] = [];

  now = () => this.#now;
  wallNow = () => 1_700_000_000_000 + this.#now + this.#slept;
  random = () => 0.5;

  startTimer(run: () => void, ms: number): object {
    const timer = {};
    this.#timers.set(timer, { at: this.#now + ms, run });
    return timer;
  }

  stopTimer(timer: object): void {
    this.#timers.delete(timer);
  }

  listen(signals: Signals): () => void {
    this.signals = signals;
    return () => (this.signals = undefined);
  }

  get timersLen(): number {
    return this.#timers.size;
  }

  /** Lets time pass, with all timers and microtasks in it. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settled();
    for (;;) {
      const [next] = [...this.#timers].sort(([, a], [, b]) => a.at - b.at);
      if (!next || next[1].at > end) break;
      this.#timers.delete(next[0]);
      this.#now = Math.max(this.#now, next[1].at);
      next[1].run();
      await settled();
    }
    this.#now = end;
  }

  /** The machine sleeps: the clock on the wall goes on, timers and their clock stand still. */
  sleep(ms: number): void {
    this.#slept += ms;
  }

  connect(options: Options = { user: "ana" }): Presence {
    const { sockets } = this;
    class FakeWebSocket extends Socket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols);
        sockets.push(this);
      }
    }
    return new Presence("wss://gateway.test/ws", { WebSocket: FakeWebSocket, ...options }, this);
  }

  /** The one that was dialed last. */
  get socket(): Socket {
    return this.sockets.at(-1)!;
  }
}

export class Socket {
  binaryType = "";
  readyState = 0;
  isClosed = false;
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  /** What the client said, and nobody looked at yet. */
  readonly said: ClientMessage[] = [];

  constructor(
    readonly url: string,
    readonly protocols: string[],
  ) {}

  send(data: string | Uint8Array): void {
    this.said.push(JSON.parse(data as string) as ClientMessage);
  }

  close(): void {
    this.isClosed = true;
  }

  open(): void {
    this.readyState = 1;
    this.onopen?.({} as never);
  }

  say(...messages: GatewayMessage[]): void {
    for (const message of messages) this.sayRaw(JSON.stringify(message));
  }

  sayRaw(data: string): void {
    this.onmessage?.({ data } as never);
  }

  /** Opens and welcomes. */
  welcome(): void {
    this.open();
    this.say(welcome);
  }

  end(code: number): void {
    this.readyState = 3;
    this.onclose?.({ code, reason: "" } as never);
  }

  /** What was said since the last time. */
  take(): ClientMessage[] {
    return this.said.splice(0);
  }
}

/** Until every microtask has run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
