/** What this package's promises are rejected with, and what `error` tells of a refused sign-in. */
import type { Refusal } from "./messages.js";

export class PresenceError extends Error {
  override readonly name = "PresenceError";
  constructor(
    /** `timed_out`: no answer in time. `refused`: see `refusal`. `ended`: the client has ended. */
    readonly code: "timed_out" | "refused" | "ended",
    message: string,
    readonly refusal?: Refusal,
  ) {
    super(message);
  }
}
