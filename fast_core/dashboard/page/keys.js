// Keys for all that is done often. They can be turned off in the help, where they are listed.

import { find, make } from "./dom.js";
import { keep, settings } from "./settings.js";
import { say } from "./words.js";

const LIST = [
  [["Space"], "key_space"],
  [["1", "–", "9"], "key_numbers"],
  [["←", "↑", "↓", "→"], "key_arrows"],
  [["Enter"], "key_enter"],
  [["Esc"], "key_escape"],
  [["O"], "key_o"],
  [["L"], "key_l"],
  [["S"], "key_s"],
  [["?"], "key_help"],
];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** What a control does with a key itself is left to it; a tile leaves all but Enter to the page. */
function taken(event) {
  const control = event.target.closest("input, select, textarea, summary, a, button, [contenteditable]");
  if (!control || control.closest(".tile")) return false;
  return event.key === " " || event.key === "Enter" || !control.matches("button, a, summary");
}

/** Listen for keys; `does` has a function for each of them. */
export function listen(does) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (find("help").open) return;
    if (event.key === "Escape") return does.back();
    if (!settings.keys || taken(event)) return;
    const key = event.key.toLowerCase();
    const does_it = {
      " ": does.pause,
      o: does.mode,
      l: does.layout,
      s: does.clip,
      "?": does.help,
    }[key];
    const number = /^[1-9]$/.test(key) ? () => does.choose(Number(key) - 1) : null;
    const arrow = ARROWS[event.key] && !event.shiftKey ? () => does.move(...ARROWS[event.key]) : null;
    const enter = key === "enter" && !event.target.closest(".tile") ? does.enlarge : null;
    const chosen = does_it ?? number ?? arrow ?? enter;
    if (!chosen || chosen() === false) return;
    event.preventDefault();
  });
  // In Firefox a button would still be pressed when the space bar comes up.
  document.addEventListener("keyup", (event) => {
    if (event.key === " " && settings.keys && event.target.closest(".tile")) event.preventDefault();
  });
}

/** The dialog that lists them. */
export class Help {
  constructor() {
    this.dialog = find("help");
    find("help-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    const toggle = find("keys-on");
    toggle.checked = settings.keys;
    toggle.addEventListener("change", () => keep("keys", toggle.checked));
    this.fill();
  }

  fill() {
    const rows = LIST.map(([keys, text]) => {
      const caps = keys.map((key) => (key === "–" ? " – " : make("kbd", "", {}, key)));
      return make("div", "", {}, make("dt", "", {}, ...caps), make("dd", "", {}, say(text)));
    });
    find("key-list").replaceChildren(...rows);
  }

  open() {
    this.dialog.showModal();
  }
}
