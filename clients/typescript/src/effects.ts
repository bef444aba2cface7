/**
 * What goes into a client's state machine and what comes out of it, as types. No behaviour here.
 */
import type { Query } from "./asks.js";
import type { ClientMessage, GatewayMessage, Refusal, Show } from "./messages.js";
import type { Lost } from "./retry.js";
import type { Credential } from "./tokens.js";
import type { UserState } from "./view.js";

export interface Status {
  readonly show: Show;
  readonly text?: string;
}

export interface Settings {
  readonly credential: Credential;
  readonly device: string | undefined;
  readonly status: Status | undefined;
  /** None: the gateway's grace. */
  readonly staleAfterMs: number | undefined;
  readonly connectTimeoutMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  readonly random: () => number;
}

export type Connection =
  | { readonly phase: "connecting" }
  | {
      readonly phase: "connected";
      readonly user: string;
      readonly session: string;
      readonly maxWatch: number;
      /** For how long the gateway hides a loss from others. */
      readonly graceMs: number;
      /** Since when (ms since the Unix epoch) the gateway only knows last known states. */
      readonly degradedSince?: number;
      /** The gateway is going away: the client moves to another one in so many ms. */
      readonly drainingMs?: number;
    }
  | { readonly phase: "waiting"; readonly reason: Lost; readonly retryInMs: number }
  /** The client does not come back by itself. */
  | { readonly phase: "ended"; readonly reason: Ended };

/** There is no connection, and no attempt at one. */
export type Disconnected = Connection & { readonly phase: "waiting" | "ended" };

export interface Ended {
  /** `signed_out` and `closed`: you asked for it. `refused`: the gateway forbids to come back. */
  readonly kind: "signed_out" | "closed" | "refused";
  readonly message: string;
  readonly closeCode?: number;
}

export type Input =
  | { readonly type: "start" }
  | { readonly type: "token"; readonly token: string; readonly lifetimeMs: number | undefined }
  | { readonly type: "no_token"; readonly error: unknown }
  | { readonly type: "opened" }
  /** A frame; without a message it was not understood. */
  | { readonly type: "heard"; readonly message?: GatewayMessage }
  | {
      readonly type: "closed";
      readonly code: number;
      readonly message: string;
      /** What to be until `suspect`, of a socket that depends on another client. */
      readonly follow?: Disconnected;
    }
  | { readonly type: "time" }
  /** The view's list changed. */
  | { readonly type: "wanted" }
  | { readonly type: "query"; readonly query: Query }
  /** The caller waits no longer. */
  | { readonly type: "forget"; readonly query: Query }
  | { readonly type: "status"; readonly status: Status }
  /** Something happened that may have cost the socket, or that brings the network back. */
  | { readonly type: "suspect" }
  /** The page may be frozen for long: no socket until `suspect`. */
  | { readonly type: "suspend" }
  | { readonly type: "sign_out" }
  | { readonly type: "close" };

export type Effect =
  | { readonly do: "ask_token" }
  | { readonly do: "dial" }
  | { readonly do: "send"; readonly message: ClientMessage }
  /** Lets go of the socket, whatever becomes of it. */
  | { readonly do: "drop" }
  | { readonly do: "tell_connection"; readonly connection: Connection }
  | { readonly do: "tell_states"; readonly states: readonly UserState[] }
  | { readonly do: "tell_refusal"; readonly refusal: Refusal }
  | { readonly do: "tell_error"; readonly error: unknown };
