// What every page has in its head: how the connection is, the banner, and its switches.

import { find, forgetColours, mark, put, show } from "./dom.js";
import { keep, language, settings, theme } from "./settings.js";
import { say } from "./words.js";

export function showConnection(state, text) {
  mark(find("connection"), "data-state", state);
  put(find("connection"), text);
}

export function banner(text) {
  put(find("banner"), text);
  show(find("banner"), Boolean(text));
}

/** Show the page: what comes from now on has its place already. */
export function reveal() {
  document.body.classList.remove("loading");
}

/** Say why the server lets nobody in. */
export function refused(status, text) {
  reveal();
  banner([401, 403].includes(status) ? say("token_needed") : say("refused", { why: text.slice(0, 200) }));
}

/** Call `chosen` with what a button of a choice has in this `data-` attribute. */
export function listenToChoice(id, name, chosen) {
  for (const button of find(id).children) button.addEventListener("click", () => chosen(button.dataset[name]));
}

/** Show what is chosen. */
export function showChoice(id, name, value) {
  for (const button of find(id).children) mark(button, "aria-pressed", button.dataset[name] === value);
}

/** Name the switches after what they switch to. */
export function showPreferences() {
  const other = theme() === "dark" ? "light" : "dark";
  put(find("theme"), say(`to_${other}`));
  mark(find("theme"), "aria-label", say(`to_${other}_label`));
  put(find("language"), say("other_language"));
  mark(find("language"), "lang", language() === "zh" ? "en" : "zh-Hans");
}

/** Use the theme in force, or from now on the one that was ``chosen``. */
export function applyTheme(chosen) {
  if (chosen) keep("theme", chosen);
  document.documentElement.dataset.theme = theme();
  forgetColours();
}

/** Call ``themed`` with what is chosen, or null where the system changes; ``spoken`` likewise. */
export function listenToPreferences(themed, spoken) {
  find("theme").addEventListener("click", () => themed(theme() === "dark" ? "light" : "dark"));
  find("language").addEventListener("click", () => spoken(language() === "zh" ? "en" : "zh"));
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", () => settings.theme ?? themed(null));
}
