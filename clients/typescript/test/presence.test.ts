/** The handle as an application uses it, in a place whose time and network the test plays. */
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { type Connection, PresenceError, type UserState, connect } from "presence-client";
import { offline, online } from "./history.js";
import { Place, settled } from "./place.js";

async function connected() {
  const place = new Place();
  const presence = place.connect();
  place.socket.welcome();
  await settled();
  place.socket.take();
  return { place, presence, socket: place.socket };
}

function withResolvers<T>() {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
}

const names = (states: readonly UserState[]) => states.map(({ user, state }) => `${user} ${state}`);

test("a mistake in the options is said at once, and plainly", () => {
  class WebSocket {}
  const make = (options: object, url = "wss://gateway.test/ws") => connect(url, options as never);
  assert.throws(() => make({}), /Say who signs in/);
  assert.throws(() => make(undefined as never), /Say who signs in/);
  assert.throws(() => make({ user: "" }), /1 to 128 bytes/);
  assert.throws(() => make({ user: "ana", device: "My Phone" }), /A device is/);
  assert.throws(() => make({ user: "ana", WebSocket }, "ftp://gateway.test"), /starts with wss/);
  assert.throws(() => make({ user: "ana", WebSocket }, "ws://gateway.test/ws#x"), /no fragment/);
  for (const [name, ms] of Object.entries({ connectTimeoutMs: -1, backoffMinMs: NaN })) {
    assert.throws(() => make({ user: "ana", WebSocket, [name]: ms }), RangeError, name);
  }
  if (!("WebSocket" in globalThis)) assert.throws(() => make({ user: "ana" }), /no WebSocket here/);
});

test("what is no list of users is said to be none", async () => {
  const { presence } = await connected();
  for (const users of [{ users: ["bo"] }, 7, null, undefined]) {
    assert.throws(() => presence.watch(users as never), /^TypeError: Users are one id/);
  }
});

test("http addresses are taken for the sockets beside them", () => {
  const place = new Place();
  place.connect();
  assert.equal(place.socket.url, "wss://gateway.test/ws");
  assert.deepEqual(place.socket.protocols, ["presence.v1.json"]);
});

test("watches of one moment are one message, and only differences are sent", async () => {
  const { presence, socket } = await connected();
  const first = presence.watch(["bo", "cy"]);
  presence.watch("cy");
  presence.watch(["di"])();
  await settled();
  assert.deepEqual(socket.take(), [{ type: "watch", users: ["bo", "cy"], id: 1 }]);
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1), online("cy", 1)] });
  first();
  await settled();
  assert.deepEqual(socket.take(), [{ type: "unwatch", users: ["bo"] }]);
  assert.equal(presence.get("cy")?.state, "online");
});

test("a grant goes with each message that asks for users it is for", async () => {
  const place = new Place();
  const grant = (users: readonly string[]) => (users.includes("bo") ? users.join("+") : undefined);
  const presence = place.connect({ user: "ana", grant });
  place.socket.welcome();
  await settled();
  place.socket.take();
  presence.watch(["bo", "cy"]);
  await settled();
  const watch = { type: "watch", users: ["bo", "cy"], id: 1, grant: "bo+cy" };
  assert.deepEqual(place.socket.take(), [watch]);
  void presence.query(["di"]).catch(() => undefined);
  await settled();
  assert.deepEqual(place.socket.take(), [{ type: "query", users: ["di"], id: 2 }]);
});

test("many watches that end in the tick that made them cost little", async () => {
  const { presence, socket } = await connected();
  const began = performance.now();
  const ends = Array.from({ length: 40_000 }, () => presence.watch("bo"));
  for (const end of ends) end();
  // Each by itself; were every one to look at all others it would be a minute.
  assert.ok(performance.now() - began < 2_000);
  await settled();
  assert.ok(socket.take().every((message) => message.type === "unwatch"));
});

test("leaving and coming back within a moment sends nothing and forgets nothing", async () => {
  const { presence, socket } = await connected();
  const unwatch = presence.watch("bo");
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  socket.take();
  unwatch();
  presence.watch("bo");
  await settled();
  assert.deepEqual(socket.take(), []);
  assert.equal(presence.get("bo")?.state, "online");
});

test("a watch is told its own users: whom one knows already, then who changes", async () => {
  const { presence, socket } = await connected();
  presence.watch(["bo", "cy"]);
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1), online("cy", 1)] });
  const told: string[][] = [];
  presence.watch("bo", (states) => told.push(names(states)));
  await settled();
  socket.say({ type: "presence", users: [offline("bo", 2), offline("cy", 2)] });
  socket.say({ type: "presence", users: [online("bo", 3)] });
  await settled();
  assert.deepEqual(told, [["bo online"], ["bo online"]]);
});

test("a watch ends with its signal, and one that is aborted already never begins", async () => {
  const { presence, socket } = await connected();
  const ending = new AbortController();
  presence.watch("bo", () => {}, { signal: ending.signal });
  presence.watch("cy", () => {}, { signal: AbortSignal.abort() });
  await settled();
  assert.deepEqual(socket.take(), [{ type: "watch", users: ["bo"], id: 1 }]);
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  ending.abort();
  await settled();
  assert.deepEqual(socket.take(), [{ type: "unwatch", users: ["bo"] }]);
});

test("a callback that throws is told to listeners of error, and hurts nobody", async () => {
  const { presence, socket } = await connected();
  const errors: unknown[] = [];
  presence.on("error", (error) => errors.push(error));
  let told = 0;
  const mistake = new Error("mistake");
  presence.watch("bo", () => {
    throw mistake;
  });
  presence.watch("bo", () => Promise.reject(mistake) as never);
  presence.watch("bo", () => void told++);
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  await settled();
  assert.deepEqual(errors, [mistake, mistake]);
  assert.equal(told, 1);
});

test("an error that nobody listens for is written to the console", async (context) => {
  const console_ = context.mock.method(console, "error", () => {});
  const { presence } = await connected();
  presence.on("connection", () => {
    throw new Error("mistake");
  });
  presence.close();
  assert.equal(console_.mock.callCount(), 1);
});

test("a message that makes no sense is told, one of a later version is not; both are survived", async () => {
  const { presence, socket } = await connected();
  const errors: unknown[] = [];
  presence.on("error", (error) => errors.push(error));
  socket.sayRaw("{");
  socket.sayRaw('{"type":"presence"}');
  socket.sayRaw('{"type":"weather"}');
  assert.equal(errors.length, 2);
  assert.equal(presence.connection.phase, "connected");
});

test("refusals are told", async () => {
  const { presence, socket } = await connected();
  const listener = mock.fn();
  presence.on("refused", listener);
  const refusal = { type: "error", code: "too_many_watches", message: "m" } as const;
  socket.say(refusal);
  assert.deepEqual(listener.mock.calls[0]?.arguments[0], refusal);
});

test("iterating yields the latest of each user to a slow reader, and ends with the signal", async () => {
  const { presence, socket } = await connected();
  const ending = new AbortController();
  const got: string[][] = [];
  const reading = (async () => {
    for await (const states of presence.changes(["bo", "cy"], { signal: ending.signal })) {
      got.push(names(states));
      await settled();
      await settled();
    }
  })();
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1), online("cy", 1)] });
  await settled();
  for (let version = 2; version < 100; version++) {
    const state = version % 2 ? online("bo", version) : offline("bo", version);
    socket.say({ type: "presence", users: [state] });
  }
  for (let turn = 0; turn < 10; turn++) await settled();
  ending.abort();
  await reading;
  assert.deepEqual(got, [["bo online", "cy online"], ["bo online"]]);
  await settled();
  assert.equal(socket.take().at(-1)?.type, "unwatch");
});

test("returning ends the iteration at once, though a next waits, and the watch with it", async () => {
  const { presence, socket } = await connected();
  const states = presence.changes("bo");
  const waits = states.next();
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [] });
  const over = { value: undefined, done: true };
  const returned = Promise.race([states.return(undefined), settled().then(settled)]);
  assert.deepEqual(await returned, over);
  assert.deepEqual(await waits, over);
  await settled();
  assert.deepEqual(socket.take().at(-1), { type: "unwatch", users: ["bo"] });
});

test("iterating ends when the client ends, with the last states", async () => {
  const { presence, socket } = await connected();
  const got: boolean[] = [];
  const reading = (async () => {
    for await (const states of presence.changes("bo")) got.push(states[0]!.stale);
  })();
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  await settled();
  presence.close();
  await reading;
  assert.deepEqual(got, [false, true]);
});

test("a query gives states, or says precisely why not", async () => {
  const { place, presence, socket } = await connected();
  const answered = presence.query(["bo"]);
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  assert.deepEqual(await answered, [online("bo", 1)]);

  const late = presence.query("cy");
  const refusal = assert.rejects(
    late,
    (error) => error instanceof PresenceError && error.code === "timed_out",
  );
  await place.pass(10_000);
  await refusal;

  const ending = new AbortController();
  const aborted = presence.query("di", { signal: ending.signal });
  ending.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);

  presence.close();
  await assert.rejects(
    presence.query("ed"),
    (error) => error instanceof PresenceError && error.code === "ended",
  );
  assert.throws(() => presence.query(""), RangeError);
});

test("a status is said at once, and again with the hello of every connection", async () => {
  const { place, presence, socket } = await connected();
  presence.setStatus("busy", "in a meeting");
  assert.deepEqual(socket.take(), [{ type: "status", show: "busy", text: "in a meeting" }]);
  socket.end(1006);
  await place.pass(0);
  place.socket.open();
  const hello = { type: "hello", user: "ana", show: "busy", text: "in a meeting" };
  assert.deepEqual(place.socket.take(), [hello]);
  assert.throws(() => presence.setStatus("dnd" as never), RangeError);
  assert.throws(() => presence.setStatus("away", "two\nlines"), RangeError);
});

test("signing out says bye, and only then is the socket closed", async () => {
  const { presence, socket, place } = await connected();
  const done = presence.signOut();
  assert.deepEqual(socket.take(), [{ type: "bye" }]);
  assert.equal(socket.isClosed, false);
  socket.end(1000);
  await done;
  assert.equal(presence.connection.phase, "ended");
  await presence.signOut();
  assert.equal(place.signals, undefined, "nobody listens to the browser any more");
  assert.equal(place.timersLen, 0);
});

test("the signal of connect closes without signing out", async () => {
  const place = new Place();
  const ending = new AbortController();
  place.connect({ user: "ana", signal: ending.signal });
  place.socket.welcome();
  place.socket.take();
  ending.abort();
  assert.deepEqual(place.socket.take(), []);
  assert.ok(place.socket.isClosed);
  assert.equal(place.timersLen, 0);
});

test("the token function is asked, and what it throws is the reason of the wait", async () => {
  const place = new Place();
  let isDown = true;
  const token = async () => {
    if (isDown) throw new Error("no network");
    return "a.b.c";
  };
  const presence = place.connect({ token });
  await settled();
  const waiting = presence.connection as Connection & { phase: "waiting" };
  assert.match(String(waiting.reason.error), /no network/);
  isDown = false;
  await place.pass(500);
  place.socket.open();
  assert.deepEqual(place.socket.take(), [{ type: "hello", token: "a.b.c" }]);
});

test("what a socket says after it was given up is not heard", async () => {
  const { place, presence, socket } = await connected();
  await place.pass(1_000);
  presence.check();
  await place.pass(5_000);
  assert.equal(place.sockets.length, 2);
  place.socket.welcome();
  socket.end(4007);
  assert.equal(presence.connection.phase, "connected");
});

test("a token call that fails late does not fail the next one", async () => {
  const place = new Place();
  const calls: ReturnType<typeof withResolvers<string>>[] = [];
  const token = () => {
    const call = withResolvers<string>();
    calls.push(call);
    return call.promise;
  };
  const presence = place.connect({ token });
  await place.pass(15_000 + 500);
  assert.equal(calls.length, 2, "the first attempt was given up");
  calls[0]!.reject(new Error("late"));
  await settled();
  assert.equal(presence.connection.phase, "connecting");
  calls[1]!.resolve("a.b.c");
  await settled();
  place.socket.welcome();
  assert.equal(presence.connection.phase, "connected");
});

test("a WebSocket that cannot be made is a gateway that cannot be reached", async () => {
  const place = new Place();
  const presence = place.connect({
    user: "ana",
    WebSocket: class {
      constructor() {
        throw new Error("forbidden by the page's policy");
      }
    } as never,
  });
  const waiting = presence.connection as Connection & { phase: "waiting" };
  assert.match(waiting.reason.message, /forbidden by the page's policy/);
});

test("a page that comes out of the back/forward cache connects at once, and shows no change", async () => {
  const { place, presence, socket } = await connected();
  const told: string[][] = [];
  presence.watch("bo", (states) => told.push(names(states)));
  await settled();
  socket.say({ type: "snapshot", id: 1, users: [online("bo", 1)] });
  place.signals!.suspend();
  assert.ok(socket.isClosed);
  await place.pass(1_000);
  place.signals!.suspect();
  place.socket.welcome();
  place.socket.say({ type: "snapshot", id: 2, users: [online("bo", 1)] });
  await place.pass(5_000);
  assert.deepEqual(told, [["bo online"]]);
});

test("a laptop that slept asks whether the gateway is there, and replaces a dead socket", async () => {
  const { place, socket } = await connected();
  place.sleep(3_600_000);
  await place.pass(10_000);
  assert.deepEqual(socket.take()[0], { type: "query", users: [], id: 0 });
  await place.pass(5_000);
  assert.ok(socket.isClosed);
  assert.equal(place.sockets.length, 2);
});
