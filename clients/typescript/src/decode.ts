/**
 * Makes sure that what a gateway sent is a message of the contract: a table of fields and their
 * kinds. Unknown fields are left out, and `null` is the same as absent. It reads no notation.
 */
import { type ErrorCode, type GatewayMessage, type State, isUserId } from "./messages.js";

/** A frame that is no message of the contract. It is a sign of life all the same. */
export class MalformedMessage extends Error {
  override readonly name = "MalformedMessage";
  constructor(
    readonly code: "bad_message" | "unknown_type" | "bad_user_id",
    message: string,
  ) {
    super(message);
  }
}

type Fields = Record<string, unknown>;

const ERROR_CODES: ReadonlySet<unknown> = new Set<ErrorCode>([
  "bad_message",
  "unknown_type",
  "not_allowed",
  "too_many_watches",
  "rate_limited",
  "bad_user_id",
  "store_unavailable",
  "undecided",
]);

/** Throws `MalformedMessage`. */
export function readGatewayMessage(value: unknown): GatewayMessage {
  const fields = map("a message", value);
  const type = text(fields, "type");
  switch (type) {
    case "welcome":
      return {
        type,
        user: user(fields),
        session: text(fields, "session"),
        heartbeat_ms: integer(fields, "heartbeat_ms"),
        ttl_ms: integer(fields, "ttl_ms"),
        grace_ms: integer(fields, "grace_ms"),
        max_watch: integer(fields, "max_watch"),
      };
    case "snapshot":
      return { type, ...id(fields), users: list(fields, "users").map(readState) };
    case "presence":
      return { type, users: list(fields, "users").map(readState) };
    case "degraded":
      return { type, ...optional(fields, "since", integer) };
    case "draining":
      return { type, reconnect_after_ms: integer(fields, "reconnect_after_ms") };
    case "error":
      return {
        type,
        code: errorCode(fields),
        message: text(fields, "message"),
        ...id(fields),
        ...optional(fields, "users", texts),
      };
    default:
      throw new MalformedMessage("unknown_type", `No message has the type ${JSON.stringify(type)}`);
  }
}

function readState(value: unknown): State {
  const fields = map("a state", value);
  return {
    user: user(fields),
    state: oneOf(fields, "state", ["online", "offline"] as const),
    version: integer(fields, "version"),
    ...optional(fields, "since", integer),
    ...show(fields),
    ...optional(fields, "text", text),
    ...optional(fields, "devices", texts),
  };
}

/** A state may spell `online` out, which is what its absence means. */
function show(fields: Fields): { show?: "away" | "busy" } {
  if (fields.show == null) return {};
  const show = oneOf(fields, "show", ["online", "away", "busy"] as const);
  return show === "online" ? {} : { show };
}

function user(fields: Fields): string {
  const id = text(fields, "user");
  if (!isUserId(id)) throw new MalformedMessage("bad_user_id", "A user id is 1 to 128 bytes");
  return id;
}

function id(fields: Fields): { id?: number | string } {
  return optional(fields, "id", (_, name) =>
    typeof fields.id === "string" ? fields.id : integer(fields, name),
  );
}

function errorCode(fields: Fields): ErrorCode {
  if (ERROR_CODES.has(fields.code)) return fields.code as ErrorCode;
  throw bad("code", "a code of the contract");
}

/** Spread into a message, it adds the field or nothing. An empty list is nothing as well. */
function optional<K extends string, T>(
  fields: Fields,
  name: K,
  read: (fields: Fields, name: K) => T,
): { [key in K]?: T } {
  if (fields[name] == null) return {};
  const value = read(fields, name);
  if (Array.isArray(value) && value.length === 0) return {};
  return { [name]: value } as { [key in K]?: T };
}

function map(what: string, value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new MalformedMessage("bad_message", `${what}: expected a map`);
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string") return value;
  throw bad(name, "a string");
}

function integer(fields: Fields, name: string): number {
  const value = fields[name];
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw bad(name, "an integer from 0 to 2^53-1");
}

function list(fields: Fields, name: string): unknown[] {
  const value = fields[name];
  if (Array.isArray(value)) return value;
  throw bad(name, "a list");
}

function texts(fields: Fields, name: string): string[] {
  const value = list(fields, name);
  if (value.every((item) => typeof item === "string")) return value as string[];
  throw bad(name, "a list of strings");
}

function oneOf<T extends string>(fields: Fields, name: string, known: readonly T[]): T {
  const value = known.find((one) => one === fields[name]);
  if (value !== undefined) return value;
  throw bad(name, `one of ${known.join(", ")}`);
}

function bad(name: string, expected: string): MalformedMessage {
  return new MalformedMessage("bad_message", `${name}: expected ${expected}`);
}
