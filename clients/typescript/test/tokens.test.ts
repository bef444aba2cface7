/** How long a token is good for, whatever this machine's clock says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tokens, lifetimeMs } from "../dist/tokens.js";

const NOW = 1_700_000_000_000;
const jwt = (claims: object) => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "HS256" })}.${part(claims)}.c2ln`;
};
const seconds = (ms: number) => ms / 1000;

test("what is left until exp, when the clock makes sense", () => {
  const iat = seconds(NOW - 20_000);
  assert.equal(lifetimeMs(jwt({ iat, exp: iat + 100, sub: "žofie" }), NOW), 80_000);
  assert.equal(lifetimeMs(jwt({ exp: seconds(NOW + 5_000) }), NOW), 5_000);
});

test("the whole lifetime, when the clock is wrong by an hour either way", () => {
  const iat = seconds(NOW);
  for (const wrong of [-3_600_000, 3_600_000]) {
    assert.equal(lifetimeMs(jwt({ iat, exp: iat + 100 }), NOW + wrong), 100_000);
  }
});

test("nothing is known of a token that does not say, or is no JWT", () => {
  for (const token of [
    jwt({ sub: "ana" }),
    jwt({ exp: "soon" }),
    "opaque",
    "a.b.c",
    "a.bnVsbA.c",
  ]) {
    assert.equal(lifetimeMs(token, NOW), undefined);
  }
});

test("a new token is renewed before it expires, however short; an old one is not asked for in a row", () => {
  const tokens = new Tokens({ kind: "source" }, () => 0.5);
  for (const lifetime of [1_000, 5_000, 12_000, 600_000]) {
    tokens.accept(`for ${lifetime}`, lifetime, NOW);
    assert.ok(tokens.renewAt > NOW && tokens.renewAt < NOW + lifetime, `${lifetime}`);
  }
  tokens.accept("for 600000", 2_000, NOW);
  assert.equal(tokens.renewAt, NOW + 10_000, "the same again");
  tokens.accept("none", 0, NOW);
  assert.equal(tokens.renewAt, NOW + 10_000, "good for no time");
});
