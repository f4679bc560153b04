// Plotly, as every page of FastLoop uses it.

import { make } from "./dom.js";

export const CONFIG = { displayModeBar: false, responsive: false, showTips: false, doubleClick: "reset" };
export const DASHES = ["solid", "dash", "dot", "dashdot"];

/** Load plotly; rejects with the reason. */
export function load() {
  return new Promise((done, failed) => {
    const script = make("script", "", { src: "plotly.js" });
    const make_element = document.createElement;
    // Its bundle would add a style element for maps, which the page's security policy refuses.
    document.createElement = (name, options) =>
      make_element.call(document, name === "style" ? "template" : name, options);
    const over = (then) => () => {
      document.createElement = make_element;
      then();
    };
    script.onload = over(() => (window.Plotly ? done(window.Plotly) : failed(new Error("plotly.js"))));
    script.onerror = over(() => failed(new Error("plotly.js")));
    document.head.append(script);
  });
}

/** A colour that lets what is behind it through. */
export function clear(paint) {
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(paint.slice(place, place + 2), 16));
  return `rgba(${red},${green},${blue},0.18)`;
}

/** Names are the run's; plotly would read tags and templates in them. */
export function escaped(text) {
  return text.replace(/[<>&%{}]/g, " ");
}
