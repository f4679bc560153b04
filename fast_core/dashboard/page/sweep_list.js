// The sweeps of the folder: how far each is.

import { find, make, show } from "./dom.js";
import { say, word } from "./words.js";

// With the colour of each, if it has one.
const STATES = { finished: "good", running: "accent", interrupted: "warn", failed: "bad", unknown: "", waiting: "" };

let shown = "";

/** Show them; `filterBy` is called with what a sweep's runs are found by. */
export function showSweeps(sweeps, filterBy) {
  show(find("sweeps"), sweeps.length > 0);
  const state = JSON.stringify([sweeps, say("sweep_filter")]);
  if (state === shown) return;
  shown = state;
  find("sweep-list").replaceChildren(...sweeps.map((sweep) => item(sweep, filterBy)));
}

function item(sweep, filterBy) {
  const here = sweep.name === ".";
  const name = here ? say("sweep_here") : sweep.name;
  const counts = { ...sweep.states, waiting: sweep.waiting };
  const all = Object.values(counts).reduce((sum, n) => sum + n, 0) || 1;
  const bar = make("span", "done", { "aria-hidden": "true" });
  for (const [state, colour] of Object.entries(STATES)) {
    if (!counts[state]) continue;
    const part = make("span", "", { "data-state": state });
    if (colour) part.style.background = `var(--${colour})`;
    part.style.width = `${(100 * counts[state]) / all}%`;
    bar.append(part);
  }
  const finished = counts.finished ?? 0;
  const far = sweep.planned === null ? say("sweep_known", { finished }) : say("sweep_of", { finished, planned: sweep.planned });
  const rest = Object.keys(STATES).slice(1).filter((state) => counts[state]).map((state) => `${counts[state]} ${word("state", state)}`);
  const by = sweep.pid === null ? say("sweep_idle") : say("sweep_by", { pid: sweep.pid });
  const facts = make("span", "sweep-facts", {}, [far, ...rest, by].join(say("joiner")));
  const line = make("li", "", {}, make("span", "sweep-name", {}, name), bar, facts);
  if (!here) {
    const button = make("button", "", { type: "button", "aria-label": say("sweep_filter_label", { name }) }, say("sweep_filter"));
    button.addEventListener("click", () => filterBy(`${sweep.name}/`));
    line.append(button);
  }
  return line;
}
