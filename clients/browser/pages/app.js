/** Clients of this page, each with all that it was told. Tests look at `clients`. */
import { connect } from "/client/index.js";
import { connectTabs } from "/client/tabs.js";

window.clients = [];
window.ticks = 0;
window.wasPersisted = false;

window.signIn = (url, watched, options) => {
  const presence = "name" in options ? connectTabs(url, options) : connect(url, options);
  const client = { presence, states: [], phases: [] };
  presence.on("change", (states) => {
    for (const { user, state } of states) client.states.push({ at: Date.now(), user, state });
  });
  presence.on("connection", ({ phase }) => client.phases.push({ at: Date.now(), phase }));
  presence.watch(watched);
  clients.push(client);
};

// A timer as those of other scripts, to see how they are held back.
setInterval(() => (ticks += 1), 100);
addEventListener("pageshow", ({ persisted }) => (wasPersisted = persisted));
