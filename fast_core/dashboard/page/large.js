// One environment as large as there is room for: picture, observation, and what its policy thinks.

import { find, make, mark, put, show } from "./dom.js";
import { Insight } from "./insight.js";
import { Screen, facts, reward, showState, standing } from "./tile.js";
import { count, say } from "./words.js";

export class Large {
  /** `enlarge` is called with the tile to show instead, `back` to show all. */
  constructor({ enlarge, back }) {
    this.enlarge = enlarge;
    this.tile = null;
    this.insight = new Insight();
    this.element = find("large");
    this.chips = find("chips");
    find("back").addEventListener("click", back);
  }

  get open() {
    return this.tile !== null;
  }

  /** Show a tile of the grid; null shows none. */
  set(tile, tiles) {
    if (tile !== null && tile !== this.tile) {
      this.screens = { 1: new Screen(), 2: new Screen() };
      mark(this.screens[1].text, "tabindex", 0); // it may have to be scrolled
      find("large-rgb").replaceChildren(this.screens[1].canvas, this.screens[1].text);
      find("large-obs").replaceChildren(this.screens[2].canvas);
      show(find("large-rgb-box"), false);
      show(find("large-obs-box"), false);
      this.insight.clear();
      put(find("clip-said"), "");
    }
    this.tile = tile;
    show(this.element, tile !== null);
    if (tile === null) return;
    this.fillChips(tiles);
    this.rename();
  }

  /** One small button for each environment, so that one can go from one to the other. */
  fillChips(tiles) {
    if (tiles === this.tiles) return;
    const chips = tiles.map((tile) => {
      const chip = make("button", "chip", { type: "button", "data-tile": tile.number });
      chip.append(make("span"), " ", make("b"));
      chip.addEventListener("click", () => this.enlarge(tile.number));
      return make("li", "", {}, chip);
    });
    this.chips.replaceChildren(...chips);
    this.tiles = tiles;
  }

  rename() {
    if (!this.open) return;
    put(find("large-name"), this.tile.name);
    put(find("large-place"), this.tile.place);
    mark(this.screens[1].canvas, "aria-label", say("picture_label", { name: this.tile.name }));
    mark(this.screens[2].canvas, "aria-label", say("observation_label", { name: this.tile.name }));
    this.update();
    this.insight.draw();
  }

  update() {
    if (!this.open) return;
    const { now } = this.tile;
    put(find("large-R"), reward(now.R));
    put(find("large-S"), now.S == null ? "–" : count(now.S));
    showState(find("large-state"), now.state, now.note);
    put(find("large-facts"), Object.values(facts(now)).filter(Boolean).join(" · "));
    put(find("large-note"), standing(now));
    show(find("large-best"), this.tile.best === this.tile.number);
    this.tiles.forEach((tile, index) => {
      const chip = this.chips.children[index].firstChild;
      const [label, figure] = chip.children;
      put(label, tile.evaluation ? say("evaluation_short") : String(tile.number + 1));
      put(figure, reward(tile.now.R));
      mark(chip, "aria-label", `${tile.name}, R: ${figure.textContent}`);
      mark(chip, "aria-pressed", tile === this.tile);
    });
    const drawn = this.screens[1].drawn + this.screens[2].drawn;
    show(find("large-waiting"), drawn === 0);
  }

  draw(bitmap, picture) {
    if (!this.open || picture.tile !== this.tile.number) return;
    this.screens[picture.kind]?.draw(bitmap, picture);
    show(find(picture.kind === 1 ? "large-rgb-box" : "large-obs-box"), true);
    show(find("large-waiting"), false);
    if (picture.kind === 1) put(find("large-rgb-caption"), say("picture"));
  }

  write(text, picture) {
    if (!this.open || picture.tile !== this.tile.number) return;
    show(find("large-rgb-box"), true); // before it is measured
    this.screens[1].write(text, picture);
    show(find("large-waiting"), false);
    put(find("large-rgb-caption"), say("text"));
  }

  think(message) {
    if (this.open && message.tile === this.tile.number) this.insight.add(message);
  }
}
