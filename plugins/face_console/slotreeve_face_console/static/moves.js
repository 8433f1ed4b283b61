// The last moves of the slot that is chosen on the slot map.

const PAUSE_MS = 250; // whoever walks over the map chooses many slots, and looks at one
const OLD_MS = 6000; // the gateway asks the servers again after 5 s only
const list = document.getElementById("moves");
const heading = document.getElementById("moves-heading");
let chosen = -1;
let waiting = 0;
let again = 0;

function item(text, tone, time = "") {
  const made = document.createElement("li");
  made.className = tone;
  if (time !== "") {
    const at = document.createElement("time");
    at.textContent = time;
    made.append(at, " ");
  }
  made.append(text);
  return made;
}

async function show(slot) {
  let made;
  try {
    const answer = await fetch(`${list.dataset.source}?slot=${slot}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`the gateway answers ${answer.status}`);
    const { moves, notes } = await answer.json();
    made = [...notes.map((text) => item(text, "soon")), ...moves.map(([time, text]) => item(text, "", time))];
    if (moves.length === 0) made.push(item("No move of it is known.", "quiet"));
  } catch (error) {
    made = [item(`Its moves cannot be asked for: ${error.message}.`, "bad")];
  }
  if (slot !== chosen) return; // another one was chosen meanwhile
  heading.textContent = `Last moves of slot ${slot}`;
  list.replaceChildren(...made);
}

function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => show(chosen), PAUSE_MS);
}

document.addEventListener("slot", ({ detail }) => {
  if (detail === chosen) return;
  chosen = detail;
  soon();
});
document.addEventListener("region", ({ detail: { region, change } }) => {
  if (region !== "cells" || chosen < 0 || change.set === undefined || !(String(chosen) in change.set)) return;
  soon();
  clearTimeout(again);
  again = setTimeout(soon, OLD_MS);
});
