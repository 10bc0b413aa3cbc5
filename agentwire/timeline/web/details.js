// Everything that is known of the selected event: its times, its lines on the wire, its events on the bus.

const details = byId("details");

const causes = [
  ["model", "model", "the model"], ["tools", "tools", "tools"], ["person", "approvals", "a person"],
  ["subagents", "subagents", "subagents"], ["retry", "bad", "retries"],
];

function sharesOf(waits, more = []) {
  const parts = causes.map(([name, color, label]) => [label, color, waits?.[name] ?? 0]).concat(more)
    .filter(([, , spent]) => spent > 0);
  const sum = parts.reduce((all, [, , spent]) => all + spent, 0);
  if (!sum) return [];
  const bar = make("div", { class: "shares", "aria-hidden": "true" });
  const legend = make("div", { class: "legend" });
  for (const [label, color, spent] of parts) {
    const part = make("i", { color, title: `${label} ${duration(spent)}` });
    part.style.flex = `${spent} 0 0`;
    bar.append(part);
    legend.append(make("span", {}, make("i", { color }), `${label} ${duration(spent)} `,
      make("em", {}, `${Math.round((100 * spent) / sum)}%`)));
  }
  return [bar, legend];
}

function showDetails() {
  if (!selected) {
    details.replaceChildren(make("p", { class: "empty" },
      "Select an event in the picture or in the list: here are its lines on the wire and its events on the bus."));
    return;
  }
  const item = selected;
  const zoomTo = make("button", { type: "button" }, "Zoom to it");
  zoomTo.addEventListener("click", () => reveal(item, true));
  details.replaceChildren(
    make("h3", {}, item.title || words(item.kind)), table(item),
    ...(item.waits ? [make("h4", {}, "Waited for"), ...sharesOf(item.waits)] : []),
    make("div", { class: "act" }, zoomTo), ...wireOf(item), ...busOf(item));
  details.scrollTop = 0;
}

function table(item) {
  const list = make("dl");
  const say = (name, value) => {
    if (value !== "" && value !== undefined) list.append(make("dt", {}, name), make("dd", {}, value));
  };
  say("kind", `${words(item.kind)}, in lane ${data.lanes[item.lane]}`);
  say("status", item.status ? statusOf(item) : "");
  say("note", item.note);
  if (data.timed) {
    say("when", `${clock(item.start)}${wallOf(item.start)}`);
    if (item.end > item.start) say("took", duration(item.end - item.start));
  }
  if (item.told >= 0) say("took, it says", duration(item.told * 1000));
  say("turn", item.turn ? String(item.turn) : "");
  say("session", data.sessions[item.session] ?? "");
  say("subagent", item.origin ?? "");
  say("pieces", item.pieces > 1 ? String(item.pieces) : "");
  return list;
}

function wallOf(micros) {
  if (!data.started) return "";
  return `, ${new Date(data.started + micros / 1000).toLocaleString()}`;
}

function wireOf(item) {
  const numbers = (item.sources ?? []).filter((number) => data.lines[number]);
  if (!numbers.length) return [];
  const found = numbers.map((number) => {
    const [who, at, text] = data.lines[number];
    return block(make("div", { class: "from" }, make("b", {}, `#${number + 1}`), who, data.timed ? clock(at) : ""), text);
  });
  const more = item.pieces > numbers.length ? `: the first and the last of ${item.pieces}` : "";
  return [make("h4", {}, `On the wire${more}`), ...found];
}

function busOf(item) {
  const found = (item.facts ?? []).map(([number, joined, text]) => {
    const from = number >= 0 ? `from #${number + 1}` : "when it ended";
    const many = joined > 1 ? `${joined} pieces, joined` : "";
    return block(make("div", { class: "from" }, from, many), text);
  });
  return found.length ? [make("h4", {}, "On the bus"), ...found] : [];
}

const block = (head, text) => make("div", { class: "raw" }, head, pretty(text));

// JSON laid out without being parsed: numbers keep their digits, and a text that was cut is shown as far as it goes.
function pretty(text) {
  const out = make("pre");
  const line = text.replace(/\r?\n$/, "");
  if (!/^\s*[[{]/.test(line)) {
    out.textContent = line;
    return out;
  }
  let depth = 0;
  const fresh = () => `\n${"  ".repeat(Math.max(0, depth))}`;
  for (const [token] of line.matchAll(/"(?:[^"\\]|\\.)*"?(?:\s*:)?|[[\]{},]|[^\s"[\]{},]+/gs)) {
    if (token === "{" || token === "[") {
      depth += 1;
      out.append(token, fresh());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out.append(fresh(), token);
    } else if (token === ",") {
      out.append(token, fresh());
    } else if (token.startsWith('"')) {
      const key = token.endsWith(":");
      out.append(make("span", { class: key ? "key" : "text" }, token), key ? " " : "");
    } else {
      out.append(make("span", { class: "value" }, token));
    }
  }
  return out;
}
