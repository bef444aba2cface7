/** What `presence-client` offers. The order is the reading order. */
export { connect, Presence, type PresenceEvents, type Users } from "./presence.js";
export type { Options } from "./options.js";
export type { Tell } from "./watchers.js";
export type { UserState } from "./view.js";
export type { ErrorCode, Refusal, Show, State } from "./messages.js";
export type { Connection, Ended, Status } from "./effects.js";
export type { Lost } from "./retry.js";
export { PresenceError } from "./errors.js";
export { MalformedMessage } from "./decode.js";
export { type Codec, json } from "./codec.js";
export type { WebSocketConstructor, WebSocketLike } from "./runner.js";
