// Curves over seeds: the mean as a line, a band round it, and how many seeds carry each point.

import { find, make, put, show } from "./dom.js";
import { CONFIG, clear, escaped, layout, load } from "./plotly_use.js";
import { number, say } from "./words.js";

const HEIGHT = 260;
const EACH_MS = 1000; // between two drawings
const PLAIN = { type: "scatter", mode: "lines", hoverinfo: "skip", line: { width: 0 } };

/** The charts of what is drawn for each environment, whose returns have a scale of their own. */
export class SeedCurves {
  constructor(settings) {
    this.settings = settings;
    this.plotly = null;
    this.rows = new Map(); // by environment
    this.lines = [];
    this.metric = ""; // that has a chart beside those of the returns
    this.drawnAt = -Infinity;
    this.timer = 0;
    this.sizes = new ResizeObserver(() => this.soon());
  }

  /**
   * Draw these: `name`, `environment`, `look`, `single` (one run), and by metric, `evaluation`,
   * `training` and `chosen`, the curves as the server gives them, or nothing while they are not
   * there yet. `metric` is what is chosen, if something is.
   */
  set(lines, metric) {
    this.lines = lines;
    this.metric = metric;
    show(find("no-curves"), lines.length === 0);
    if (lines.length && !this.plotly) {
      load().then((plotly) => {
        this.plotly = plotly;
        this.soon();
      });
    }
    this.soon();
  }

  /** Which line is which, once for all charts. */
  legend() {
    const items = this.lines.map((line) => {
      const stroke = make("span", "stroke", { "aria-hidden": "true" });
      stroke.style.borderTopColor = line.look.colour();
      stroke.style.borderTopStyle = line.look.style;
      const seeds = Math.max(line.evaluation?.runs ?? 0, line.training?.runs ?? 0);
      const many = line.single || !seeds ? "" : ` (${seeds === 1 ? say("one_seed") : say("each_seed", { n: seeds })})`;
      return make("li", "", {}, stroke, `${line.name}${many}`);
    });
    find("curve-legend").replaceChildren(...items);
  }

  soon() {
    if (this.timer) return;
    const wait = Math.max(0, this.drawnAt + EACH_MS - performance.now());
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.lines.length) this.drawnAt = performance.now();
      this.draw();
    }, wait);
  }

  draw() {
    this.legend();
    const environments = [...new Set(this.lines.map((line) => line.environment))];
    for (const [environment, row] of this.rows) {
      if (environments.includes(environment)) continue;
      for (const chart of row.charts) this.purge(chart);
      row.element.remove();
      this.rows.delete(environment);
    }
    for (const environment of environments) {
      const row = this.rows.get(environment) ?? this.row(environment);
      const lines = this.lines.filter((line) => line.environment === environment);
      for (const chart of row.charts) this.chart(chart, environment, lines);
    }
  }

  row(environment) {
    const charts = ["evaluation", "training", "chosen"].map((metric) => {
      const title = make("h3");
      const area = make("div", "plot");
      const empty = make("p", "empty");
      const element = make("figure", "chart", { "data-metric": metric }, make("figcaption", "", {}, title), area, empty);
      this.sizes.observe(area);
      return { metric, title, area, empty, element };
    });
    const element = make("div", "curve-row", {}, ...charts.map((chart) => chart.element));
    find("curves").append(element);
    const row = { element, charts };
    this.rows.set(environment, row);
    return row;
  }

  purge(chart) {
    this.sizes.unobserve(chart.area);
    if (this.plotly && chart.area.hasChildNodes()) this.plotly.purge(chart.area);
  }

  chart(chart, environment, lines) {
    put(chart.title, say(`curve_${chart.metric}`, { environment, metric: this.metric }));
    const shown = chart.metric !== "chosen" || this.metric !== "";
    show(chart.element, shown);
    const known = shown ? lines.filter((line) => line[chart.metric]?.env_steps.length) : [];
    put(chart.empty, say("no_points"));
    show(chart.empty, known.length === 0);
    if (!this.plotly) return;
    if (!known.length) {
      if (chart.area.hasChildNodes()) this.plotly.purge(chart.area);
      return;
    }
    const bands = known.flatMap((line) => this.band(line, line[chart.metric]));
    const means = known.flatMap((line) => means_of(line, line[chart.metric]));
    const axes = { xaxis: { tickformat: "~s", nticks: 6, rangemode: "tozero" }, yaxis: { nticks: 6 } };
    const more = { height: HEIGHT, margin: { l: 44, r: 10, t: 8, b: 28 }, showlegend: false, uirevision: "kept" };
    this.plotly.react(chart.area, [...bands, ...means], layout(chart.area, axes, more), CONFIG);
  }

  band(line, curve) {
    if (curve.runs < 2) return [];
    const range = this.settings.spread === "range";
    const low = range ? curve.low : curve.mean.map((mean, place) => mean - curve.std[place]);
    const high = range ? curve.high : curve.mean.map((mean, place) => mean + curve.std[place]);
    const fill = { fill: "tonexty", fillcolor: clear(line.look.colour()) };
    return [{ ...PLAIN, x: curve.env_steps, y: low }, { ...PLAIN, x: curve.env_steps, y: high, ...fill }];
  }
}

/** The mean, solid where every seed is known and dashed where some are not. */
function means_of(line, curve) {
  const paint = line.look.colour();
  const texts = curve.mean.map((mean, place) => hover(curve, mean, place));
  const trace = {
    x: curve.env_steps,
    text: texts,
    type: "scatter",
    mode: curve.env_steps.length === 1 ? "lines+markers" : "lines",
    hovertemplate: `%{text}<extra>${escaped(line.name)}</extra>`,
    marker: { color: paint, size: 6 },
  };
  const width = line.single ? 1.3 : 2;
  const all = { color: paint, width, dash: line.look.dash };
  const whole = { ...trace, y: curve.mean.map((mean, place) => (curve.n[place] === curve.runs ? mean : null)), line: all };
  if (curve.n.every((n) => n === curve.runs)) return [whole];
  // A stretch of few seeds begins and ends at its neighbours, so that the line has no holes.
  const few = curve.n.map((n, place) => n < curve.runs || curve.n[place - 1] < curve.runs || curve.n[place + 1] < curve.runs);
  const part = { ...trace, y: curve.mean.map((mean, place) => (few[place] ? mean : null)), line: { ...all, dash: "dot" } };
  return [part, whole];
}

function hover(curve, mean, place) {
  if (curve.runs === 1) return number(mean);
  const range = `${number(mean)} (${number(curve.low[place])} … ${number(curve.high[place])})`;
  return `${range}, ${say("seeds_there", { n: curve.n[place], all: curve.runs })}`;
}
