// One environment: its picture, and what is known of it.

import { styled } from "./ansi.js";
import { make, mark, put, show } from "./dom.js";
import { count, number, say, word } from "./words.js";

const LATE_MS = 4000; // without a picture for so long, a tile that wants one says why
const NOTED_MS = 3000; // that a note stands before it has a line
const COARSE = 200; // pixels: narrower pictures are shown pixel by pixel, others smoothly
// Each state has a sign of its own: colour alone says nothing to who can't tell colours apart.
const SIGNS = { running: "●", waiting: "◐", restarting: "↻", dead: "✕", ended: "■" };

/** The state's kind, by whatever words the server has for it. */
function kindOf(state) {
  const name = (state || "starting").toLowerCase();
  return Object.keys(SIGNS).find((kind) => name.startsWith(kind)) ?? "starting";
}

const COLUMNS = 64; // of text; longer lines are broken
const [LEAST, LARGEST] = [8, 28]; // pixels: size of text
const [WIDE, HIGH] = [0.61, 1.3]; // of a letter and a line, as parts of that
const MARGIN = 16; // pixels, of both sides; twice as much above and below

/** A canvas on which the newest picture is shown, or the text in its place. */
export class Screen {
  constructor() {
    this.canvas = make("canvas", "picture", { role: "img" });
    this.text = make("span", "text");
    this.text.hidden = true;
    this.canvas.width = this.canvas.height = 0;
    this.drawn = 0;
    this.at = -Infinity;
    this.rate = 0;
  }

  draw(bitmap, picture) {
    const { canvas } = this;
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
      canvas.classList.toggle("coarse", bitmap.width < COARSE);
    }
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    this.shown(picture, canvas);
  }

  /** Show a text, as large as there is room for. */
  write(text, picture) {
    this.text.replaceChildren(styled(text.replace(/^\n+/, "").trimEnd()));
    this.shown(picture, this.text);
    const { clientWidth: width, clientHeight: height } = this.text;
    const lines = this.text.textContent.split("\n");
    const columns = Math.min(COLUMNS, Math.max(8, ...lines.map((line) => line.length)));
    const rows = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / columns)), 0);
    const size = Math.min((width - MARGIN) / (columns * WIDE), (height - 2 * MARGIN) / (rows * HIGH), LARGEST);
    this.text.style.fontSize = `${Math.max(LEAST, size).toFixed(1)}px`;
  }

  shown(picture, element) {
    show(this.canvas, element === this.canvas);
    show(this.text, element === this.text);
    const { canvas } = this;
    const now = performance.now();
    if (Number.isFinite(this.at)) this.rate += 0.2 * (1000 / Math.max(now - this.at, 1) - this.rate);
    this.at = now;
    this.drawn += 1;
    canvas.dataset.drawn = this.drawn;
    canvas.dataset.seq = picture.seq;
    canvas.dataset.age = Math.round(picture.age + now - picture.received);
  }
}

/** A place of the grid. `choose` and `enlarge` are called with the tile's number. */
export class Tile {
  constructor(info, { choose, enlarge }) {
    this.info = info;
    this.number = info.tile;
    this.now = {};
    this.since = performance.now();
    this.screen = new Screen();
    this.waiting = make("span", "waiting");
    this.reason = make("span", "reason");
    this.badge = make("span", "badge", { "aria-hidden": "true" });
    this.bestMark = make("span", "best-mark");
    this.button = make("button", "screen", { type: "button", tabindex: "-1" });
    this.cover = make("span", "cover", {}, this.waiting, this.reason);
    this.button.append(this.screen.canvas, this.screen.text, this.cover, this.badge, this.bestMark);
    this.button.addEventListener("click", () => enlarge(this.number));
    this.button.addEventListener("focus", () => choose(this.number));
    this.R = make("b");
    this.S = make("b");
    this.state = make("span", "state");
    this.episode = make("span", "facts");
    this.rate = make("span");
    this.facts = make("p", "facts");
    this.note = make("p", "note");
    const state = make("p", "facts", {}, this.state, this.rate);
    this.caption = make("div", "caption", {}, this.line(), state, this.facts, this.note);
    this.element = make("li", "tile", { "data-tile": info.tile }, this.button, this.caption);
    this.rename();
    this.update({}, null);
  }

  line() {
    const R = make("span", "figure", {}, "R: ", this.R);
    const S = make("span", "figure", {}, "S: ", this.S);
    return make("p", "line", {}, R, S, this.episode);
  }

  get evaluation() {
    return this.info.kind === "evaluation";
  }

  get name() {
    const n = this.evaluation ? this.info.env + 1 : this.number + 1;
    return say(this.evaluation ? "evaluation_tile" : "training_tile", { n });
  }

  get place() {
    return say(this.evaluation ? "where_evaluation" : "where", this.info);
  }

  /** Texts that stand as long as the language does. */
  rename() {
    put(this.badge, this.evaluation ? say("evaluation_short") : String(this.number + 1));
    put(this.bestMark, `★ ${say("best")}`);
    mark(this.button, "aria-label", say("enlarge_label", { name: this.name }));
    mark(this.button, "title", this.place);
    mark(this.screen.canvas, "aria-label", say("picture_label", { name: this.name }));
    this.update(this.now, this.best);
  }

  /** What is known now; `best` is the number of the tile that leads. */
  update(now, best) {
    this.now = now;
    this.best = best;
    put(this.R, reward(now.R));
    put(this.S, now.S == null ? "–" : count(now.S));
    showState(this.state, now.state, now.note);
    const { episode, version, fps, seed } = facts(now);
    put(this.episode, episode);
    put(this.rate, fps && ` · ${fps}`);
    put(this.facts, [version, seed].filter(Boolean).join(" · "));
    const note = this.lasting(standing(now));
    show(this.note, Boolean(note)); // in the place of the line above it, so that nothing moves
    show(this.facts, !note);
    put(this.note, note);
    mark(this.note, "title", note);
    this.element.classList.toggle("best", best === this.number);
    show(this.bestMark, best === this.number);
    this.cover.hidden = this.screen.drawn > 0;
    const over = kindOf(now.state) === "ended";
    put(this.waiting, say(over ? "no_picture" : "waiting_frame"));
    const late = !over && performance.now() - this.since > LATE_MS;
    put(this.reason, late ? now.note || this.missing(kindOf(now.state)) : "");
  }

  /** A note that has been there for a while: lines that come and go would move all tiles. */
  lasting(note) {
    if (!note) this.noted = Infinity;
    else this.noted = Math.min(this.noted ?? Infinity, performance.now());
    return performance.now() - this.noted > NOTED_MS ? note : "";
  }

  /** Why there is no picture, as far as the state says. */
  missing(kind) {
    if (this.evaluation && kind !== "dead") return say("shown_evaluating");
    return kind === "running" ? say("no_frame_yet") : word("tile", kind);
  }

  draw(bitmap, picture) {
    this.screen.draw(bitmap, picture);
    this.cover.hidden = true;
  }

  write(text, picture) {
    this.screen.write(text, picture);
    this.cover.hidden = true;
  }

  /** Choose it, or not: the chosen one is the one that Tab reaches. */
  select(chosen) {
    this.element.classList.toggle("chosen", chosen);
    mark(this.button, "tabindex", chosen ? 0 : -1);
  }
}

/** A reward: whole where it is. */
export function reward(value) {
  if (value == null) return "–";
  return Number.isInteger(value) ? count(value) : number(value);
}

/** A note that stands for a while. Why it waits changes by the second: that is the state's title. */
export function standing(now) {
  return (kindOf(now.state) !== "waiting" && now.note) || "";
}

/** Show a state as sign, word and colour; `why` is its title. */
export function showState(element, state, why = "") {
  const kind = kindOf(state);
  put(element, `${SIGNS[kind] ?? "…"} ${word("tile", state || kind)}`);
  mark(element, "title", why);
  mark(element, "data-kind", kind);
}

/** Episode, version, rate and seed in words; empty where they are unknown. */
export function facts(now) {
  const told = (key, x) => (x == null ? "" : say(key, { x }));
  return {
    episode: told("episode", now.episode == null ? null : count(now.episode)),
    version: told("version", now.version),
    fps: now.fps ? say("fps", { x: Number(Number(now.fps).toFixed(1)) }) : "",
    seed: told("seed_is", now.seed),
  };
}
