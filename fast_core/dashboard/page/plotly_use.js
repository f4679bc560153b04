// Plotly, as every page of FastLoop uses it.

import { colour, find, make, put, show } from "./dom.js";
import { say } from "./words.js";

export const CONFIG = { displayModeBar: false, responsive: false, showTips: false, doubleClick: "reset" };
export const DASHES = ["solid", "dash", "dot", "dashdot"];

let loading = null;

/** Load plotly at the first call. Where it can't be loaded the page says why, and this gives null. */
export function load() {
  loading ??= loaded().catch((error) => {
    put(find("no-plotly"), say("no_plotly", { why: error.message }));
    show(find("no-plotly"), true);
    return null;
  });
  return loading;
}

function loaded() {
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

/** The layout of a chart in `area`: what all have alike, its `axes` by name, and `more` of its own. */
export function layout(area, axes, more) {
  const axis = {
    color: colour("muted"),
    gridcolor: colour("line"),
    linecolor: colour("line"),
    zeroline: false,
    tickfont: { size: 10 },
  };
  return {
    width: area.clientWidth,
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: "inherit", size: 10.5, color: colour("text") },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { size: 11 } },
    ...Object.fromEntries(Object.entries(axes).map(([name, own]) => [name, { ...axis, ...own }])),
    ...more,
  };
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
