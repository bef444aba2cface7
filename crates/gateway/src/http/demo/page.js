/** The demo page: each card is a device with a socket of its own. Start here, then `card.js` and `device.js`. */
import { Card, noteSilence, put } from "./card.js";
import { devices, onSilence, seconds, times } from "./scene.js";
import { done } from "./steps.js";

const DEVICES_MAX = 4;
/** More often than a bar moves by a pixel. */
const CLOCK_MS = 50;

const addButton = document.getElementById("add");

function renderClocks() {
  for (const place of document.querySelectorAll("[data-time]")) {
    put(place, seconds(times[place.dataset.time]));
  }
  for (const { card } of devices) card.renderClock();
  addButton.hidden = devices.size >= DEVICES_MAX;
}

function addDevice() {
  const added = devices.size === 2 ? new Card("Bo", "laptop", "Ana") : new Card("Cy", "tablet", "Bo");
  added.allowRemoval(() => {
    renderClocks();
    addButton.focus();
  });
  added.find("[data-do=signIn]").focus();
  renderClocks();
}

onSilence((comeback) => noteSilence(comeback) && comeback.within === "grace" && done("flap"));

// A page that is left, closed or put away takes its sockets along; one that comes back has new ones.
let putAway = [];
addEventListener("pagehide", () => {
  putAway = [...devices].filter((device) => device.isLive);
  for (const device of putAway) device.drop("left with its page");
});
addEventListener("pageshow", ({ persisted }) => {
  if (persisted) for (const device of putAway) device.signIn("came back");
});

const endpoint = new URL("ws", location.href);
endpoint.protocol = endpoint.protocol.replace("http", "ws");
document.getElementById("wscat").textContent = `npx -y wscat -c ${endpoint.href} -s presence.v1.json`;
addButton.onclick = addDevice;
setInterval(renderClocks, CLOCK_MS);

const ana = new Card("Ana", "phone", "Bo");
new Card("Bo", "phone", "Ana");
ana.device.signIn();
