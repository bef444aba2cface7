/**
 * What the client takes from the place it runs in: clocks, a timer, dice, the browser's signals.
 * Tests hand in their own. It must not know what any of it is used for.
 */

export interface Surroundings {
  /** In ms from anywhere; never goes back, and may stand still while the machine sleeps. */
  now(): number;
  /** In ms since the Unix epoch, as right as this machine's clock is. */
  wallNow(): number;
  random(): number;
  startTimer(run: () => void, ms: number): unknown;
  stopTimer(timer: unknown): void;
  /** Returns what ends it. */
  listen(signals: Signals): () => void;
}

export interface Signals {
  /** Something happened that may have cost the socket, or that brings the network back. */
  suspect(): void;
  /** The page may go into the back/forward cache, where no socket may be. */
  suspend(): void;
}

type Listen = (name: string, run: (event: { persisted?: boolean }) => void) => void;
type Target = { addEventListener?: Listen; removeEventListener?: Listen };

export const surroundings: Surroundings = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  random: () => Math.random(),
  startTimer: (run, ms) => setTimeout(run, ms),
  stopTimer: (timer) => clearTimeout(timer as number),
  listen,
};

/** Node and React Native have none of these; there the application may call `check` by itself. */
function listen({ suspect, suspend }: Signals): () => void {
  const page = globalThis as Target;
  const { document } = globalThis as { document?: Target & { visibilityState: string } };
  const shown = () => document?.visibilityState === "visible" && suspect();
  const undo = [
    on(page, "online", suspect),
    on(page, "offline", suspect),
    on(page, "focus", suspect),
    on(page, "pageshow", (event) => event.persisted && suspect()),
    on(page, "pagehide", (event) => event.persisted && suspend()),
    on(document, "visibilitychange", shown),
    on(document, "resume", suspect),
  ];
  return () => undo.forEach((one) => one());
}

function on(target: Target | undefined, name: string, run: Parameters<Listen>[1]): () => void {
  if (!target?.addEventListener) return () => {};
  target.addEventListener(name, run);
  return () => target.removeEventListener?.(name, run);
}
