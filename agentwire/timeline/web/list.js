// The events one below the other; only the rows in sight are on the page.

const HIGH = 28;
const list = byId("events");
const rows = byId("rows");

function drawList() {
  rows.style.height = `${Math.max(1, matching.length) * HIGH}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / HIGH) - 6);
  const last = Math.min(matching.length, Math.ceil((list.scrollTop + list.clientHeight) / HIGH) + 6);
  const drawn = matching.slice(first, last).map((item, number) => rowOf(item, first + number));
  rows.replaceChildren(...drawn);
  if (!matching.length) rows.append(make("p", { class: "empty" }, "Nothing fits the search and the filters."));
  if (selected && drawn.some((row) => row.id === `event-${selected.index}`)) {
    list.setAttribute("aria-activedescendant", `event-${selected.index}`);
  } else {
    list.removeAttribute("aria-activedescendant");
  }
}

function rowOf(item, place) {
  const name = data.lanes[item.lane];
  const long = took(item);
  const when = data.timed ? clock(item.start) : `#${Math.floor(lineOf(item.first)) + 1}`;
  const row = make("div", {
    class: "row", role: "option", id: `event-${item.index}`, "aria-selected": String(item === selected),
    "aria-posinset": place + 1, "aria-setsize": matching.length,
  },
  make("time", {}, when), make("i", { color: item.problem ? "bad" : name, title: name }),
  make("span", { class: "kind" }, words(item.kind)), make("span", { class: "title" }, item.title || words(item.kind)),
  item.status ? statusOf(item) : "", long > 0 ? make("span", { class: "took" }, duration(long)) : "");
  row.style.top = `${place * HIGH}px`;
  row.addEventListener("click", () => select(item));
  row.addEventListener("dblclick", () => reveal(item, true));
  return row;
}

const statusOf = (item) => make("span", { class: item.problem ? "status bad" : "status" }, words(item.status));

function scrollTo(item) {
  const place = matching.indexOf(item);
  if (place < 0) return;
  const top = place * HIGH;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + HIGH > list.scrollTop + list.clientHeight) list.scrollTop = top + HIGH - list.clientHeight;
}

function step(by) {
  if (!matching.length) return;
  const place = selected ? matching.indexOf(selected) : -1;
  const next = place < 0 ? 0 : Math.min(matching.length - 1, Math.max(0, place + by));
  select(matching[next]);
}

const listKeys = {
  ArrowDown: () => step(1), ArrowUp: () => step(-1), PageDown: () => step(12), PageUp: () => step(-12),
  Home: () => step(-matching.length), End: () => step(matching.length),
  Enter: () => { if (selected) reveal(selected, true); },
};

list.addEventListener("scroll", drawList);
list.addEventListener("keydown", (event) => {
  const act = listKeys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
