/**
 * One socket for all tabs of a browser: `connectTabs` instead of `connect`, with the same options.
 *
 * The tabs elect one of them by a Web Lock, which the next one gets when that tab is gone. Its
 * `TabHub` owns the real client, and to all tabs, itself included, it is a gateway like any other:
 * that is why there is no second client here. When the hub moves, a tab's socket is lost, and the
 * tab comes back as it always does, at once and without a flicker.
 *
 * The tabs are one session: a status is that of all, and signing out in one signs out all.
 */
import { type Options, type Presence, connect } from "./index.js";
import { means, settings } from "./options.js";
import { surroundings } from "./surroundings.js";
import { TabHub } from "./tab-hub.js";
import { type Locks, type ToTab, hold, lifeOf, tabSocket } from "./tab-socket.js";

export interface TabsOptions extends Options {
  /** Tabs of one name share one socket, so it must tell users and gateways apart. */
  readonly name: string;
  /** Instead of the browser's, for tests. */
  readonly locks?: Locks;
}

/** A client that shares its socket; an ordinary one where the browser has no Web Locks. */
export function connectTabs(url: string | URL, options: TabsOptions): Presence {
  // The real client is made later, and maybe by another tab: a mistake is said now, and here.
  settings(options ?? {}, surroundings);
  means(url, options, surroundings, () => {});
  const locks = options.locks ?? (globalThis as { navigator?: { locks?: Locks } }).navigator?.locks;
  if (!locks || typeof BroadcastChannel === "undefined") return connect(url, options);
  const name = `presence-client ${options.name}`;

  const { token: _, status: first, codec: __, device: ___, grant: ____, ...rest } = options;
  const own = { ...rest, user: "this tab", WebSocket: tabSocket(name, locks) };
  const presence = connect("ws://tabs.invalid/", own);

  let status = first;
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => {
    const parcel = data as ToTab;
    if (parcel.moved || (parcel.up && presence.connection.phase === "waiting")) presence.check();
    if (!parcel.status) return;
    // From now on this tab says the same, whenever it says hello.
    status = parcel.status as NonNullable<typeof status>;
    presence.setStatus(status.show, status.text);
  };

  let candidacy = new AbortController();
  const stand = () => {
    const { signal } = (candidacy = new AbortController());
    hold(locks, name, signal, () => {
      const real = connect(url, { ...options, ...(status && { status }), signal });
      const hub = new TabHub(real, new BroadcastChannel(name), (socket, run) => {
        locks.request(lifeOf(name, socket), { signal }, run).catch(() => {});
      });
      signal.addEventListener("abort", () => hub.close());
    });
  };
  stand();

  // A page in the back/forward cache must hold no lock, and its socket is another tab's then.
  const unlisten = surroundings.listen({
    suspend: () => candidacy.abort(),
    suspect: () => candidacy.signal.aborted && stand(),
  });
  presence.on("connection", ({ phase }) => {
    if (phase !== "ended") return;
    unlisten();
    candidacy.abort();
    channel.close();
  });
  return presence;
}
