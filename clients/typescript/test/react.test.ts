/** The hooks, with React's own renderer for tests: one socket, united lists, only differences. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type UserState } from "presence-client";
import { PresenceProvider, useConnection, usePresence } from "presence-client/react";
import { StrictMode, createElement as h } from "react";
import { type ReactTestRenderer, act, create } from "react-test-renderer";
import { offline, online } from "./history.js";
import { Place, settled } from "./place.js";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

// The renderer says at each use that it will be replaced one day.
const said = console.error;
console.error = (...words: unknown[]) => {
  if (!String(words[0]).includes("react-test-renderer is deprecated")) said(...words);
};

async function connected() {
  const place = new Place();
  const presence = place.connect();
  place.socket.welcome();
  await settled();
  place.socket.take();
  return { presence, socket: place.socket };
}

const dot = (state: UserState | undefined) => state?.state ?? "unknown";

/** Shows a list, and counts how often it is rendered. */
function List({ users, rendered }: { users: string[]; rendered?: () => void }) {
  rendered?.();
  const states = usePresence(users);
  return h("p", null, users.map((user) => `${user} ${dot(states.get(user))}`).join(", "));
}

function One({ user }: { user: string }) {
  return h("b", null, dot(usePresence(user)));
}

async function render(element: Parameters<typeof create>[0]): Promise<ReactTestRenderer> {
  let root!: ReactTestRenderer;
  await act(async () => void (root = create(element)));
  return root;
}

const texts = (root: ReactTestRenderer) =>
  root.root.findAll((node) => typeof node.type === "string").map((node) => node.children.join(""));

test("components share one socket, unite their lists and send only differences", async () => {
  const { presence, socket } = await connected();
  const page = (users: string[]) =>
    h(
      PresenceProvider,
      { presence },
      h(List, { users }),
      h(List, { users: ["cy"] }),
      h(One, { user: "bo" }),
    );
  const root = await render(page(["bo", "cy"]));
  assert.deepEqual(socket.take(), [{ type: "watch", users: ["bo", "cy"], id: 1 }]);
  await act(async () =>
    socket.say({ type: "snapshot", id: 1, users: [online("bo", 1), offline("cy", 1)] }),
  );
  assert.deepEqual(texts(root), ["bo online, cy offline", "cy offline", "online"]);

  await act(async () => root.update(page(["cy", "di"])));
  assert.deepEqual(socket.take(), [{ type: "watch", users: ["di"], id: 2 }]);
  assert.deepEqual(texts(root), ["cy offline, di unknown", "cy offline", "online"]);
  await act(async () => socket.say({ type: "snapshot", id: 2, users: [online("di", 1)] }));

  await act(async () => root.unmount());
  const [unwatch, ...rest] = socket.take();
  assert.ok(unwatch?.type === "unwatch" && rest.length === 0);
  assert.deepEqual(new Set(unwatch.users), new Set(["bo", "cy", "di"]));
});

test("another array with the same users sends nothing, and only those concerned are rendered", async () => {
  const { presence, socket } = await connected();
  let renderings = 0;
  const page = () =>
    h(
      PresenceProvider,
      { presence },
      h(List, { users: ["bo"], rendered: () => renderings++ }),
      h(One, { user: "cy" }),
    );
  const root = await render(page());
  await act(async () =>
    socket.say({ type: "snapshot", id: 1, users: [online("bo", 1), online("cy", 1)] }),
  );
  socket.take();
  await act(async () => root.update(page()));
  assert.deepEqual(socket.take(), []);
  const before = renderings;
  await act(async () => socket.say({ type: "presence", users: [offline("cy", 2)] }));
  assert.equal(renderings, before);
  await act(async () => root.unmount());
});

test("a component that shows whom others watch already is rendered once", async () => {
  const { presence, socket } = await connected();
  presence.watch("bo");
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  let renderings = 0;
  const list = h(List, { users: ["bo"], rendered: () => renderings++ });
  const root = await render(h(PresenceProvider, { presence }, list));
  assert.deepEqual([texts(root), renderings], [["bo online"], 1]);
  await act(async () => root.unmount());
});

test("many changes in one moment are one rendering", async () => {
  const { presence, socket } = await connected();
  let renderings = 0;
  const users = ["bo", "cy", "di"];
  const root = await render(
    h(PresenceProvider, { presence }, h(List, { users, rendered: () => renderings++ })),
  );
  const before = renderings;
  await act(async () => {
    socket.say({ type: "snapshot", id: 1, users: users.map((user) => online(user, 1)) });
    socket.say({ type: "presence", users: users.map((user) => offline(user, 2)) });
  });
  assert.equal(renderings, before + 1);
  assert.deepEqual(texts(root), ["bo offline, cy offline, di offline"]);
  await act(async () => root.unmount());
});

test("strict mode, which mounts twice, sends nothing twice", async () => {
  const { presence, socket } = await connected();
  const root = await render(
    h(StrictMode, null, h(PresenceProvider, { presence }, h(One, { user: "bo" }))),
  );
  assert.deepEqual(socket.take(), [{ type: "watch", users: ["bo"], id: 1 }]);
  await act(async () => root.unmount());
});

test("the connection is shown, and nobody signed in is no error", async () => {
  const Phase = () => h("i", null, useConnection()?.phase ?? "none");
  const page = (presence?: Awaited<ReturnType<typeof connected>>["presence"]) =>
    h(PresenceProvider, { presence }, h(Phase), h(One, { user: "bo" }));
  const root = await render(page());
  assert.deepEqual(texts(root), ["none", "unknown"]);
  const { presence } = await connected();
  await act(async () => root.update(page(presence)));
  assert.deepEqual(texts(root), ["connected", "unknown"]);
  await act(async () => presence.close());
  assert.deepEqual(texts(root), ["ended", "unknown"]);
  await act(async () => root.unmount());
});

test("a component without a provider is told what is missing", async (context) => {
  context.mock.method(console, "error", () => {});
  await assert.rejects(render(h(One, { user: "bo" })), /No <PresenceProvider/);
});
