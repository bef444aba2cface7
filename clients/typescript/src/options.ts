/** What a client is told when it is made, and the defaults with their reasons. */
import { type Codec, json } from "./codec.js";
import type { Settings, Status } from "./effects.js";
import { checkDevice, checkShow, checkText, checkUserId } from "./messages.js";
import type { Means, WebSocketConstructor } from "./runner.js";
import type { Surroundings } from "./surroundings.js";
import type { Credential } from "./tokens.js";

/** Half a second spreads a small outage; a minute keeps a long one from being hammered. */
const BACKOFF_MIN_MS = 500;
const BACKOFF_MAX_MS = 60_000;

/** From the token to the `welcome`: a mobile network on a bad day needs several seconds. */
const CONNECT_TIMEOUT_MS = 15_000;

export interface Options {
  /**
   * A JWT, or a function that gives one each time it is called, a fresh one when the last has
   * expired. With a function the client renews the token before it expires.
   */
  readonly token?: string | (() => string | Promise<string>);
  /** Who signs in, instead of a token: believed only by a gateway without authentication. */
  readonly user?: string;
  /**
   * Called for each message that asks for users, with these: gives a grant to see them, a JWT that
   * the application's backend signed, or nothing where the token is enough.
   */
  readonly grant?: (users: readonly string[]) => string | undefined;
  /** What kind of device this is: 1 to 32 of `a-z`, `0-9`, `_` and `-`. */
  readonly device?: string;
  /** How to be shown from the first moment, until `setStatus` says otherwise. */
  readonly status?: Status;
  /** How messages are written: JSON, or `msgpack` from `presence-client/msgpack`. */
  readonly codec?: Codec;
  /** The make of WebSocket, where there is none by that name, as in Node 20: pass that of `ws`. */
  readonly WebSocket?: WebSocketConstructor;
  /** Closes the client when it aborts, as `close` does. */
  readonly signal?: AbortSignal;
  /** How long after a loss states are marked stale: as long as the gateway's grace. */
  readonly staleAfterMs?: number;
  /** The longest first wait before reconnecting, 500 ms. It doubles with each failure. */
  readonly backoffMinMs?: number;
  /** The longest wait of all, a minute. */
  readonly backoffMaxMs?: number;
  /** How long one attempt may take, from the token to the `welcome`: 15 s. */
  readonly connectTimeoutMs?: number;
  /** How long a `query` may take, waiting for a connection included: 10 s. */
  readonly requestTimeoutMs?: number;
}

export function settings(options: Options, place: Surroundings): Settings {
  const { device, status } = options;
  checkTimes(options);
  if (device !== undefined) checkDevice(device);
  if (status) checkShow(status.show);
  if (status?.text !== undefined) checkText(status.text);
  return {
    credential: credential(options),
    device,
    status,
    staleAfterMs: options.staleAfterMs,
    connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    backoffMinMs: options.backoffMinMs ?? BACKOFF_MIN_MS,
    backoffMaxMs: options.backoffMaxMs ?? BACKOFF_MAX_MS,
    random: place.random,
  };
}

const TIMES = [
  "staleAfterMs",
  "backoffMinMs",
  "backoffMaxMs",
  "connectTimeoutMs",
  "requestTimeoutMs",
] as const;

function checkTimes(options: Options): void {
  for (const name of TIMES) {
    const ms = options[name];
    if (ms === undefined || (typeof ms === "number" && ms >= 0)) continue;
    throw new RangeError(`\`${name}\` is a number of ms, not below 0, and not ${ms}`);
  }
}

function credential({ token, user }: Options): Credential {
  if (typeof token === "function") return { kind: "source" };
  if (token) return { kind: "token", token };
  if (user !== undefined) return { kind: "user", user: checkUserId(user) };
  throw new TypeError(
    "Say who signs in: give `token`, or `user` to a gateway without authentication",
  );
}

export function means(
  url: string | URL,
  options: Options,
  place: Surroundings,
  tell: Means["tell"],
): Means {
  const { token } = options;
  return {
    url: webSocketUrl(url),
    codec: options.codec ?? json,
    WebSocket: options.WebSocket ?? builtIn(),
    token: typeof token === "function" ? token : () => token,
    grant: options.grant,
    surroundings: place,
    tell,
  };
}

function builtIn(): WebSocketConstructor {
  const { WebSocket } = globalThis as { WebSocket?: unknown };
  if (WebSocket) return WebSocket as WebSocketConstructor;
  throw new TypeError("There is no WebSocket here: give one, such as that of the package `ws`");
}

/** `wss:` for `https:`, and so on; in a page it may be relative, as in `/ws`. */
function webSocketUrl(url: string | URL): string {
  const { location } = globalThis as { location?: { href: string } };
  const absolute = new URL(url, location?.href);
  absolute.protocol = absolute.protocol.replace(/^http/, "ws");
  if (absolute.protocol !== "ws:" && absolute.protocol !== "wss:") {
    throw new TypeError(`A gateway's URL starts with wss:// or ws://, not ${absolute.protocol}//`);
  }
  if (absolute.hash) throw new TypeError(`A gateway's URL has no fragment, as ${absolute.hash}`);
  return absolute.href;
}
