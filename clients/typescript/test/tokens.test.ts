/** How long a token is good for, whatever this machine's clock says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { lifetimeMs } from "../dist/tokens.js";

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
