// The slot map: a cell a slot, drawn from typed arrays.

const HEIGHT = 520;
const SMALLEST = 5;
const LARGEST = 30;
const WIDE = 12; // cells from here on have room for a ring
const SETTLING = 1;
const COPYING = 2;
const GONE = 4;
const UNKNOWN = -2; // instead of the number of a leader
const PAST_MS = 60000; // what is known of the past is asked for again after so long

const canvas = document.getElementById("map");
const explanation = document.getElementById("explanation");
const input = document.getElementById("slot");
const when = document.getElementById("when");
const whenText = document.getElementById("when-text");
const names = [];
const earlier = []; // changes that came before the map
let slots = null; // {count, followers, leaders, places, flags}
let size = LARGEST;
let columns = 1;
let chosen = -1;
let ink = {};
let past = null; // the steps of the last hour; each has what it changed (cells) and what was there before (undo)
let shownSteps = -1; // so many steps are in what is shown; -1: the present is shown
let pastAsked = 0;
let moment = 0; // the time that the map shows, in milliseconds since 1970; 0: now

// Hue, saturation, and lightness on a light and on a dark screen. None is the red of what is wrong.
const COLOURS = [
  [212, 72, 42, 66], [34, 88, 40, 58], [172, 70, 29, 50], [282, 45, 48, 72], [66, 75, 29, 46],
  [322, 58, 50, 74], [196, 80, 38, 76], [24, 42, 34, 46], [244, 58, 62, 80], [112, 42, 36, 62],
];

// The colour of a server's cells. Beyond those that are well told apart, hues go round.
function colour(number) {
  const [hue, saturation, light, dark] = COLOURS[number] ?? [(30 + number * 137.508) % 320 + 20, 45, 45, 65];
  return `hsl(${hue} ${saturation}% ${ink.dark ? dark : light}%)`;
}

function readInk() {
  const style = getComputedStyle(document.body);
  const bad = getComputedStyle(document.querySelector(".probe-bad") ?? document.body);
  ink = { text: style.color, paper: style.backgroundColor, bad: bad.color };
  const [red, green, blue] = (style.backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  ink.dark = red + green + blue < 384;
}

// --- what is known -------------------------------------------------------------------------------------------------

function setCell(id, text) {
  if (text === "?") {
    slots.leaders[id] = UNKNOWN;
    slots.flags[id] = slots.counts[id] = 0;
    return;
  }
  const places = text.replace(/[gsc]+$/, "").split(",").map(Number);
  slots.flags[id] = (text.includes("s") ? SETTLING : 0) | (text.includes("c") ? COPYING : 0) | (text.includes("g") ? GONE : 0);
  slots.leaders[id] = places[0];
  slots.counts[id] = places.length - 1;
  for (let place = 0; place < slots.width; place++) slots.places[id * slots.width + place] = places[place + 1] ?? -1;
}

function take(shown) {
  const count = shown.cells.length;
  const width = Math.max(1, shown.followers, ...shown.cells.slice(0, 64).map((text) => text.split(",").length - 1)) + 2;
  slots = {
    count,
    width,
    followers: shown.followers,
    leaders: new Int16Array(count).fill(-1),
    counts: new Uint8Array(count),
    flags: new Uint8Array(count),
    places: new Int16Array(count * width).fill(-1),
  };
  names.splice(0, names.length, ...shown.names);
  shown.cells.forEach((text, id) => setCell(id, text));
  input.max = String(Math.max(0, count - 1));
  layOut();
}

function kind(id) {
  if (slots.leaders[id] === UNKNOWN) return "unknown";
  if (slots.leaders[id] < 0 || slots.flags[id] & GONE) return "lost";
  if (slots.flags[id] & SETTLING) return "settling";
  if (slots.counts[id] < slots.followers) return "thin";
  return slots.flags[id] & COPYING ? "copying" : "whole";
}

function inWords(id) {
  const named = (number) => names[number] ?? `server ${number}`;
  const places = [...slots.places.subarray(id * slots.width, id * slots.width + Math.min(slots.counts[id], slots.width))];
  const followers = places.map(named);
  const words = [];
  if (slots.leaders[id] === UNKNOWN) return `Slot ${id}: it is not known which server led it then.`;
  if (slots.leaders[id] < 0) words.push("no server leads it, so its services can be neither read nor written");
  else if (slots.flags[id] & GONE) words.push(`${named(slots.leaders[id])} should lead it and is gone, so its services can be neither read nor written`);
  else if (slots.flags[id] & SETTLING) words.push(`${named(slots.leaders[id])} leads it, and does not serve it yet: it still takes over`);
  else words.push(`${named(slots.leaders[id])} leads it`);
  if (followers.length === 0) words.push("no server follows");
  else words.push(`${followers.join(" and ")} ${followers.length === 1 ? "follows" : "follow"}`);
  const missing = slots.followers - followers.length;
  if (missing > 0) words.push(`it lacks ${missing === 1 ? "one copy" : `${missing} copies`}`);
  if (slots.flags[id] & COPYING) words.push("a follower still copies");
  const then = moment === 0 ? "" : `As of ${timeText(moment)}: `;
  return `${then}Slot ${id}: ${words.join("; ")}.`;
}

// --- drawing -------------------------------------------------------------------------------------------------------

function drawSign(context, what, x, y, side, fill) {
  context.fillStyle = ink.paper;
  context.fillRect(x, y, side, side);
  const inner = side - (side > 8 ? 2 : 1);
  if (what === "lost") {
    context.fillStyle = ink.bad;
    context.fillRect(x, y, inner, inner);
    if (side > 8) {
      context.fillStyle = ink.paper;
      context.fillRect(x + 2, y + 2, inner - 4, inner - 4);
      context.strokeStyle = ink.bad;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x + 3, y + 3);
      context.lineTo(x + inner - 3, y + inner - 3);
      context.moveTo(x + inner - 3, y + 3);
      context.lineTo(x + 3, y + inner - 3);
      context.stroke();
    }
    return;
  }
  if (what === "unknown") {
    context.strokeStyle = ink.text;
    context.lineWidth = 1;
    context.strokeRect(x + 1.5, y + 1.5, inner - 3, inner - 3);
    return;
  }
  context.fillStyle = fill;
  if (what === "thin") {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + inner, y);
    context.lineTo(x, y + inner);
    context.fill();
  } else if (what === "settling") {
    const edge = Math.max(1, Math.round(inner / 5));
    context.fillRect(x, y, inner, inner);
    context.fillStyle = ink.paper;
    context.fillRect(x + edge, y + edge, inner - 2 * edge, inner - 2 * edge);
  } else {
    context.fillRect(x, y, inner, inner);
    if (what === "copying") {
      const dot = Math.max(1, Math.round(inner / 3));
      context.fillStyle = ink.paper;
      context.fillRect(x + (inner - dot) / 2, y + (inner - dot) / 2, dot, dot);
    }
  }
}

function context2d() {
  const context = canvas.getContext("2d");
  const ratio = canvas.width / (canvas.clientWidth || canvas.width);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

function drawCell(context, id) {
  const x = (id % columns) * size;
  const y = Math.floor(id / columns) * size;
  drawSign(context, kind(id), x, y, size, colour(slots.leaders[id]));
  if (id === chosen) {
    const around = size < WIDE ? 3 : 0; // a ring around a small cell, one in a large cell
    context.strokeStyle = ink.text;
    context.lineWidth = 2;
    context.strokeRect(x + 0.5 - around, y + 0.5 - around, size - 2 + 2 * around, size - 2 + 2 * around);
  }
}

// Draws what is around a cell, without the ring of a small one: rings that are drawn over each other grow darker.
function drawAround(context, id) {
  const column = id % columns;
  const row = Math.floor(id / columns);
  context.fillStyle = ink.paper;
  context.fillRect(column * size - 5, row * size - 5, size + 10, size + 10);
  for (let y = row - 1; y <= row + 1; y++) {
    for (let x = Math.max(0, column - 1); x <= column + 1 && x < columns; x++) {
      const near = y * columns + x;
      if (near >= 0 && near < slots.count && near !== chosen) drawCell(context, near);
    }
  }
}

// Draws these cells, or with null all of them. ``before``: the one that was chosen until now.
function draw(some, before = -1) {
  if (slots === null) return;
  const context = context2d();
  if (some === null) {
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    for (let id = 0; id < slots.count; id++) if (id !== chosen) drawCell(context, id);
  } else for (const id of some) if (id >= 0 && id < slots.count && id !== chosen) drawCell(context, id);
  for (const id of [before, chosen]) if (id >= 0 && id < slots.count) drawAround(context, id);
  if (chosen >= 0 && chosen < slots.count) drawCell(context, chosen);
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
}

function drawLegend() {
  for (const swatch of document.querySelectorAll(".swatch")) swatch.style.backgroundColor = colour(Number(swatch.dataset.number));
  for (const sign of document.querySelectorAll(".sign")) drawSign(sign.getContext("2d"), sign.dataset.kind, 0, 0, 18, ink.text);
}

function layOut() {
  if (slots === null) return;
  const width = Math.max(100, canvas.parentElement.clientWidth);
  size = Math.min(LARGEST, Math.max(SMALLEST, Math.floor(Math.sqrt((width * HEIGHT) / Math.max(1, slots.count)))));
  columns = Math.max(1, Math.min(Math.floor(width / size), slots.count));
  const height = Math.max(1, Math.ceil(slots.count / columns)) * size;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = `${columns * size}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(columns * size * ratio);
  canvas.height = Math.round(height * ratio);
  draw(null);
  drawLegend();
}

// --- choosing ------------------------------------------------------------------------------------------------------

function explain(id) {
  explanation.textContent = id < 0 || slots === null || id >= slots.count ? "No slot is chosen." : inWords(id);
}

function choose(id) {
  if (slots === null || !Number.isInteger(id) || id < 0 || id >= slots.count) return;
  const before = chosen;
  chosen = id;
  draw([], before);
  if (input.value !== String(id)) input.value = String(id);
  explain(id);
  document.dispatchEvent(new CustomEvent("slot", { detail: id }));
}

function under(event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / size);
  const id = Math.floor((event.clientY - box.top) / size) * columns + column;
  return slots !== null && column >= 0 && column < columns && id >= 0 && id < slots.count ? id : -1;
}

canvas.addEventListener("pointermove", (event) => explain(under(event) < 0 ? chosen : under(event)));
canvas.addEventListener("pointerleave", () => explain(chosen));
canvas.addEventListener("click", (event) => choose(under(event)));
canvas.addEventListener("focus", () => {
  if (chosen < 0) choose(0);
});
canvas.addEventListener("keydown", (event) => {
  if (slots === null || event.ctrlKey || event.altKey || event.metaKey) return;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -10 * columns, PageDown: 10 * columns };
  let next = chosen;
  if (event.key in steps) next = chosen + steps[event.key];
  else if (event.key === "Home") next = 0;
  else if (event.key === "End") next = slots.count - 1;
  else return;
  event.preventDefault();
  choose(next < 0 || next >= slots.count ? chosen : next);
});
input.addEventListener("input", () => choose(Number(input.value === "" ? NaN : input.value)));

// --- keeping current -----------------------------------------------------------------------------------------------

function change({ region, change: { set = {}, order } }) {
  if (region === "names") for (const [number, name] of Object.entries(set)) names[Number(number)] = name;
  if (region === "cells" && moment === 0) {
    if (order !== undefined && order.length !== slots.count) return void load();
    const ids = Object.keys(set).map(Number);
    for (const id of ids) setCell(id, set[id]);
    draw(ids);
    explain(chosen);
  }
  drawLegend(); // rows that are new have no colour yet
}

document.addEventListener("region", ({ detail }) => {
  if (slots === null) earlier.push(detail);
  else change(detail);
});

// --- the last hour -------------------------------------------------------------------------------------------------

function timeText(at) {
  return `${new Date(at).toISOString().slice(11, 19)} UTC`;
}

let asking = null;

// Asks for the past, once for all who want it.
function loadPast() {
  if (past !== null && Date.now() - pastAsked < PAST_MS) return Promise.resolve();
  asking ??= askPast().finally(() => { asking = null; });
  return asking;
}

async function askPast() {
  const answer = await fetch(when.dataset.source, { cache: "no-store" });
  if (!answer.ok) throw new Error(`the gateway answers ${answer.status}`);
  const told = await answer.json();
  const cells = [...told.cells];
  for (const step of told.steps) {
    step.cells = Object.entries(step.cells).map(([id, text]) => [Number(id), text]);
    step.undo = step.cells.map(([id]) => [id, cells[id]]);
    for (const [id, text] of step.cells) cells[id] = text;
  }
  past = told;
  shownSteps = -1; // what is shown is of an earlier answer
  pastAsked = Date.now();
}

// The servers that led slots then, and have no row beside the map.
function nameFormer() {
  const rows = document.querySelectorAll("[data-live=legend] .swatch");
  const present = new Set([...rows].map((swatch) => Number(swatch.dataset.number)));
  const numbers = moment === 0 ? [] : [...new Set(slots.leaders)].filter((number) => number >= 0 && !present.has(number));
  const made = numbers.map((number) => {
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.dataset.number = String(number);
    const item = document.createElement("li");
    item.append(swatch, `${names[number]}, no member now`);
    return item;
  });
  document.getElementById("former").replaceChildren(...made);
  drawLegend();
}

// The map at a time; what is known of it must be there.
function showMoment(at) {
  moment = at;
  if (shownSteps < 0) {
    take({ followers: slots?.followers ?? 0, names: past.names, cells: past.cells });
    shownSteps = 0;
  }
  const changed = new Set();
  const set = ([id, text]) => { setCell(id, text); changed.add(id); };
  while (shownSteps < past.steps.length && past.steps[shownSteps].at_ms <= at) past.steps[shownSteps++].cells.forEach(set);
  while (shownSteps > 0 && past.steps[shownSteps - 1].at_ms > at) past.steps[--shownSteps].undo.forEach(set);
  draw([...changed]);
  explain(chosen);
  nameFormer();
  const table = shownSteps === 0 ? "" : `, slot table ${past.steps[shownSteps - 1].epoch}`;
  const notes = past.notes.length === 0 ? "" : ` ${past.notes.join(" ")}`;
  const unknown = slots.leaders.includes(UNKNOWN) ? " An empty frame is a slot of which it is not known who led it then." : "";
  whenText.textContent = `As of ${timeText(at)}${table}.${unknown} The tables beside the map show the present.${notes}`;
}

function showNow() {
  moment = 0;
  shownSteps = -1;
  nameFormer();
  when.value = "0";
  whenText.textContent = "Now.";
  return load();
}

async function onPast(work) {
  try {
    await loadPast();
    work();
  } catch (error) {
    whenText.textContent = `The past cannot be asked for: ${error.message}.`;
  }
}

when.addEventListener("input", () => {
  if (Number(when.value) === 0) showNow();
  else onPast(() => Number(when.value) !== 0 && showMoment(past.until_ms + 1000 * Number(when.value)));
});

// Whoever reaches for the slider will want it.
for (const kind of ["pointerenter", "focus"]) when.addEventListener(kind, () => loadPast().catch(() => {}));

// To the commit before (-1) or after (1) what is shown; after the last one comes the present.
function walk(direction) {
  return onPast(() => {
    const at = moment === 0 ? past.until_ms + 1 : moment;
    const steps = past.steps.filter((step) => (direction < 0 ? step.at_ms < at : step.at_ms > at));
    if (steps.length === 0) {
      if (direction > 0) showNow();
      else whenText.textContent = "No earlier change of the slot table is known in the last hour.";
      return;
    }
    const to = direction < 0 ? steps[steps.length - 1] : steps[0];
    when.value = String(Math.min(-1, Math.round((to.at_ms - past.until_ms) / 1000)));
    showMoment(to.at_ms);
  });
}

document.getElementById("earlier").addEventListener("click", () => walk(-1));
document.getElementById("later").addEventListener("click", () => walk(1));

async function load() {
  try {
    const answer = await fetch(canvas.dataset.source);
    if (!answer.ok) throw new Error(`the gateway answers ${answer.status}`);
    const shown = await answer.json();
    if (moment !== 0) return; // the past is shown meanwhile
    take(shown);
    while (earlier.length > 0) change(earlier.shift());
    if (chosen >= slots.count) chosen = -1;
    explain(chosen);
  } catch (error) {
    explanation.textContent = `The map cannot be loaded: ${error.message}. It is tried again.`;
    setTimeout(load, 5000);
  }
}

function again() {
  readInk();
  layOut();
}

readInk();
new ResizeObserver(layOut).observe(canvas.parentElement);
document.addEventListener("themechange", again);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
await load();
