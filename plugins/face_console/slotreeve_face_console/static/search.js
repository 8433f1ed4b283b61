// Shows the services that are sought while somebody types. One question at a time: what is typed meanwhile waits for the answer.

const form = document.querySelector("form.search");
const input = form.elements.q;
let asking = false;

function address() {
  const made = new URL(form.action, location.href);
  made.search = new URLSearchParams(new FormData(form)).toString();
  return made;
}

function show(page) {
  for (const region of document.querySelectorAll("[data-live], caption")) {
    const name = region.dataset.live;
    const made = page.querySelector(name === undefined ? "caption" : `[data-live="${CSS.escape(name)}"]`);
    if (made !== null) region.replaceChildren(...made.childNodes);
  }
  document.dispatchEvent(new CustomEvent("shown", { detail: page.body.dataset }));
}

async function search() {
  if (asking) return;
  asking = true;
  try {
    for (let wanted = address(); wanted.href !== location.href; wanted = address()) {
      const answer = await fetch(wanted, { cache: "no-store" });
      if (!answer.ok || answer.redirected) return location.assign(wanted); // the page itself says what is wrong
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      history.replaceState(null, "", wanted);
    }
  } catch {
    location.assign(address());
  } finally {
    asking = false;
  }
}

input.addEventListener("input", search);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
