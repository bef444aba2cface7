/** The protocol's own test vectors, in both notations. The file's header explains its columns. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Codec, json } from "presence-client";
import { msgpack } from "presence-client/msgpack";
import { MalformedMessage, readGatewayMessage } from "../dist/decode.js";
import { type ClientMessage, checkUserId } from "../dist/messages.js";

interface Row {
  from: string;
  name: string;
  expect: string;
  frames: { codec: Codec; frame: string | Uint8Array<ArrayBuffer> }[];
}

const file = new URL("../../../crates/protocol/vectors.tsv", import.meta.url);
const rows = readFileSync(file, "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line): Row => {
    const [from, name, expect, text, hex] = line.split("\t") as [
      string,
      string,
      string,
      string,
      string,
    ];
    const frames: Row["frames"] = [];
    if (text !== "-") frames.push({ codec: json, frame: text });
    if (hex !== "-") frames.push({ codec: msgpack, frame: bytes(hex) });
    return { from, name, expect, frames };
  });

function bytes(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

function decode(codec: Codec, frame: string | Uint8Array<ArrayBuffer>): unknown {
  return codec.decode(typeof frame === "string" ? frame : frame.buffer);
}

test("the file has rows of every kind", () => {
  const kinds = new Set(rows.map((row) => `${row.from} ${row.expect}`));
  for (const kind of ["client exact", "gateway exact", "gateway reads", "gateway bad_message"]) {
    assert.ok(kinds.has(kind), kind);
  }
});

for (const { from, name, expect, frames } of rows) {
  if (from === "client" && expect === "exact") {
    test(`a client writes: ${name}`, () => {
      for (const { codec, frame } of frames) {
        const message = decode(codec, frame) as ClientMessage;
        assert.deepEqual(codec.encode(message), frame);
      }
    });
  } else if (from === "gateway" && (expect === "exact" || expect === "reads")) {
    test(`a gateway says: ${name}`, () => {
      const messages = frames.map(({ codec, frame }) => readGatewayMessage(decode(codec, frame)));
      for (const message of messages) assert.deepEqual(message, messages[0]);
      // What is read is what was meant: nothing known is left out.
      const { since, ...meant } = decode(json, frames[0]!.frame) as { since?: number | null };
      const given = since == null ? meant : { ...meant, since };
      if (expect === "exact") assert.deepEqual(messages[0], given);
    });
  } else if (from === "gateway") {
    test(`a gateway must not say: ${name}`, () => {
      for (const { codec, frame } of frames) {
        const read = () => readGatewayMessage(decode(codec, frame));
        assert.throws(read, (error) => error instanceof MalformedMessage && error.code === expect);
      }
    });
  } else if (expect === "bad_user_id") {
    test(`a client refuses to say: ${name}`, () => {
      for (const { codec, frame } of frames) {
        const { user, users } = decode(codec, frame) as { user?: string; users?: string[] };
        const check = () => (users ?? [user]).forEach(checkUserId);
        assert.throws(check, RangeError);
      }
    });
  }
}
