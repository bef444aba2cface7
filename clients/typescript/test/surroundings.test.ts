/** The browser's signals, with a page of the test's own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { surroundings } from "../dist/surroundings.js";

test("a browser's signals ask for a look at the socket, and the cache takes it away", (context) => {
  const page = new EventTarget();
  const document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  const globals = {
    document,
    addEventListener: page.addEventListener.bind(page),
    removeEventListener: page.removeEventListener.bind(page),
  };
  Object.assign(globalThis, globals);
  context.after(() =>
    Object.keys(globals).forEach((name) => Reflect.deleteProperty(globalThis, name)),
  );

  const heard: string[] = [];
  const unlisten = surroundings.listen({
    suspect: () => heard.push("suspect"),
    suspend: () => heard.push("suspend"),
  });
  const happens = (target: EventTarget, name: string, more: object = {}): string[] => {
    target.dispatchEvent(Object.assign(new Event(name), more));
    return heard.splice(0);
  };
  for (const name of ["online", "offline", "focus"]) {
    assert.deepEqual(happens(page, name), ["suspect"], name);
  }
  assert.deepEqual(happens(document, "resume"), ["suspect"]);
  assert.deepEqual(happens(document, "visibilitychange"), ["suspect"]);
  document.visibilityState = "hidden";
  assert.deepEqual(happens(document, "visibilitychange"), []);
  assert.deepEqual(happens(page, "pagehide", { persisted: true }), ["suspend"]);
  assert.deepEqual(happens(page, "pageshow", { persisted: true }), ["suspect"]);
  assert.deepEqual(happens(page, "pagehide", { persisted: false }), []);
  assert.deepEqual(happens(page, "pageshow", { persisted: false }), []);

  unlisten();
  assert.deepEqual(happens(page, "online"), []);
});

test("where there is no page there are no signals, and that is no error", () => {
  surroundings.listen({ suspect: () => {}, suspend: () => {} })();
});
