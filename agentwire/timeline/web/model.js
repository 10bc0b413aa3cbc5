// The data of the page, what of it is shown, and where it lies on the horizontal axis.

const data = JSON.parse(document.getElementById("data").textContent);
const items = data.items;
items.forEach((item, index) => {
  item.index = index;
  item.status ??= "";
  item.note ??= "";
  item.turn ??= 0;
  item.session ??= -1;
});

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name === "color") element.style.background = `var(--${value})`;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== "" && child !== null && child !== undefined));
  return element;
}

function duration(micros) {
  if (micros <= 0) return "0";
  if (micros < 1e3) return `${micros} µs`;
  if (micros < 1e6) return `${Math.round(micros / 1e3)} ms`;
  if (micros < 60e6) return `${(micros / 1e6).toFixed(micros < 10e6 ? 2 : 1)} s`;
  const seconds = Math.floor(micros / 1e6);
  const minutes = Math.floor(seconds / 60);
  const two = (number) => String(number).padStart(2, "0");
  return minutes < 60 ? `${minutes} m ${two(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)} m`;
}

function clock(micros) {
  const total = micros / 1e6;
  const minutes = Math.floor(total / 60);
  const seconds = (total - minutes * 60).toFixed(3).padStart(6, "0");
  return `${minutes}:${seconds}`;
}

const lineOf = (order) => order / data.orders; // a fraction: what one line told comes one after the other
const words = (name) => name.replaceAll("_", " ");
const took = (item) => (data.timed ? item.end - item.start : item.told >= 0 ? item.told * 1000 : 0);
const isLong = (item) => (data.timed ? item.end > item.start : item.last > item.first);

// --- what is shown ---

const shown = { query: "", lanes: data.lanes.map(() => true), trouble: false, session: -1 };
let matching = items;
let matches = new Set(items.map((item) => item.index));
const haystacks = new Map();

function haystack(item) {
  let text = haystacks.get(item.index);
  if (text === undefined) {
    const parts = [item.title, item.note, item.kind, item.status, item.origin ?? ""];
    for (const fact of item.facts ?? []) parts.push(fact[2]);
    for (const number of item.sources ?? []) parts.push(data.lines[number]?.[2] ?? "");
    text = parts.join("\n").toLowerCase();
    haystacks.set(item.index, text);
  }
  return text;
}

const fields = {
  kind: (item, value) => item.kind.startsWith(value),
  status: (item, value) => item.status.startsWith(value) || (value === "ok" && item.status === ""),
  lane: (item, value) => data.lanes[item.lane].startsWith(value),
  turn: (item, value) => String(item.turn) === value,
};

function filter() {
  const terms = shown.query.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
    const [, name, value] = /^(\w+):(.+)$/.exec(term) ?? [];
    return name in fields ? (item) => fields[name](item, value) : (item) => haystack(item).includes(term);
  });
  matching = items.filter((item) =>
    shown.lanes[item.lane] && (!shown.trouble || item.problem) &&
    (shown.session < 0 || item.session === shown.session) && terms.every((term) => term(item)));
  matches = new Set(matching.map((item) => item.index));
}

// --- the horizontal axis ---

const ends = items.reduce((found, item) => ({
  start: Math.min(found.start, item.start), end: Math.max(found.end, item.end), last: Math.max(found.last, item.last),
}), { start: Infinity, end: 0, last: 1 });
if (!items.length) ends.start = 0;

// Pauses in which nothing went on, made short: pieces of [time, place] between which places are interpolated.
function folded() {
  const spans = items.filter(isLong).map((item) => [item.start, item.end]).sort((a, b) => a[0] - b[0]);
  const busy = [];
  for (const [start, end] of spans) {
    const last = busy[busy.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else busy.push([start, end]);
  }
  const total = busy.reduce((sum, [start, end]) => sum + end - start, 0);
  const longest = Math.max(1e5, total * 0.03);
  const pieces = [[ends.start, 0]];
  let place = 0;
  let time = ends.start;
  const upTo = (next, most) => {
    place += Math.min(next - time, most);
    time = next;
    pieces.push([time, place]);
  };
  for (const [start, end] of busy) {
    if (start > time) upTo(start, longest);
    if (end > time) upTo(end, Infinity);
  }
  if (ends.end > time) upTo(ends.end, longest);
  return pieces;
}

function interpolate(pieces, value, from, to) {
  let low = 0;
  let high = pieces.length - 1;
  if (high < 1) return pieces[0][to];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (pieces[middle][from] <= value) low = middle;
    else high = middle;
  }
  const width = pieces[high][from] - pieces[low][from];
  const share = width > 0 ? (value - pieces[low][from]) / width : 0;
  return pieces[low][to] + share * (pieces[high][to] - pieces[low][to]);
}

const pieces = data.timed ? folded() : [];
const axes = {
  time: { label: "Time", of: (item) => [item.start - ends.start, item.end - ends.start],
    length: ends.end - ends.start, zero: ends.start, back: (place) => place + ends.start },
  folded: { label: "Time, pauses folded",
    of: (item) => [interpolate(pieces, item.start, 0, 1), interpolate(pieces, item.end, 0, 1)],
    length: pieces.length ? pieces[pieces.length - 1][1] : 0, back: (place) => interpolate(pieces, place, 1, 0) },
  order: { label: "Order of the lines", of: (item) => [lineOf(item.first), lineOf(Math.max(item.last, item.first))],
    length: lineOf(ends.last + 1), back: null },
};
let axis = "order";

function useAxis(name) {
  axis = name;
  for (const item of items) [item.from, item.to] = axes[name].of(item);
}

if (data.timed && ends.end > ends.start) {
  useAxis(data.totals.idle > data.totals.duration / 2 ? "folded" : "time");
} else {
  useAxis("order");
}
