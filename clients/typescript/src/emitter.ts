/**
 * Calls the application, and survives it: what a callback throws goes to the listeners of `error`,
 * or to the console, and never into the client.
 */
export class Emitter<Events extends { error: unknown }> {
  readonly #listeners = new Map<keyof Events, Set<(event: never) => void>>();

  on<K extends keyof Events>(name: K, listener: (event: Events[K]) => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    // A function of its own, so that one listener may be added twice.
    const added = (event: Events[K]) => listener(event);
    this.#listeners.set(name, listeners.add(added));
    return () => void listeners.delete(added);
  }

  /** Returns whether anybody listens. */
  emit<K extends keyof Events>(name: K, event: Events[K]): boolean {
    const listeners = [...(this.#listeners.get(name) ?? [])] as ((event: Events[K]) => unknown)[];
    const fails = name === "error" ? report : this.fail;
    for (const listener of listeners) guard(() => listener(event), fails);
    return listeners.length > 0;
  }

  /** Runs a callback of the application. */
  readonly call = (run: () => unknown): void => guard(run, this.fail);

  readonly fail = (error: unknown): void => {
    if (!this.emit("error", error as Events["error"])) report(error);
  };
}

function guard(run: () => unknown, fails: (error: unknown) => void): void {
  try {
    const result = run();
    if (result instanceof Promise) result.catch(fails);
  } catch (error) {
    fails(error);
  }
}

/** Where an error goes that nobody listens for: as visible as one that was thrown, and harmless. */
function report(error: unknown): void {
  console.error("presence-client:", error);
}
