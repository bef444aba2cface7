/**
 * A WebSocket that leads to the tab which owns the real one, over a `BroadcastChannel`, and the
 * parcels on that channel. It must not know what the frames mean.
 */
import type { Disconnected } from "./effects.js";
import type { Told, WebSocketConstructor, WebSocketLike } from "./runner.js";

/** What this package uses of the Web Locks of a browser. */
export interface Locks {
  request(name: string, options: { signal: AbortSignal }, run: () => unknown): Promise<unknown>;
}

/** From a tab's socket to the hub: a frame, or that it wishes to open. */
export interface ToHub {
  readonly from: string;
  readonly frame?: string;
}

/** From the hub to one socket, or to all. */
export interface ToTab {
  readonly to: string | "all";
  readonly frame?: string;
  readonly opened?: true;
  readonly closed?: {
    readonly code: number;
    readonly reason: string;
    readonly follow?: Disconnected;
  };
  /** What went wrong in the real client. */
  readonly problem?: unknown;
  /** There is a new hub, and what was open is no more. */
  readonly moved?: true;
  /** The real client connects, or is connected: whoever waited for that may come. */
  readonly up?: true;
  /** How the session is shown from now on, whichever tab said so. */
  readonly status?: { readonly show: string; readonly text?: string };
}

/** Holds a lock until the signal aborts; `run` is called when it has it. */
export function hold(locks: Locks, name: string, signal: AbortSignal, run: () => void): void {
  const held = () =>
    new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve());
      run();
    });
  // It rejects when the signal aborts first.
  locks.request(name, { signal }, held).catch(() => {});
}

/** The name of the lock that a socket holds for as long as it lives. */
export const lifeOf = (name: string, socket: string): string => `${name} ${socket}`;

/** The class that `connect` takes as its WebSocket. */
export function tabSocket(name: string, locks: Locks): WebSocketConstructor {
  return class TabSocket implements WebSocketLike {
    binaryType = "";
    readyState = 0;
    onopen: ((event: never) => void) | null = null;
    onmessage: ((event: never) => void) | null = null;
    onclose: ((event: never) => void) | null = null;
    onerror: ((event: never) => void) | null = null;
    readonly #id = crypto.randomUUID();
    readonly #life = new AbortController();
    readonly #channel = new BroadcastChannel(name);

    constructor() {
      this.#channel.onmessage = ({ data }) => this.#take(data as Partial<ToTab>);
      // The hub gets this lock when the socket is closed or its tab is gone: nobody need say so.
      hold(locks, lifeOf(name, this.#id), this.#life.signal, () => this.#post({}));
    }

    send(frame: string | Uint8Array): void {
      this.#post({ frame: frame as string });
    }

    close(): void {
      this.readyState = 3;
      this.#life.abort();
      this.#channel.close();
    }

    #take({ to, opened, frame, closed, problem, moved }: Partial<ToTab>): void {
      if (to !== this.#id && to !== "all") return;
      if (moved && this.readyState === 0) this.#post({});
      if (moved && this.readyState === 1) {
        this.#end({ code: 1006, reason: "Another tab has the socket now." });
      }
      if (opened && this.readyState === 0) {
        this.readyState = 1;
        this.onopen?.({} as never);
      }
      if (frame !== undefined) this.onmessage?.({ data: frame } as never);
      if (problem !== undefined) this.onerror?.({ problem } satisfies Told as never);
      if (closed) this.#end(closed);
    }

    #end(closed: NonNullable<ToTab["closed"]>): void {
      this.close();
      this.onclose?.(closed as never);
    }

    #post(parcel: Omit<ToHub, "from">): void {
      if (this.readyState !== 3) this.#channel.postMessage({ from: this.#id, ...parcel });
    }
  };
}
