// Keeps an open page current: the gateway sends the pieces that changed, by region and key.

const AGAIN_MS = 5000;
const NOTICE_MS = 3000;
const FOCUSABLE = "a, button, input:not([type=hidden]), select, [tabindex]";
let source = document.body.dataset.events;
const ahead = Number(document.body.dataset.now) - Date.now(); // of the gateway's clock before this machine's
let stream = null;
let last = "";
let waiting = 0;
let lostSince = 0;

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html; // made by the gateway's templates, which escape what comes from outside
  return template.content.firstElementChild;
}

// Puts the changed pieces into a region; what did not change stays as it is, with focus and selection.
function patch(container, change) {
  const pieces = new Map([...container.children].map((child) => [child.dataset.key, child]));
  for (const [key, html] of Object.entries(change.set ?? {})) {
    const made = parsed(html);
    if (made === null) continue;
    const old = pieces.get(key);
    if (old !== undefined) {
      const place = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
      old.replaceWith(made);
      if (place >= 0) made.querySelectorAll(FOCUSABLE)[place]?.focus();
    }
    pieces.set(key, made);
  }
  if (change.order === undefined) return;
  const wanted = new Set(change.order);
  for (const [key, element] of pieces) if (!wanted.has(key)) element.remove();
  change.order.forEach((key, place) => {
    const element = pieces.get(key);
    if (element !== undefined && container.children[place] !== element) {
      container.insertBefore(element, container.children[place] ?? null);
    }
  });
}

function received(event) {
  last = event.lastEventId;
  for (const [region, change] of Object.entries(JSON.parse(event.data))) {
    const container = document.querySelector(`[data-live="${CSS.escape(region)}"]`);
    if (container !== null) patch(container, change);
    document.dispatchEvent(new CustomEvent("region", { detail: { region, change } }));
  }
  tick();
}

function say(text) {
  const notice = document.getElementById("connection");
  notice.textContent = text;
  notice.hidden = text === "";
}

function agoText(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function tick() {
  for (const element of document.querySelectorAll("[data-age]")) {
    element.textContent = `, ${agoText(Date.now() + ahead - Number(element.dataset.age))} ago`;
  }
  if (lostSince !== 0 && Date.now() - lostSince > NOTICE_MS) {
    say(`This page has lost the gateway ${agoText(Date.now() - lostSince)} ago, and tries again. What it shows is from before.`);
  }
}

function open() {
  clearTimeout(waiting);
  const address = new URL(source, location.href);
  if (last !== "") address.searchParams.set("after", last);
  stream = new EventSource(address);
  stream.onopen = () => {
    lostSince = 0;
    say("");
  };
  stream.onmessage = received;
  stream.onerror = () => {
    lostSince ||= Date.now();
    if (stream !== null && stream.readyState === EventSource.CLOSED) again();
  };
}

// The gateway has refused the stream, or is not there. Whoever must log in again is shown where.
async function again() {
  stream = null;
  try {
    const answer = await fetch(location.href, { method: "HEAD", cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) return location.reload();
  } catch {
    // it is not there
  }
  if (!document.hidden) waiting = setTimeout(open, AGAIN_MS);
}

// A page that nobody sees follows nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(waiting);
    stream?.close();
    stream = null;
  } else if (stream === null) open();
});

// The page shows something else from now on.
document.addEventListener("shown", ({ detail: { events } }) => {
  source = events;
  last = "";
  stream?.close();
  stream = null;
  if (!document.hidden) open();
});

if (!document.hidden) open();
setInterval(tick, 1000);
