/**
 * The MessagePack notation, in about half the bytes of JSON: `connect(url, { codec: msgpack })`.
 * The only file that needs a MessagePack library.
 */
import { decode, encode } from "@msgpack/msgpack";
import type { Codec } from "./codec.js";

export const msgpack: Codec = {
  subprotocol: "presence.v1.msgpack",
  encode: (message) => encode(message, { ignoreUndefined: true }),
  decode(frame) {
    if (typeof frame === "string") throw new TypeError("A text frame on a MessagePack socket");
    return decode(frame);
  },
};
