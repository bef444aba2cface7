/** The async iterator over watched users' states. It keeps at most one state for each user. */
import type { Presence } from "./presence.js";
import type { UserState } from "./view.js";

type States = AsyncGenerator<readonly UserState[], void, void>;

export function changes(
  presence: Presence,
  users: readonly string[],
  signal: AbortSignal | undefined,
): States {
  const ending = new AbortController();
  const states = iterate(presence, users, signal, ending);
  // A generator would end only after the `next` that waits, perhaps for ever.
  const end = states.return.bind(states);
  states.return = (value) => (ending.abort(), end(value));
  return states;
}

async function* iterate(
  presence: Presence,
  users: readonly string[],
  signal: AbortSignal | undefined,
  ending: AbortController,
): States {
  const news = new Map<string, UserState>();
  let wake = () => {};
  const woken = () => wake();
  const unwatch = presence.watch(users, (states) => {
    for (const state of states) news.set(state.user, state);
    wake();
  });
  const off = presence.on("connection", woken);
  signal?.addEventListener("abort", woken);
  ending.signal.addEventListener("abort", woken);
  try {
    while (!signal?.aborted && !ending.signal.aborted) {
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
