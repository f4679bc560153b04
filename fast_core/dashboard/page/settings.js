// What a person chose, remembered by the browser for every run it shows.

const KEY = "fastloop.page";
const CHOICES = {
  theme: [null, "dark", "light"], // null: as the system has it
  language: [null, "en", "zh"], // null: as the browser has it
  layout: ["auto", "classic"],
  mode: ["rgb", "obs"],
  axis: ["env_steps", "time_s"],
  keys: [true, false],
  format: ["gif", "mp4"],
  spread: ["range", "std"],
};

function read() {
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem(KEY) || "{}") || {};
  } catch {
    // closed storage: the page forgets, and works
  }
  const known = ([name, allowed]) => [name, allowed.includes(kept[name]) ? kept[name] : allowed[0]];
  return Object.fromEntries(Object.entries(CHOICES).map(known));
}

export const settings = read();

/** Set a choice, for now and for the next visit. */
export function keep(name, value) {
  settings[name] = value;
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // as above
  }
}

/** The theme in force. */
export function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return settings.theme ?? (dark ? "dark" : "light");
}

/** The language in force. */
export function language() {
  const own = (navigator.language || "en").toLowerCase().startsWith("zh") ? "zh" : "en";
  return settings.language ?? own;
}
