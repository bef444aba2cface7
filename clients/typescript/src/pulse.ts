/**
 * Whether the gateway is still there. Pure: the time is handed in.
 *
 * A browser shows its scripts no Pings and lets them send none, so what tells a dead socket from a
 * quiet one is a question that the gateway answers: a `query` of nobody, once per heartbeat of
 * silence. It is also our sign of life, in place of the Pong that the gateway would ask for.
 *
 * A script may have slept: hidden tabs have their timers held back to one a minute, laptops are
 * closed, processes stopped. What came meanwhile is handed over after the timer that is late, so a
 * late timer proves nothing: it only asks again, and at the second in a row the socket is dead.
 */
import type { Welcome } from "./messages.js";

/** No gateway asks for more; one that did would make its clients spin. */
const INTERVAL_MIN_MS = 50;

/** Questions go out up to a fifth early, at random, so that clients do not ask in step. */
const EARLY_MAX = 0.2;

/** For the answer after what may have cost the socket: a slow network needs about a second. */
const URGENT_MS = 5_000;

/** A timer that is later than this was held back. */
const LATE_MS = 3_000;

/** No sooner after a frame is a question worth it, lest a lively page ask without end. */
const FRESH_MS = 500;

export type Beat = "rest" | "ask" | "dead";

export class Pulse {
  readonly #intervalMs: number;
  readonly #ttlMs: number;
  #heardAt: number;
  #askAt: number;
  #deadAt: number;
  #askedAt = -Infinity;
  #wasLate = false;

  constructor(
    welcome: Welcome,
    now: number,
    private readonly random: () => number,
  ) {
    this.#intervalMs = Math.max(welcome.heartbeat_ms, INTERVAL_MIN_MS);
    this.#ttlMs = Math.max(welcome.ttl_ms, 2 * this.#intervalMs);
    this.#heardAt = now;
    this.#askAt = this.#nextAsk(now);
    this.#deadAt = now + this.#ttlMs;
  }

  heard(now: number): void {
    this.#heardAt = now;
    this.#askAt = this.#nextAsk(now);
    this.#deadAt = now + this.#ttlMs;
    this.#wasLate = false;
  }

  /**
   * Something happened that may have cost the socket. What was heard before proves nothing, what
   * is heard from now on does: an answer that is due already is enough.
   */
  suspect(now: number): Beat {
    this.#deadAt = Math.min(this.#deadAt, now + URGENT_MS);
    const isAsked = this.#askedAt > this.#heardAt;
    if (!isAsked) this.#askAt = Math.min(this.#askAt, Math.max(now, this.#heardAt + FRESH_MS));
    return this.beat(now);
  }

  /** When to look again. */
  deadline(): number {
    return Math.min(this.#askAt, this.#deadAt);
  }

  beat(now: number): Beat {
    const due = this.deadline();
    if (now < due) return "rest";
    if (now - due > LATE_MS && !this.#wasLate) {
      this.#wasLate = true;
      this.#deadAt = now + URGENT_MS;
      return this.#ask(now);
    }
    return now >= this.#deadAt ? "dead" : this.#ask(now);
  }

  /** Whether a connection that began at `began` lasted long enough to count as a good one. */
  wasGood(began: number): boolean {
    return this.#heardAt >= began + this.#intervalMs;
  }

  #ask(now: number): Beat {
    this.#askedAt = now;
    this.#askAt = this.#nextAsk(now);
    return "ask";
  }

  #nextAsk(now: number): number {
    return now + this.#intervalMs * (1 - EARLY_MAX * this.random());
  }
}
