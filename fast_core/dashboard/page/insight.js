// What the policy of the enlarged environment thinks: value, probabilities and Q-values, over time.

import { colour, find, fitted, make, put, show } from "./dom.js";
import { number, say } from "./words.js";

const LONGEST = 160; // moments that are kept and drawn
const ACTIONS = 8; // lines that can still be told apart
const DASHES = [[], [5, 3], [1.5, 2.5], [8, 3, 2, 3]]; // lines differ by more than colour
const FIGURES = ["value", "probabilities", "q"];

export class Insight {
  constructor() {
    this.figures = new Map();
    for (const name of FIGURES) {
      const canvas = make("canvas", "curve", { "aria-hidden": "true" });
      const list = make("ul", "now-list");
      const title = make("h4", "", { "data-word": name }, say(name));
      const box = make("section", "thought", { "data-figure": name }, title, canvas, list);
      find("insight").append(box);
      this.figures.set(name, { box, canvas, list });
    }
    this.clear();
  }

  clear() {
    this.moments = [];
    this.names = null;
    this.due = false;
    this.draw();
  }

  add(message) {
    this.names = message.actions ?? this.names;
    const value = message.value == null ? null : [message.value];
    this.moments.push({ at: message.at, value, probabilities: message.probabilities, q: message.q });
    if (this.moments.length > LONGEST) this.moments.shift();
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.due = false;
    show(find("no-insight"), this.moments.length === 0);
    for (const name of FIGURES) {
      const figure = this.figures.get(name);
      const last = this.moments.findLast((moment) => moment[name]?.length)?.[name];
      show(figure.box, Boolean(last));
      if (last) this.figure(name, figure, last);
    }
  }

  figure(name, { canvas, list }, last) {
    const order = last.map((_, index) => index);
    const shown = last.length > ACTIONS ? order.sort((a, b) => last[b] - last[a]).slice(0, ACTIONS) : order;
    shown.sort((a, b) => a - b);
    const range = this.range(name, shown);
    this.curves(canvas, name, shown, range);
    const single = name === "value";
    const rest = last.length - shown.length;
    while (list.children.length > shown.length + (rest > 0)) list.lastChild.remove();
    shown.forEach((index, place) => {
      const item = list.children[place] ?? list.appendChild(entry());
      const [swatch, label, figure] = item.children;
      stroke(swatch, place);
      put(label, single ? say("value") : this.action(index));
      put(figure, number(last[index]));
    });
    if (rest > 0) {
      const item = list.children[shown.length] ?? list.appendChild(make("li"));
      put(item, say("more_actions", { n: rest }));
    }
  }

  action(index) {
    return this.names?.[index] ?? say("action", { n: index });
  }

  /** Probabilities are drawn from 0 to 1, all else as far as it goes. */
  range(name, shown) {
    if (name === "probabilities") return [0, 1];
    let [low, high] = [Infinity, -Infinity];
    for (const moment of this.moments) {
      for (const index of shown) {
        const value = moment[name]?.[index];
        if (!Number.isFinite(value)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (!Number.isFinite(low)) return [0, 1];
    const room = (high - low || Math.abs(high) || 1) * 0.08;
    return [low - room, high + room];
  }

  curves(canvas, name, shown, [low, high]) {
    const context = fitted(canvas);
    if (!context) return;
    const left = 44;
    const [width, height] = [canvas.clientWidth - left - 4, canvas.clientHeight - 8];
    const x = (place) => left + (width * (LONGEST - this.moments.length + place)) / (LONGEST - 1);
    const y = (value) => 4 + height * (1 - (value - low) / (high - low));
    scale(context, left, width, y, low, high);
    this.ends(context, x, height);
    shown.forEach((index, place) => {
      context.strokeStyle = colour(`line-${(place % 8) + 1}`);
      context.setLineDash(DASHES[Math.floor(place / 2) % DASHES.length]);
      context.lineWidth = 1.5;
      context.beginPath();
      let down = false;
      this.moments.forEach((moment, at) => {
        const value = moment[name]?.[index];
        const begins = at > 0 && moment.at < this.moments[at - 1].at;
        if (!Number.isFinite(value)) {
          down = false;
          return;
        }
        if (down && !begins) context.lineTo(x(at), y(value));
        else context.moveTo(x(at), y(value));
        down = true;
      });
      context.stroke();
    });
  }

  /** A thin line where an episode began. */
  ends(context, x, height) {
    context.strokeStyle = colour("faint");
    context.setLineDash([2, 3]);
    context.lineWidth = 1;
    context.beginPath();
    for (let at = 1; at < this.moments.length; at += 1) {
      if (this.moments[at].at >= this.moments[at - 1].at) continue;
      context.moveTo(x(at), 4);
      context.lineTo(x(at), 4 + height);
    }
    context.stroke();
  }
}

/** The two ends of the vertical axis, and a line at each. */
function scale(context, left, width, y, low, high) {
  context.font = `10px ${getComputedStyle(document.body).fontFamily}`;
  context.fillStyle = colour("muted");
  context.strokeStyle = colour("line");
  context.textAlign = "right";
  context.setLineDash([]);
  context.lineWidth = 1;
  for (const [value, baseline] of [[high, "top"], [low, "bottom"]]) {
    context.textBaseline = baseline;
    context.fillText(number(value), left - 6, y(value));
    context.beginPath();
    context.moveTo(left, Math.round(y(value)) + 0.5);
    context.lineTo(left + width, Math.round(y(value)) + 0.5);
    context.stroke();
  }
}

function entry() {
  const swatch = make("canvas", "swatch", { "aria-hidden": "true" });
  return make("li", "", {}, swatch, make("span"), make("b"));
}

function stroke(canvas, place) {
  const context = fitted(canvas);
  if (!context) return;
  context.strokeStyle = colour(`line-${(place % 8) + 1}`);
  context.setLineDash(DASHES[Math.floor(place / 2) % DASHES.length]);
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(0, canvas.clientHeight / 2);
  context.lineTo(canvas.clientWidth, canvas.clientHeight / 2);
  context.stroke();
}
