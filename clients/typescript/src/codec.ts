/**
 * How messages are written into frames. JSON is built in; `msgpack.ts` is the other notation.
 * A codec must not judge what it reads: that is for `decode.ts`.
 */
import type { ClientMessage } from "./messages.js";

export interface Codec {
  /** What `Sec-WebSocket-Protocol` offers. */
  readonly subprotocol: string;
  encode(message: ClientMessage): string | Uint8Array<ArrayBuffer>;
  /** Throws what it likes when the frame cannot be read. */
  decode(frame: string | ArrayBuffer): unknown;
}

export const json: Codec = {
  subprotocol: "presence.v1.json",
  encode: (message) => JSON.stringify(message),
  decode(frame) {
    if (typeof frame !== "string") throw new TypeError("A binary frame on a JSON socket");
    return JSON.parse(frame);
  },
};
