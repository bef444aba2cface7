/**
 * The token that proves who signs in: whether the present one will do, and when to ask for the
 * next. Pure: it neither calls the application nor checks a signature.
 */

/** How a client proves who it is. */
export type Credential =
  | { readonly kind: "user"; readonly user: string }
  | { readonly kind: "token"; readonly token: string }
  /** The application is asked for a token whenever one is needed. */
  | { readonly kind: "source" };

/** A new token is asked for when so much of the lifetime is left, or a quarter of it. */
const MARGIN_MS = 60_000;

/** How soon to ask again for what was refused, came to nothing, or was as old as before. */
const ASK_AGAIN_MS = 10_000;

/** A token to be renewed sooner is taken for none: a clock that is wrong makes such ones. */
const RENEW_MIN_MS = 500;

export class Tokens {
  #token: string | undefined;
  #refused: string | undefined;
  /** When to ask for the next; never for a token that does not tell when it expires. */
  renewAt = Infinity;

  constructor(
    private readonly credential: Credential,
    private readonly random: () => number,
  ) {}

  get canRenew(): boolean {
    return this.credential.kind === "source";
  }

  /** What goes into `hello`; none when the application is to be asked first. */
  usable(now: number): { user?: string; token?: string } | undefined {
    const { credential } = this;
    if (credential.kind === "user") return { user: credential.user };
    if (credential.kind === "token") return { token: credential.token };
    const isGood = this.#token !== undefined && now < this.renewAt && this.renewAt !== Infinity;
    return isGood ? this.current() : undefined;
  }

  /** What `usable` gave, or what was accepted since. */
  current(): { user?: string; token?: string } {
    return this.#token === undefined ? (this.usable(0) ?? {}) : { token: this.#token };
  }

  /** Takes a token that the application gave; false when the gateway refused the same one. */
  accept(token: string, lifetimeMs: number | undefined, now: number): boolean {
    if (token === this.#refused) return false;
    const isNew = token !== this.#token;
    this.#token = token;
    this.renewAt = Infinity;
    if (lifetimeMs !== undefined) {
      // At random, so that clients that came together do not renew together.
      const marginMs = Math.min(MARGIN_MS, lifetimeMs / 4) * (1 - this.random() / 2);
      const waitMs = lifetimeMs - marginMs;
      const isGood = isNew && waitMs >= RENEW_MIN_MS;
      this.renewAt = now + (isGood ? waitMs : Math.max(waitMs, ASK_AGAIN_MS));
    }
    return true;
  }

  /** The gateway refused the present one, or it has expired. */
  refuse(): void {
    this.#refused = this.#token;
    this.#token = undefined;
  }

  putOff(now: number): void {
    this.renewAt = now + ASK_AGAIN_MS;
  }
}

/**
 * How long a JWT is good for, in ms; none for a token that does not say, or is no JWT.
 *
 * This machine's clock may be wrong by hours. What is left by it is believed only when that is
 * within what the token was made for; otherwise the token is taken for one that was just made.
 */
export function lifetimeMs(token: string, nowMs: number): number | undefined {
  const { exp, iat } = claims(token);
  if (typeof exp !== "number") return undefined;
  const leftMs = exp * 1000 - nowMs;
  if (typeof iat !== "number" || iat >= exp) return Math.max(leftMs, 0);
  const wholeMs = (exp - iat) * 1000;
  return leftMs > 0 && leftMs <= wholeMs ? leftMs : wholeMs;
}

function claims(token: string): { exp?: unknown; iat?: unknown } {
  try {
    const payload = (token.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    return (JSON.parse(atob(payload)) as object | null) ?? {};
  } catch {
    return {};
  }
}
