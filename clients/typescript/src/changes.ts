/** The async iterator over watched users' states. It keeps at most one state for each user. */
import type { Presence } from "./presence.js";
import type { UserState } from "./view.js";

export async function* changes(
  presence: Presence,
  users: readonly string[],
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly UserState[], void, void> {
  const news = new Map<string, UserState>();
  let wake = () => {};
  const woken = () => wake();
  const unwatch = presence.watch(users, (states) => {
    for (const state of states) news.set(state.user, state);
    wake();
  });
  const off = presence.on("connection", woken);
  signal?.addEventListener("abort", woken);
  try {
    while (!signal?.aborted) {
      if (news.size > 0) {
        const states = [...news.values()];
        news.clear();
        yield states;
      } else if (presence.connection.phase === "ended") {
        return;
      } else {
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
  } finally {
    unwatch();
    off();
    signal?.removeEventListener("abort", woken);
  }
}
