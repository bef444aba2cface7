/**
 * The real gateway program and a real Redis, on free ports, for integration tests. Ends only what
 * it started. The program is `PRESENCE_GATEWAY`, or the one that cargo built.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once, setMaxListeners } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Options, type Presence, connect } from "presence-client";
import { WebSocket } from "ws";

export const PROGRAM =
  process.env.PRESENCE_GATEWAY ??
  fileURLToPath(new URL("../../../target/debug/presence-gateway", import.meta.url));

/** A gateway refuses to start with a setting that it does not know, and takes those of others. */
export const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("PRESENCE_")),
);

/** Longer than any wait of a test: what has not happened by then never will. */
const NEVER_MS = 30_000;

export class Program {
  #child: ChildProcess | undefined;

  constructor(
    readonly port: number,
    private readonly command: string,
    private readonly args: string[],
    private readonly isReady: () => Promise<boolean>,
  ) {}

  async start(): Promise<this> {
    // Only what it says at the end is of interest, and only if it should not have ended.
    const child = spawn(this.command, this.args, { stdio: ["ignore", "ignore", "inherit"], env });
    this.#child = child;
    programs.push(this);
    child.once("error", () => {});
    await until(`${this.command} is ready`, async () => {
      if (child.exitCode !== null) throw new Error(`${this.command} ended with ${child.exitCode}`);
      return this.isReady();
    });
    return this;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}/ws`;
  }
}

/** A gateway that beats fast enough for tests. */
export async function gateway(...args: string[]): Promise<Program> {
  const port = await freePort();
  const ready = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    );
  const listen = ["--listen", `127.0.0.1:${port}`, "--log", "error"];
  const beat = ["--heartbeat", "500ms", "--ttl", "1500ms", "--grace", "1s"];
  return new Program(port, PROGRAM, [...listen, ...beat, ...args], ready).start();
}

export async function redis(): Promise<Program> {
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), "presence-client-"));
  process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
  const ready = async () => {
    const socket = new (await import("node:net")).Socket();
    try {
      await once(socket.connect(port, "127.0.0.1"), "connect");
      return true;
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  };
  const bind = ["--bind", "127.0.0.1", "--port", `${port}`, "--dir", dir];
  const args = [...bind, "--save", "", "--loglevel", "warning", "--logfile", "redis.log"];
  return new Program(port, "redis-server", args, ready).start();
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

const over = new AbortController();
setMaxListeners(0, over.signal);
/** Aborts when the tests of a file are over, and closes whatever client has it. */
export const { signal } = over;
const programs: Program[] = [];

/** Signs in with the sockets of `ws`. */
export function signIn(gateway: { url: string }, options: Options): Presence {
  const quick = { backoffMinMs: 100, backoffMaxMs: 1_000 };
  return connect(gateway.url, { WebSocket, signal, ...quick, ...options });
}

/** Whatever a failed test left behind would keep the process alive. */
export async function endAll(): Promise<void> {
  over.abort();
  await Promise.all(programs.map((program) => program.kill()));
}

/** Waits for a condition, and never for a time. */
export async function until(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  limitMs = NEVER_MS,
): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export const SECRET = "a secret of tests, with its 32 bytes";

/** A token that a gateway with that secret takes. */
export function jwt(sub: string, seconds: number, more: object = {}): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const iat = Math.floor(Date.now() / 1000);
  const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub, iat, exp: iat + seconds, ...more })}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

export const isConnected = (presence: Presence) => () => presence.connection.phase === "connected";

export const sees = (presence: Presence, user: string, state: "online" | "offline") => () =>
  presence.get(user)?.state === state;
