/**
 * What a client and a gateway say to each other, as types, and the limits both keep.
 * It must know neither a notation (see `codec.ts`) nor what a client makes of it.
 */

/** How a session wants its user shown. */
export type Show = "online" | "away" | "busy" | "invisible";

/** What others see of a user. */
export interface State {
  readonly user: string;
  readonly state: "online" | "offline";
  /** Grows with each change of the user; of two states the higher one is right. */
  readonly version: number;
  /** When this state began, in ms since the Unix epoch; of `offline` when last seen, if ever. */
  readonly since?: number;
  /** Absent means plainly online. */
  readonly show?: "away" | "busy";
  readonly text?: string;
  /** The distinct labels of the user's living sessions, sorted. */
  readonly devices?: readonly string[];
}

export interface Hello {
  readonly type: "hello";
  readonly token?: string;
  readonly user?: string;
  readonly device?: string;
  readonly show?: Show;
  readonly text?: string;
}

interface Request<Type> {
  readonly type: Type;
  readonly users: readonly string[];
  readonly id?: number;
  /** A JWT of the application's backend, for those of these users whom the token does not list. */
  readonly grant?: string;
}

export type ClientMessage =
  | Hello
  | Request<"watch">
  | { readonly type: "unwatch"; readonly users: readonly string[] }
  | Request<"query">
  | { readonly type: "heartbeat" }
  | { readonly type: "status"; readonly show: Show; readonly text?: string }
  | { readonly type: "bye" };

export interface Welcome {
  readonly type: "welcome";
  readonly user: string;
  readonly session: string;
  readonly heartbeat_ms: number;
  readonly ttl_ms: number;
  readonly grace_ms: number;
  readonly max_watch: number;
}

export type ErrorCode =
  | "bad_message"
  | "unknown_type"
  | "not_allowed"
  | "too_many_watches"
  | "rate_limited"
  | "bad_user_id"
  | "store_unavailable"
  | "undecided";

/** The gateway refused one message; all else goes on. */
export interface Refusal {
  readonly type: "error";
  readonly code: ErrorCode;
  /** One sentence for people, which may change: go by `code`. */
  readonly message: string;
  readonly id?: number | string;
  /** Whom you may not watch; of `too_many_watches` who is on your list and has to wait for room. */
  readonly users?: readonly string[];
}

export type GatewayMessage =
  | Welcome
  | { readonly type: "snapshot"; readonly id?: number | string; readonly users: readonly State[] }
  | { readonly type: "presence"; readonly users: readonly State[] }
  | { readonly type: "degraded"; readonly since?: number }
  | { readonly type: "draining"; readonly reconnect_after_ms: number }
  | Refusal;

const utf8 = new TextEncoder();
const SURROGATE = /\p{Surrogate}/u;
const CONTROL = /\p{Cc}/u;
const DEVICE = /^[a-z0-9_-]{1,32}$/;

export function isUserId(id: string): boolean {
  // Only a longer text needs its bytes counted: 42 characters of UTF-16 take at most 126.
  return id.length > 0 && !SURROGATE.test(id) && (id.length <= 42 || utf8.encode(id).length <= 128);
}

export function checkUserId(id: unknown): string {
  if (typeof id !== "string" || !isUserId(id)) {
    throw new RangeError(`A user id is a string of 1 to 128 bytes, not ${JSON.stringify(id)}`);
  }
  return id;
}

export function checkDevice(device: string): string {
  if (!DEVICE.test(device)) {
    throw new RangeError(`A device is 1 to 32 of a-z, 0-9, _ and -, not ${JSON.stringify(device)}`);
  }
  return device;
}

export function checkShow(show: string): Show {
  if (show === "online" || show === "away" || show === "busy" || show === "invisible") return show;
  throw new RangeError(
    `A status shows online, away, busy or invisible, not ${JSON.stringify(show)}`,
  );
}

export function checkText(text: string): string {
  if (SURROGATE.test(text) || CONTROL.test(text) || utf8.encode(text).length > 256) {
    throw new RangeError("A status text is at most 256 bytes, without control characters");
  }
  return text;
}
