/** The one error that this package's promises are rejected with. */
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
