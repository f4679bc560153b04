// The two switches that every page has: theme and language.
import { find, forgetColours, mark, put } from "./dom.js";
import { keep, language, settings, theme } from "./settings.js";
import { say } from "./words.js";

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
