// Runs before anything is drawn, so that a remembered theme doesn't flash in the other one.
"use strict";
(() => {
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem("fastloop.page") || "{}") || {};
  } catch {
    // storage that is closed or holds rubbish: the system's theme
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = ["dark", "light"].includes(kept.theme) ? kept.theme : dark ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
})();
