/**
 * Whether and when to come back, by the contract's table of close codes. Pure but for the dice,
 * which are handed in.
 */

/** Why there is no connection. */
export interface Lost {
  /**
   * `unreachable`: dial, upgrade or sign-in failed. `closed`: the gateway closed, and said why in
   * `closeCode`. `lost`: the network failed. `silent`: nothing was heard for too long. `draining`:
   * the gateway is going away, and the time it gave is over. `token`: there is no token to sign in
   * with, see `error`. `suspended`: the page is in the back/forward cache.
   */
  readonly kind: "unreachable" | "closed" | "lost" | "silent" | "draining" | "token" | "suspended";
  /** One sentence for people. */
  readonly message: string;
  readonly closeCode?: number;
  readonly error?: unknown;
}

export type Comeback = "never" | "at_once" | "after_backoff" | "with_new_token";

/**
 * 1000 answers `bye`, which `machine.ts` takes care of. From anybody else, such as a proxy that
 * tidies up, it is a lost connection; so is a code that the contract does not know.
 */
export function comeback(closeCode: number): Comeback {
  switch (closeCode) {
    case 1002:
    case 1003:
    case 1007:
    case 1009:
    case 4007:
    case 4008:
      return "never";
    case 1001:
    case 1012:
    case 1013:
    case 4006:
    case 4009:
      return "after_backoff";
    case 4002:
    case 4003:
      return "with_new_token";
    default:
      return "at_once";
  }
}

/**
 * Exponential backoff with full jitter: before the n-th attempt in a row, a random time between
 * nothing and min * 2^(n-1), at most max. Spread so, clients of a lost gateway do not come back in
 * step (aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter).
 */
export class Backoff {
  #failures = 0;

  constructor(
    private readonly minMs: number,
    private readonly maxMs: number,
    private readonly random: () => number,
  ) {}

  /**
   * The last connection was a good one. Only then: one that is lost right after each `welcome` must
   * not be tried again at once for ever.
   */
  reset(): void {
    this.#failures = 0;
  }

  /**
   * How long to wait; none when the client must not come back. `toldMs` is how much is left of the
   * gateway's `reconnect_after_ms`, if it told one.
   */
  next(lost: Lost, toldMs: number | undefined, canRenew: boolean): number | undefined {
    const how = lost.kind === "closed" ? comeback(lost.closeCode ?? 1006) : comebackOf(lost);
    if (how === "never" || (how === "with_new_token" && !canRenew)) return undefined;
    const departed = how !== "with_new_token" && lost.kind !== "unreachable";
    if (toldMs !== undefined && departed) return toldMs;
    // An expired token was a good one, so the next will do; a bad one is no hurry.
    const hurry = how === "at_once" || (how === "with_new_token" && lost.closeCode === 4003);
    const waitMs = hurry && this.#failures === 0 ? 0 : this.#jittered();
    this.#failures += 1;
    return waitMs;
  }

  #jittered(): number {
    return this.random() * Math.min(this.minMs * 2 ** this.#failures, this.maxMs);
  }
}

function comebackOf(lost: Lost): Comeback {
  return lost.kind === "unreachable" || lost.kind === "token" ? "after_backoff" : "at_once";
}
