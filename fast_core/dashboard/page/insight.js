// What the policy of the enlarged environment thinks: value, probabilities, Q-values and the like,
// over time.

import { colour, find, make, put, show } from "./dom.js";
import { DASHES, LONGEST, curves, stroke } from "./curves.js";
import { number, say } from "./words.js";

const ACTIONS = 8; // lines that can still be told apart
const FIGURES = ["value", "probabilities", "q", "mean"];

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

  /** Take a message: numbers of several choices at once come one after the other. */
  add(message) {
    this.names = message.actions ?? this.names;
    const { at, episode = 0, probabilities: chances, q, mean } = message;
    this.several = Array.isArray(chances?.[0]) ? chances.map((each) => each.length) : null;
    const value = message.value == null ? null : [message.value];
    this.moments.push({ at, episode, value, probabilities: chances?.flat(), q, mean });
    this.deviations = { q: message.q_std, mean: message.std };
    this.taken = message.taken;
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
    const lines = shown.map((index, place) => ({
      values: this.moments.map((moment) => moment[name]?.[index]),
      paint: colour(`line-${(place % 8) + 1}`),
      dash: DASHES[Math.floor(place / 2) % DASHES.length],
    }));
    curves(canvas, lines, this.begins(), name === "probabilities" ? [0, 1] : null);
    this.list(name, list, last, shown, lines);
  }

  /** The names and numbers of now, which are also the legend. */
  list(name, list, last, shown, lines) {
    const rest = last.length - shown.length;
    while (list.children.length > shown.length + (rest > 0)) list.lastChild.remove();
    shown.forEach((index, place) => {
      if (list.children[place]?.children.length !== 3) list.children[place]?.remove();
      const item = list.children[place] ?? list.appendChild(entry());
      const [swatch, label, figure] = item.children;
      stroke(swatch, lines[place]);
      const deviation = this.deviations[name]?.[index];
      put(label, this.label(name, index, last.length));
      put(figure, number(last[index]) + (Number.isFinite(deviation) ? ` ± ${number(deviation)}` : ""));
      item.classList.toggle("taken", this.isTaken(name, index, last.length));
    });
    if (rest <= 0) return;
    const item = list.children[shown.length] ?? list.appendChild(make("li"));
    put(item, say("more_actions", { n: rest }));
  }

  isTaken(name, index, length) {
    return name !== "value" && length > 1 && !this.several && this.taken === index;
  }

  label(name, index, length) {
    if (name === "value") return say("value");
    if (name === "q" && length === 1) return say("of_taken");
    if (name === "probabilities" && this.several) return this.choice(index);
    return this.names?.[index] ?? say("action", { n: index });
  }

  /** `name 2` for the third choice of one of several. */
  choice(index) {
    let [which, rest] = [0, index];
    while (rest >= this.several[which]) rest -= this.several[which++];
    return `${this.names?.[which] ?? say("action", { n: which })}: ${rest}`;
  }

  /** Moments at which an episode began. */
  begins() {
    const { moments } = this;
    const found = new Set();
    for (let at = 1; at < moments.length; at += 1) {
      const [before, now] = [moments[at - 1], moments[at]];
      if (now.episode !== before.episode || now.at < before.at) found.add(at);
    }
    return found;
  }
}

function entry() {
  const swatch = make("canvas", "swatch", { "aria-hidden": "true" });
  return make("li", "", {}, swatch, make("span"), make("b"));
}
