// The tiles beside one another: how many in a row, which of them are in view, which one is chosen.

import { find, put, show } from "./dom.js";
import { say } from "./words.js";
import { Tile } from "./tile.js";

const CLASSIC = 8; // 4 x 2
const LEAST = 150; // pixels that a tile is wide, where there is room for two of them
const NARROW = 600; // pixels of the grid under which the classic view is 2 x 4
const [ACROSS, DOWN] = [8, 10]; // pixels between two tiles
const SHAPE = 4 / 3; // of a picture, until there is one
const FAR = 0.3; // between the logarithms of two shapes
const BELOW = 24; // pixels that stay free under the tiles

/** The fewest columns in which `count` tiles are all seen in `room` pixels, rows full if possible. */
export function columns(count, width, room, shape, caption) {
  const most = Math.max(Math.floor((width + ACROSS) / (LEAST + ACROSS)), count > 1 ? 2 : 1);
  const fits = (across) => {
    const wide = (width - ACROSS * (across - 1)) / across;
    return Math.ceil(count / across) * (wide / shape + caption + DOWN) - DOWN <= room;
  };
  let across = 1;
  while (across < most && !fits(across)) across += 1;
  const fuller = count % across !== 0 && count % (across + 1) === 0 && across < most;
  return across + fuller;
}

export class Grid {
  /** `changed` is called when other tiles are in view; `enlarge` with the tile to enlarge. */
  constructor({ changed, enlarge }) {
    this.changed = changed;
    this.enlarge = enlarge;
    this.tiles = [];
    this.chosen = 0;
    this.layout = "auto";
    this.inView = new Set();
    this.shape = SHAPE;
    this.settled = false; // whether the shape stays
    this.shown = false; // whether it is seen: what moves then is more of a nuisance than edges
    this.element = find("grid");
    this.watcher = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "80px" });
    new ResizeObserver(() => this.arrange()).observe(this.element);
    addEventListener("resize", () => this.arrange());
    find("page-back").addEventListener("click", () => this.turn(-1));
    find("page-on").addEventListener("click", () => this.turn(1));
  }

  /** Show other tiles; the pictures of those that stay are kept. */
  setTiles(infos) {
    const same = JSON.stringify(infos) === JSON.stringify(this.tiles.map((tile) => tile.info));
    if (same) return;
    this.watcher.disconnect();
    this.inView.clear();
    const on = { choose: (number) => this.choose(number), enlarge: (number) => this.enlarge(number) };
    this.tiles = infos.map((info) => new Tile(info, on));
    this.element.replaceChildren(...this.tiles.map((tile) => tile.element));
    for (const tile of this.tiles) this.watcher.observe(tile.element);
    this.choose(this.tiles[this.chosen] ? this.chosen : 0);
    this.arrange();
  }

  setLayout(layout) {
    this.layout = layout;
    this.arrange();
  }

  get pages() {
    return this.layout === "classic" ? Math.max(Math.ceil(this.tiles.length / CLASSIC), 1) : 1;
  }

  get page() {
    return this.pages > 1 ? Math.floor(this.chosen / CLASSIC) : 0;
  }

  arrange() {
    const width = this.element.clientWidth;
    const classic = this.layout === "classic";
    const across = classic ? (width < NARROW ? 2 : 4) : this.columns(width);
    this.element.style.setProperty("--across", Math.max(across, 1));
    this.across = Math.max(across, 1);
    const from = classic ? this.page * CLASSIC : 0;
    const to = classic ? Math.min(from + CLASSIC, this.tiles.length) : this.tiles.length;
    this.tiles.forEach((tile, index) => show(tile.element, index >= from && index < to));
    show(find("pages"), this.pages > 1);
    put(find("page-of"), say("page_of", { from: from + 1, to, all: this.tiles.length }));
    find("page-back").disabled = this.page === 0;
    find("page-on").disabled = this.page === this.pages - 1;
  }

  columns(width) {
    const room = innerHeight - (this.element.getBoundingClientRect().top + scrollY) - BELOW;
    return columns(this.tiles.length, width, room, this.shape, this.tiles[0]?.caption.offsetHeight ?? 0);
  }

  seen(entries) {
    for (const entry of entries) {
      const number = Number(entry.target.dataset.tile);
      if (entry.isIntersecting) this.inView.add(number);
      else this.inView.delete(number);
    }
    this.changed();
  }

  /** Numbers of the tiles that can be seen. */
  get visible() {
    return [...this.inView].sort((a, b) => a - b);
  }

  tile(number) {
    return this.tiles.find((tile) => tile.number === number);
  }

  choose(number) {
    const page = this.page;
    this.chosen = number;
    for (const tile of this.tiles) tile.select(tile.number === number);
    if (page !== this.page) this.arrange();
  }

  /** Choose a tile and give it the keyboard. */
  focus(number) {
    const tile = this.tile(number);
    if (!tile) return;
    this.choose(number);
    tile.button.focus();
  }

  /** Move by columns and rows, as the arrow keys do. */
  move(across, down) {
    const next = this.chosen + across + down * this.across;
    if (next >= 0 && next < this.tiles.length) this.focus(next);
  }

  turn(by) {
    const first = (this.page + by) * CLASSIC;
    if (first >= 0 && first < this.tiles.length) this.choose(first);
  }

  update(now) {
    for (const each of now.tiles ?? []) this.tile(each.tile)?.update(each, now.best_tile);
  }

  /** Pictures of another kind come from now on, or other places: the next one gives them its shape. */
  reshape() {
    this.settled = this.shown = false;
  }

  /** The shape of all places is that of the first picture; of one that comes late if it is far off. */
  draw(bitmap, picture) {
    const tile = this.tile(picture.tile);
    if (!tile) return;
    if (!this.settled) {
      const widest = picture.kind === 1 ? 1.6 : 4;
      const shape = Math.min(Math.max(bitmap.width / bitmap.height, 0.8), widest);
      this.settled = true;
      if (!this.shown || Math.abs(Math.log(shape / this.shape)) > FAR) this.shape = shape;
      this.element.style.setProperty("--shape", this.shape.toFixed(3));
      this.arrange();
    }
    tile.draw(bitmap, picture);
  }

  write(text, picture) {
    this.tile(picture.tile)?.write(text, picture);
  }

  rename() {
    for (const tile of this.tiles) tile.rename();
    this.arrange();
  }
}
