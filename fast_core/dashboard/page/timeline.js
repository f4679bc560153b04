// What every node did in the last minute, as the server saw it a few times a second.

import { colour, find, fitted, make, mark, put, show } from "./dom.js";
import { say, share, word } from "./words.js";

const SPAN_MS = 60_000;
const GAP_MS = 3000; // silence after which nothing is drawn: the page was away
// A letter and a pattern for each state, since colours can't be told apart by everybody.
export const STATES = {
  stepping: { letter: "S", colour: "state-a", pattern: "solid" },
  acting: { letter: "I", colour: "state-b", pattern: "dots" },
  learning: { letter: "L", colour: "state-c", pattern: "rising" },
  publishing: { letter: "P", colour: "state-d", pattern: "upright" },
  evaluating: { letter: "E", colour: "state-e", pattern: "falling" },
  drawing: { letter: "D", colour: "state-b", pattern: "level" },
  saving: { letter: "C", colour: "state-d", pattern: "cross" },
  writing: { letter: "O", colour: "state-f", pattern: "level" },
  transforming: { letter: "T", colour: "state-b", pattern: "cross" },
  handling: { letter: "H", colour: "state-f", pattern: "dots" },
  trying: { letter: "Y", colour: "state-f", pattern: "rising" },
  starting: { letter: "B", colour: "faint", pattern: "dots" },
  waiting: { letter: "W", colour: "faint", pattern: "thin" },
  stopped: { letter: "·", colour: "faint", pattern: "none" },
  restarting: { letter: "R", colour: "warn", pattern: "falling" },
  dead: { letter: "X", colour: "bad", pattern: "cross" },
};
const OTHER = { letter: "?", colour: "state-f", pattern: "solid" };

export class Timeline {
  constructor() {
    this.nodes = new Map();
    this.body = find("nodes");
    this.legend = find("legend");
    this.inView = false;
    this.drawnAt = 0;
    const watcher = new IntersectionObserver(([entry]) => (this.inView = entry.isIntersecting));
    watcher.observe(this.body);
  }

  /** Take what nodes do now, and draw it where it can be seen. */
  add(nodes, now) {
    const names = new Set(nodes.map((node) => node.name));
    for (const [name, row] of this.nodes) {
      if (names.has(name)) continue;
      row.element.remove();
      this.nodes.delete(name);
    }
    for (const node of nodes) {
      const row = this.nodes.get(node.name) ?? this.row(node.name);
      row.now = node;
      extend(row.spans, node.state, now);
      put(row.state, word("node", node.state));
      put(row.share, Number.isFinite(node.waiting_share) ? say("waits", { x: share(node.waiting_share) }) : "");
    }
    if (!this.inView || document.hidden || now - this.drawnAt < 400) return;
    this.draw(now);
  }

  /** What nodes of another run did is not what these do. */
  forget() {
    this.nodes.clear();
    this.body.replaceChildren();
    this.legend.replaceChildren();
  }

  row(name) {
    const canvas = make("canvas", "lane", { "aria-hidden": "true" });
    const row = { canvas, spans: [], state: make("span", "doing"), share: make("span", "share") };
    const facts = make("div", "node-facts", {}, row.state, row.share);
    row.element = make("li", "node", { "data-node": name }, make("span", "node-name", {}, name), canvas, facts);
    this.body.append(row.element);
    this.nodes.set(name, row);
    return row;
  }

  draw(now = performance.now()) {
    this.drawnAt = now;
    const seen = new Set();
    for (const { canvas, spans } of this.nodes.values()) {
      const context = fitted(canvas);
      if (!context) continue;
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      ground(context, width, height);
      for (const span of spans) {
        seen.add(span.state);
        const from = width * (1 - (now - span.from) / SPAN_MS);
        const to = width * (1 - (now - span.to) / SPAN_MS);
        if (to > 0) block(context, span.state, Math.max(from, 0), to, height);
      }
    }
    this.explain(seen);
  }

  entry(state) {
    const swatch = make("canvas", "swatch", { "aria-hidden": "true" });
    return this.legend.appendChild(make("li", "", { "data-state": state }, swatch, make("b", "letter"), make("span")));
  }

  /** The legend has the states that can be seen, in a steady order. */
  explain(seen) {
    for (const state of [...Object.keys(STATES), ...seen]) {
      const item = [...this.legend.children].find((child) => child.dataset.state === state) ?? this.entry(state);
      show(item, seen.has(state));
      put(item.children[1], (STATES[state] ?? OTHER).letter);
      put(item.children[2], word("node", state));
      const context = seen.has(state) && fitted(item.children[0]);
      if (context) block(context, state, 0, item.children[0].clientWidth, item.children[0].clientHeight, false);
    }
    mark(this.legend, "aria-label", say("legend"));
  }
}

/** Longer, or another span behind the last one; what is older than the picture goes. */
function extend(spans, state, now) {
  const last = spans.at(-1);
  const near = last && now - last.to < GAP_MS;
  if (near && last.state === state) last.to = now;
  else {
    if (near) last.to = now;
    spans.push({ state, from: now, to: now });
  }
  while (spans.length && now - spans[0].to > SPAN_MS) spans.shift();
}

/** Ten seconds between two lines. */
function ground(context, width, height) {
  context.fillStyle = colour("line");
  for (let part = 1; part < 6; part += 1) context.fillRect(Math.round((width * part) / 6), 0, 1, height);
}

/** A stretch of one state: a bar for work, a thin line for waiting; a letter where it fits. */
function block(context, state, from, to, height, lettered = true) {
  const style = STATES[state] ?? OTHER;
  const width = Math.max(to - from, 1);
  if (style.pattern === "none") return;
  context.fillStyle = colour(style.colour);
  if (style.pattern === "thin") {
    context.fillRect(from, height / 2 - 1, width, 2);
    return;
  }
  context.fillRect(from, 1, width, height - 2);
  hatch(context, style.pattern, from, width, height);
  if (!lettered || width < 15) return;
  const middle = from + width / 2;
  context.fillRect(middle - 6, 1, 12, height - 2);
  context.fillStyle = colour("on-state");
  context.font = `600 10px ${getComputedStyle(document.body).fontFamily}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(style.letter, middle, height / 2 + 0.5);
}

function hatch(context, pattern, from, width, height) {
  if (pattern === "solid" || width < 3) return;
  context.save();
  context.beginPath();
  context.rect(from, 1, width, height - 2);
  context.clip();
  context.strokeStyle = context.fillStyle = colour("panel");
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  const first = Math.floor((from - height) / 5) * 5; // in place while the picture moves by
  for (let x = first; x < from + width + height; x += 5) {
    context.beginPath();
    if (pattern === "dots") context.fillRect(x, height / 2 - 1, 2, 2);
    if (pattern === "upright") context.rect(x, 0, 0.5, height);
    if (pattern === "rising" || pattern === "cross") line(context, x, height, x + height, 0);
    if (pattern === "falling" || pattern === "cross") line(context, x, 0, x + height, height);
    context.stroke();
  }
  if (pattern === "level") context.fillRect(from, height / 2 - 0.5, width, 1);
  context.restore();
}

function line(context, x, y, toX, toY) {
  context.moveTo(x, y);
  context.lineTo(toX, toY);
}
