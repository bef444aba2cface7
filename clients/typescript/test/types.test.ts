/** What must compile, and what must not. The compiler is the test; running it shows only that it ran. */
import { test } from "node:test";
import type { Options, Presence, UserState, WebSocketConstructor } from "presence-client";
import { usePresence } from "presence-client/react";
import { WebSocket as WsWebSocket } from "ws";

export const makes: WebSocketConstructor[] = [WsWebSocket, globalThis.WebSocket];

export const options: Options[] = [
  { token: "t" },
  { token: () => "t", status: { show: "away" } },
  { token: async () => "t", device: "web" },
  // @ts-expect-error a status has one of four values
  { user: "ana", status: { show: "dnd" } },
];

export async function uses(presence: Presence): Promise<void> {
  const state: UserState | undefined = presence.get("bo");
  // @ts-expect-error a state is never changed in place
  if (state) state.state = "online";
  presence.on("connection", (connection) => {
    if (connection.phase === "waiting") return connection.retryInMs satisfies number;
    // @ts-expect-error only a waiting client retries
    return connection.retryInMs;
  });
  for await (const states of presence.changes(new Set(["bo"])))
    states satisfies readonly UserState[];
}

export function Hooks(): void {
  usePresence("bo") satisfies UserState | undefined;
  usePresence(["bo"]) satisfies ReadonlyMap<string, UserState>;
}

test("the types say what they should", () => {});
