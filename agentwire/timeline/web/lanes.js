// The picture: a lane for everybody, bars for what takes a while, diamonds for what happens at once.

const GUTTER = 92;
const ROW = 22;
const BAR = 18;
const TOP = 24;
const PAD = 7;
const MOST_ROWS = 14;
const EDGE = 0.02;

const canvas = byId("lanes");
const map = byId("map");
const view = { from: 0, to: 1 };
let layout = { lanes: [], height: 100 };
let selected = null;
let colors = {};

const total = () => Math.max(1, axes[axis].length);
const width = () => Math.max(50, canvas.clientWidth - GUTTER - 10);
const xOf = (place) => GUTTER + ((place - view.from) / (view.to - view.from)) * width();
const placeOf = (x) => view.from + ((x - GUTTER) / width()) * (view.to - view.from);

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = [...data.lanes, "ink", "soft", "line", "shade", "card", "bad", "on", "focus"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// A thing goes into the first row that is free, longer ones first.
function pack(rows, item, least) {
  let row = rows.findIndex((found) => found.until <= item.from);
  if (row < 0) {
    row = Math.min(rows.length, MOST_ROWS - 1);
    rows[row] ??= { until: 0, items: [] };
  }
  rows[row].until = Math.max(item.to, item.from + (isLong(item) ? 0 : least));
  rows[row].items.push(item);
}

// Everything of one subagent stays together: a block of rows, which another takes over when it is done.
function packBlocks(sorted, least) {
  const blocks = new Map();
  for (const item of sorted) {
    const name = `${item.session} ${item.turn} ${item.origin ?? ""}`;
    if (!blocks.has(name)) blocks.set(name, { from: item.from, until: item.to, rows: [] });
    const block = blocks.get(name);
    block.until = Math.max(block.until, item.to);
    pack(block.rows, item, least);
  }
  const slots = [];
  for (const block of blocks.values()) {
    let slot = slots.find((found) => found.until <= block.from);
    if (!slot) slots.push(slot = { until: 0, rows: [] });
    slot.until = block.until;
    block.rows.forEach((row, number) => (slot.rows[number] ??= { items: [] }).items.push(...row.items));
  }
  return slots.flatMap((slot) => slot.rows);
}

function arrange() {
  const lanes = data.lanes.map((name, number) => ({ name, number, rows: [] }));
  const sorted = items.filter((item) => shown.lanes[item.lane] && (shown.session < 0 || item.session === shown.session))
    .sort((a, b) => a.from - b.from || b.to - a.to || a.index - b.index);
  const least = total() / 400;
  const subagents = data.lanes.indexOf("subagents");
  for (const item of sorted) if (item.lane !== subagents) pack(lanes[item.lane].rows, item, least);
  lanes[subagents].rows = packBlocks(sorted.filter((item) => item.lane === subagents), least);
  let y = TOP;
  for (const lane of lanes) {
    lane.y = y;
    lane.height = lane.rows.length ? lane.rows.length * ROW + 2 * PAD : 0;
    y += lane.height;
  }
  layout = { lanes: lanes.filter((lane) => lane.rows.length), height: Math.max(y, 90) };
}

function prepare(target, height) {
  const scale = window.devicePixelRatio || 1;
  const wide = Math.round(target.clientWidth * scale);
  const high = Math.round(height * scale);
  target.style.height = `${height}px`;
  if (target.width !== wide || target.height !== high) {
    target.width = wide;
    target.height = high;
  }
  const pen = target.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, target.clientWidth, height);
  pen.textBaseline = "middle";
  return pen;
}

function ticks(pen) {
  const most = Math.max(2, Math.floor(width() / 110));
  const span = view.to - view.from;
  const rough = span / most;
  const least = axes[axis].back ? 0 : 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough && value >= least) ?? 1;
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "center";
  const zero = axes[axis].zero ?? 0;
  for (let round = Math.ceil((view.from + zero) / step) * step; round - zero <= view.to; round += step) {
    const place = round - zero;
    const x = Math.round(xOf(place)) + 0.5;
    pen.strokeStyle = colors.line;
    pen.beginPath();
    pen.moveTo(x, TOP - 5);
    pen.lineTo(x, layout.height);
    pen.stroke();
    pen.fillStyle = colors.soft;
    const { back } = axes[axis];
    const label = back ? tickLabel(back(place), step) : `#${Math.round(place) + 1}`;
    pen.fillText(label, x, TOP / 2);
  }
  pen.textAlign = "left";
}

function tickLabel(micros, step) {
  if (axis === "folded") return micros < 60e6 ? `${(micros / 1e6).toFixed(1)} s` : clock(micros).slice(0, -4);
  const digits = step >= 1e6 ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3;
  if (micros < 60e6) return `${(micros / 1e6).toFixed(digits)} s`;
  return digits ? clock(micros) : clock(micros).slice(0, -4);
}

function draw() {
  const pen = prepare(canvas, layout.height);
  layout.lanes.forEach((lane, number) => {
    if (number % 2 === 0) {
      pen.fillStyle = colors.shade;
      pen.fillRect(0, lane.y, canvas.clientWidth, lane.height);
    }
  });
  ticks(pen);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER - 6, TOP, width() + 16, layout.height);
  pen.clip();
  for (const lane of layout.lanes) lane.rows.forEach((row, number) => drawRow(pen, lane, row, number));
  pen.restore();
  pen.font = "600 12px system-ui, sans-serif";
  for (const lane of layout.lanes) {
    pen.fillStyle = colors[lane.name];
    pen.beginPath();
    pen.roundRect(10, lane.y + PAD + 4, 4, Math.max(12, lane.height - 2 * PAD - 8), 2);
    pen.fill();
    pen.fillStyle = colors.ink;
    pen.fillText(lane.name, 21, lane.y + PAD + ROW / 2);
  }
  drawMap();
}

function drawRow(pen, lane, row, number) {
  const y = lane.y + PAD + number * ROW + (ROW - BAR) / 2;
  let painted = -1;
  for (const item of row.items) {
    if (item.to < view.from) continue;
    if (item.from > view.to) break;
    const left = xOf(item.from);
    const right = xOf(item.to);
    const dim = !matches.has(item.index);
    if (right - left < 1.5 && right <= painted && item !== selected) continue; // a pixel is painted once
    painted = Math.max(painted, right + 1);
    pen.globalAlpha = dim ? 0.13 : 1;
    const color = item.problem ? colors.bad : colors[lane.name];
    if (isLong(item)) drawBar(pen, item, left, right, y, color);
    else drawDiamond(pen, item, left, y, color);
    pen.globalAlpha = 1;
  }
}

function drawBar(pen, item, left, right, y, color) {
  const wide = Math.max(3, right - left - 1);
  const soft = item.kind === "turn" || item.kind === "text" || item.kind === "reasoning" || item.kind === "arguments";
  pen.beginPath();
  pen.roundRect(left, y, wide, BAR, Math.min(4, wide / 2));
  pen.fillStyle = color;
  if (soft) {
    const before = pen.globalAlpha;
    pen.globalAlpha = before * 0.3;
    pen.fill();
    pen.globalAlpha = before;
    pen.strokeStyle = color;
    pen.stroke();
  } else {
    pen.fill();
  }
  if (item === selected) outline(pen);
  const from = Math.max(left, GUTTER - 6);
  const room = Math.min(right, canvas.clientWidth) - from - 12;
  if (room < 24) return;
  pen.save();
  pen.beginPath();
  pen.rect(from + 5, y, room + 4, BAR);
  pen.clip();
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = soft ? colors.ink : colors.on;
  pen.fillText(item.title, from + 6, y + BAR / 2 + 0.5);
  pen.restore();
}

function drawDiamond(pen, item, x, y, color) {
  const middle = y + BAR / 2;
  const size = item === selected ? 7 : 5;
  pen.beginPath();
  pen.moveTo(x, middle - size);
  pen.lineTo(x + size, middle);
  pen.lineTo(x, middle + size);
  pen.lineTo(x - size, middle);
  pen.closePath();
  pen.fillStyle = color;
  pen.fill();
  if (item === selected) outline(pen);
}

function outline(pen) {
  pen.strokeStyle = colors.focus;
  pen.lineWidth = 2.5;
  pen.stroke();
  pen.lineWidth = 1;
}

// The whole at a glance, with a window over what is seen.
function drawMap() {
  const high = 34;
  const pen = prepare(map, high);
  const wide = width();
  const edge = EDGE * total();
  const scale = (place) => GUTTER + ((place + edge) / (total() + 2 * edge)) * wide;
  const each = (high - 8) / data.lanes.length;
  for (const item of items) {
    if (!shown.lanes[item.lane] || !matches.has(item.index) || item.kind === "turn") continue;
    pen.fillStyle = item.problem ? colors.bad : colors[data.lanes[item.lane]];
    const left = scale(item.from);
    pen.fillRect(left, 4 + item.lane * each, Math.max(1.2, scale(item.to) - left), Math.max(2, each - 1));
  }
  pen.fillStyle = colors.soft;
  pen.font = "11px system-ui, sans-serif";
  pen.fillText("overview", 21, high / 2);
  const left = scale(view.from);
  const right = scale(view.to);
  pen.fillStyle = colors.soft;
  pen.globalAlpha = 0.16;
  pen.fillRect(GUTTER, 0, left - GUTTER, high);
  pen.fillRect(right, 0, GUTTER + wide - right, high);
  pen.globalAlpha = 1;
  pen.strokeStyle = colors.focus;
  pen.strokeRect(left + 0.5, 1.5, Math.max(4, right - left - 1), high - 3);
}

// --- moving about ---

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function look(from, to) {
  const least = axis === "order" ? 0.5 : 200;
  const wide = Math.min(total() * (1 + 2 * EDGE), Math.max(least, to - from));
  const edge = total() * EDGE;
  view.from = Math.min(Math.max(from, -edge), total() + edge - wide);
  view.to = view.from + wide;
  redraw();
}

const fit = () => look(-total() * EDGE, total() * (1 + EDGE));
const pan = (share) => look(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

function zoom(factor, around = (view.from + view.to) / 2) {
  look(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

function reveal(item, closer = false) {
  const span = view.to - view.from;
  if (closer) {
    const wide = Math.max(item.to - item.from, total() / 2000, axis === "order" ? 0.1 : 1);
    look(item.from - wide * 0.15, item.from + wide * 1.15);
  } else if (item.to < view.from || item.from > view.to) {
    look(item.from - span * 0.3, item.from + span * 0.7);
  } else {
    redraw();
  }
}

function itemAt(x, y) {
  for (const lane of layout.lanes) {
    if (y < lane.y + PAD || y >= lane.y + lane.height - PAD) continue;
    const row = lane.rows[Math.floor((y - lane.y - PAD) / ROW)];
    let best = null;
    let nearest = 6;
    for (const item of row?.items ?? []) {
      const left = xOf(item.from);
      const right = Math.max(xOf(item.to), left + 3);
      const away = x < left ? left - x : x > right ? x - right : 0;
      if (away < nearest) [best, nearest] = [item, away];
    }
    return best;
  }
  return null;
}
