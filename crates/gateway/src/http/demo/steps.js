/** The list of things to try: ticks off what was seen to happen. */
import { lastAct } from "./scene.js";

export function done(step) {
  const item = document.querySelector(`[data-step=${step}]`);
  if (item.classList.contains("done")) return;
  item.classList.add("done");
  item.querySelector(".unseen").textContent = "done: ";
}

/** A state was pushed, some time after what its user did last. */
export function tick({ user, state }) {
  const step = {
    "online: signed in": "join",
    "offline: dropped the socket": "drop",
    "offline: froze": "freeze",
    "offline: signed out": "bye",
    "offline: chose invisible": "invisible",
    "online: dropped the socket": "any",
  }[`${state}: ${lastAct(user)}`];
  if (step) done(step);
}
