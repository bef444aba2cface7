/** A state machine and the time, for tests that write a history down. It waits for nothing. */
import type { Effect, Input, Settings } from "../dist/effects.js";
import { Machine } from "../dist/machine.js";
import type { ClientMessage, GatewayMessage, State, Welcome } from "../dist/messages.js";

export const welcome: Welcome = {
  type: "welcome",
  user: "ana",
  session: "s-1",
  heartbeat_ms: 10_000,
  ttl_ms: 30_000,
  grace_ms: 3_000,
  max_watch: 1_000,
};

export const user = { kind: "user", user: "ana" } as const;
export const source = { kind: "source" } as const;

export class History {
  now = 1_000_000;
  readonly machine: Machine;
  /** Everything that came out, in order. */
  readonly effects: Effect[] = [];

  constructor(settings: Partial<Settings> = {}) {
    this.machine = new Machine({
      credential: user,
      device: undefined,
      status: undefined,
      staleAfterMs: undefined,
      connectTimeoutMs: 15_000,
      backoffMinMs: 500,
      backoffMaxMs: 60_000,
      random: () => 0.5,
      ...settings,
    });
  }

  /** Returns what came out. */
  give(input: Input): Effect[] {
    const effects = this.machine.handle(input, this.now);
    this.effects.push(...effects);
    return effects;
  }

  hear(message: GatewayMessage): Effect[] {
    return this.give({ type: "heard", message });
  }

  /** Lets time pass, and gives `time` whenever the machine asked for it. */
  pass(ms: number): Effect[] {
    const end = this.now + ms;
    const effects: Effect[] = [];
    let turns = 0;
    for (let at = this.deadline(); at <= end; at = this.deadline()) {
      if (++turns > 10_000) throw new Error("it asks for the time again and again");
      this.now = Math.max(this.now, at);
      effects.push(...this.give({ type: "time" }));
    }
    this.now = end;
    return effects;
  }

  /** Lets time pass in which no timer could run, as in a machine that sleeps. */
  sleep(ms: number): void {
    this.now += ms;
  }

  deadline(): number {
    return this.machine.deadline(this.now);
  }

  /** From the start, or a wait, to the welcome. */
  signIn(more: Partial<Welcome> = {}): Effect[] {
    return [...this.give({ type: "opened" }), ...this.hear({ ...welcome, ...more })];
  }

  watch(...users: string[]): Effect[] {
    for (const user of users) this.machine.view.watch(user);
    return this.give({ type: "wanted" });
  }

  close(code: number): Effect[] {
    return this.give({ type: "closed", code, message: "" });
  }
}

/** A client that is connected. */
export function connected(settings: Partial<Settings> = {}): History {
  const history = new History(settings);
  history.give({ type: "start" });
  history.signIn();
  return history;
}

export function sent(effects: readonly Effect[]): ClientMessage[] {
  return effects.flatMap((effect) => (effect.do === "send" ? [effect.message] : []));
}

export function does(effects: readonly Effect[], what: Effect["do"]): boolean {
  return effects.some((effect) => effect.do === what);
}

/** The last connection told of. */
export function shown(effects: readonly Effect[]) {
  return effects
    .flatMap((effect) => (effect.do === "tell_connection" ? [effect.connection] : []))
    .at(-1);
}

export function told(effects: readonly Effect[]) {
  return effects.flatMap((effect) => (effect.do === "tell_states" ? effect.states : []));
}

export function waitMs(effects: readonly Effect[]): number {
  const connection = shown(effects);
  if (connection?.phase === "waiting") return connection.retryInMs;
  throw new Error(`not waiting but ${connection?.phase}`);
}

export function online(user: string, version: number): State {
  return { user, state: "online", version, since: version };
}

export function offline(user: string, version: number): State {
  return { user, state: "offline", version, since: version };
}
