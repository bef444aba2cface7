/** The list of things to try: ticks off what was seen to happen. */

export function done(step) {
  const item = document.querySelector(`[data-step=${step}]`);
  if (item.classList.contains("done")) return;
  item.classList.add("done");
  item.querySelector(".unseen").textContent = "done: ";
}

/** A state was pushed, because of what its user did. */
export function tick({ state }, cause) {
  const step = {
    "online: signed in": "join",
    "offline: dropped the socket": "drop",
    "offline: froze": "freeze",
    "offline: signed out": "bye",
    "offline: chose invisible": "invisible",
    "online: dropped the socket": "any",
  }[`${state}: ${cause}`];
  if (step) done(step);
}
