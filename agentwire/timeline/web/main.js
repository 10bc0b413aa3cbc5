// Puts the parts together: totals, filters, keys, and what the address remembers.

function card(label, value, more = "", bad = false) {
  return make("div", { class: bad ? "card bad" : "card" }, make("span", {}, label), make("b", {}, value),
    more ? make("small", {}, more) : "");
}

const sum = (counts) => Object.values(counts ?? {}).reduce((all, number) => all + number, 0);
const listing = (counts) => Object.entries(counts ?? {}).map(([name, number]) => `${plainly(number)} ${words(name)}`).join(", ");
const plainly = (number) => (number ?? 0).toLocaleString("en");

function showTotals() {
  const all = data.totals;
  byId("name").textContent = data.name.split(/[\\/]/).pop();
  const started = data.started ? new Date(data.started).toLocaleString() : "";
  byId("about").textContent = [data.wire, data.made_by, started].filter(Boolean).join("  ·  ");
  const usage = all.usage ?? {};
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const bad = sum(all.turns) - (all.turns?.completed ?? 0);
  byId("totals").append(
    card("Turns", plainly(sum(all.turns)), listing(all.turns), bad > 0 && bad === sum(all.turns)),
    card("Model calls", plainly(all.steps), all.retries ? `${all.retries} sent again` : ""),
    card("Tool calls", plainly(sum(all.calls)), listing(all.calls)),
    card("Questions", plainly(sum(all.questions)), listing(all.questions)),
    card("Tokens", data.tokens ? plainly(tokens) : "–", data.tokens || "not reported"),
    card("Errors", plainly(all.errors), "", all.errors > 0),
    ...(all.subagents ? [card("Subagents", plainly(all.subagents))] : []),
    card(data.timed ? "Duration" : "Lines", data.timed ? duration(all.duration) : plainly(sum(all.lines)),
      data.timed ? `${plainly(sum(all.lines))} lines` : "no times in this source"));
  byId("waits").append(...sharesOf(all.waits, [["between turns", "idle", all.idle ?? 0]]));
  if (data.left_out.length) {
    byId("left-out").hidden = false;
    byId("left-out").textContent = `Too much for one page; left out: ${data.left_out.join("; ")}. The totals count everything.`;
  }
}

function select(item) {
  selected = item;
  scrollTo(item);
  drawList();
  showDetails();
  reveal(item);
  remember();
}

function refresh() {
  filter();
  arrange();
  byId("count").textContent = matching.length === items.length
    ? `${plainly(items.length)} events`
    : `${plainly(matching.length)} of ${plainly(items.length)} events`;
  drawList();
  redraw();
}

function remember() {
  const state = new URLSearchParams();
  if (shown.query) state.set("q", shown.query);
  if (selected) state.set("event", selected.index);
  history.replaceState(null, "", `#${state}`);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  shown.query = state.get("q") ?? "";
  byId("search").value = shown.query;
  refresh();
  const item = items[Number(state.get("event") ?? -1)];
  if (item) select(item);
  else showDetails();
}

// --- filters ---

data.lanes.forEach((name, number) => {
  const count = items.filter((item) => item.lane === number).length;
  if (!count) return;
  const chip = make("button", { class: "chip", type: "button", "aria-pressed": "true" }, make("i", { color: name }), name);
  chip.addEventListener("click", () => {
    shown.lanes[number] = !shown.lanes[number];
    chip.setAttribute("aria-pressed", String(shown.lanes[number]));
    refresh();
  });
  byId("lane-filters").append(chip);
});

byId("trouble").addEventListener("click", () => {
  shown.trouble = !shown.trouble;
  byId("trouble").setAttribute("aria-pressed", String(shown.trouble));
  refresh();
});

if (data.sessions.length > 1) {
  byId("session-label").hidden = false;
  byId("session").append(make("option", { value: "-1" }, "All sessions"),
    ...data.sessions.map((name, number) => make("option", { value: String(number) }, name)));
  byId("session").addEventListener("change", (event) => {
    shown.session = Number(event.target.value);
    refresh();
  });
}

let typing = 0;
byId("search").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    shown.query = event.target.value;
    list.scrollTop = 0;
    refresh();
    remember();
  }, 80);
});
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Escape") event.target.blur();
  if (event.key === "Enter" || event.key === "ArrowDown") {
    event.preventDefault();
    list.focus();
    step(0);
  }
});

// --- the picture ---

for (const [name, { label, length }] of Object.entries(axes)) {
  if (name !== "order" && !(data.timed && length > 0)) continue;
  byId("axis").append(make("option", { value: name }, label));
}
byId("axis").value = axis;
byId("axis").addEventListener("change", (event) => {
  useAxis(event.target.value);
  arrange();
  fit();
  if (selected) reveal(selected);
});
byId("in").addEventListener("click", () => zoom(0.6));
byId("out").addEventListener("click", () => zoom(1 / 0.6));
byId("fit").addEventListener("click", fit);

const lanesKeys = {
  ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => step(-1), ArrowDown: () => step(1),
  "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: fit, Home: fit,
  Enter: () => { if (selected) reveal(selected, true); },
};
canvas.addEventListener("keydown", (event) => {
  const act = event.ctrlKey || event.metaKey || event.altKey ? null : lanesKeys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
canvas.addEventListener("wheel", (event) => {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.008), placeOf(event.offsetX));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    pan((event.deltaX || event.deltaY) / width());
  }
}, { passive: false });

const tip = byId("tip");
let held = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  held = { x: event.offsetX, from: view.from, to: view.to, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (held) {
    const by = event.offsetX - held.x;
    held.moved ||= Math.abs(by) > 4;
    if (held.moved) {
      canvas.classList.add("held");
      tip.hidden = true;
      const shift = (by / width()) * (held.to - held.from);
      look(held.from - shift, held.to - shift);
    }
    return;
  }
  const item = itemAt(event.offsetX, event.offsetY);
  canvas.classList.toggle("over", item !== null);
  tip.hidden = item === null;
  if (!item) return;
  const long = took(item);
  tip.replaceChildren(item.title || words(item.kind), make("small", {},
    [words(item.kind), words(item.status), long > 0 ? duration(long) : "", item.note].filter(Boolean).join("  ·  ")));
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
});
canvas.addEventListener("pointerup", (event) => {
  const moved = held?.moved;
  held = null;
  canvas.classList.remove("held");
  const item = moved ? null : itemAt(event.offsetX, event.offsetY);
  if (item) select(item);
});
canvas.addEventListener("pointercancel", () => { held = null; });
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("dblclick", (event) => {
  const item = itemAt(event.offsetX, event.offsetY);
  if (item) reveal(item, true);
  else fit();
});

function followMap(event) {
  const place = ((event.offsetX - GUTTER) / width()) * total();
  const half = (view.to - view.from) / 2;
  look(place - half, place + half);
}
map.addEventListener("pointerdown", (event) => {
  map.setPointerCapture(event.pointerId);
  followMap(event);
});
map.addEventListener("pointermove", (event) => { if (event.buttons & 1) followMap(event); });

// --- the page ---

const dark = window.matchMedia("(prefers-color-scheme: dark)");
function paint(theme) {
  document.documentElement.dataset.theme = theme;
  readColors();
  redraw();
}
dark.addEventListener("change", () => paint(dark.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () =>
  paint(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
document.addEventListener("keydown", (event) => {
  const writing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    byId("search").focus();
  }
});
new ResizeObserver(() => { redraw(); drawList(); }).observe(byId("lanes-box"));

paint(dark.matches ? "dark" : "light");
showTotals();
fit();
recall();
document.documentElement.dataset.ready = "yes";
