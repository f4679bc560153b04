// The charts: drawn by plotly, only where they are seen, and within a share of the browser's time.

import { colour, find, make, put, show } from "./dom.js";
import { CONFIG, DASHES, clear, escaped, layout, load } from "./plotly_use.js";
import { PLOTS, latest } from "./plots.js";
import { thinned } from "./series.js";
import { say } from "./words.js";

const POINTS = 400; // of a line, at most
const EACH_MS = 1000; // between two drawings of a chart
const SHARE = 0.1; // of the browser's time, for all charts together
const FIRST_SHARE = 0.5; // likewise, until each has been drawn once
const HEIGHT = 176;

export class Charts {
  constructor(history, settings) {
    this.history = history;
    this.settings = settings;
    this.plotly = null;
    this.freeAt = 0;
    this.charts = PLOTS.map((plot) => this.chart(plot));
    const watcher = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "100px" });
    const sizes = new ResizeObserver(() => this.changed());
    for (const chart of this.charts) {
      watcher.observe(chart.box);
      sizes.observe(chart.area);
    }
    setInterval(() => this.draw(), 250);
  }

  chart(plot) {
    const title = make("h3", "", { "data-word": `chart_${plot.id}` }, say(`chart_${plot.id}`));
    const figure = make("span", "latest");
    const area = make("div", "plot");
    const empty = make("p", "empty", { "data-word": "no_points" }, say("no_points"));
    const box = make("figure", "chart", { "data-chart": plot.id });
    box.append(make("figcaption", "", {}, title, figure), area, empty);
    box.hidden = Boolean(plot.optional);
    find("chart-grid").append(box);
    return { plot, box, area, empty, figure, due: true, inView: !plot.optional, drawnAt: -Infinity };
  }

  seen(entries) {
    for (const entry of entries) {
      const chart = this.charts.find((each) => each.box === entry.target);
      chart.inView = entry.isIntersecting;
    }
  }

  async load() {
    this.plotly ??= await load();
    this.changed();
  }

  /** All charts, or those named, have something new to draw. */
  changed(ids = null) {
    for (const chart of this.charts) {
      if (ids && !ids.includes(chart.plot.id)) continue;
      const any = this.lines(chart).length > 0;
      chart.due = true;
      show(chart.empty, !any);
      if (chart.plot.optional && any) show(chart.box, true);
    }
  }

  /** Draw the chart that has waited longest, if there is time for it. */
  draw() {
    const now = performance.now();
    if (!this.plotly || document.hidden || now < this.freeAt) return;
    const ready = this.charts.filter((chart) => chart.due && chart.inView && now - chart.drawnAt >= EACH_MS);
    if (!ready.length) return;
    const chart = ready.reduce((first, each) => (each.drawnAt < first.drawnAt ? each : first));
    const part = Number.isFinite(chart.drawnAt) ? SHARE : FIRST_SHARE;
    chart.due = false;
    chart.drawnAt = now;
    this.plot(chart);
    this.freeAt = performance.now() + (performance.now() - now) / part;
  }

  lines(chart) {
    return chart.plot.lines(this.history).filter((line) => this.history[line.kind].has(line.column));
  }

  plot(chart) {
    const lines = this.lines(chart);
    put(chart.figure, latest(chart.plot, this.history));
    if (lines.length === 0) {
      if (chart.area.hasChildNodes()) this.plotly.purge(chart.area);
      return;
    }
    const traces = lines.flatMap((line) => this.traces(line));
    const unit = this.unit();
    if (unit.divisor !== 1) {
      for (const trace of traces) trace.x = trace.x.map((x) => x / unit.divisor);
    }
    this.plotly.react(chart.area, traces, this.layout(chart, lines, unit), CONFIG);
  }

  /** Env steps, or time in a unit in which it is read easily. */
  unit() {
    if (this.settings.axis === "env_steps") return { name: "env_steps", divisor: 1, suffix: "" };
    const longest = this.history.train.last("time_s") ?? 0;
    if (longest > 7200) return { name: "h", divisor: 3600, suffix: " h" };
    return longest > 300 ? { name: "min", divisor: 60, suffix: " min" } : { name: "s", divisor: 1, suffix: " s" };
  }

  traces(line) {
    const xs = this.history[line.kind].get(this.settings.axis);
    const { x, y } = thinned(xs, this.history[line.kind].get(line.column), POINTS);
    const paint = line.line === 0 ? colour("faint") : colour(`line-${((line.line - 1) % 8) + 1}`);
    const trace = {
      x,
      y,
      name: line.name,
      type: "scatter",
      mode: line.points === true ? "markers" : line.points || x.length === 1 ? "lines+markers" : "lines",
      line: { color: paint, width: line.width ?? 1.5, dash: DASHES[(line.dash ?? 0) % DASHES.length] },
      marker: { color: paint, size: line.points === true ? 3 : 5 },
      yaxis: line.right ? "y2" : "y",
      hovertemplate: `%{y:.4~g}<extra>${escaped(line.name)}</extra>`,
    };
    return line.deviation ? [...this.band(line, xs, paint), trace] : [trace];
  }

  /** The mean plus and minus the deviation, as a band. */
  band(line, xs, paint) {
    const rows = this.history[line.kind];
    const [means, deviations] = [rows.get(line.column), rows.get(line.deviation)];
    const edge = (sign) => means.map((mean, place) => (Number.isFinite(deviations[place]) ? mean + sign * deviations[place] : null));
    const look = { type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, line: { width: 0 } };
    const low = { ...look, ...thinned(xs, edge(-1), POINTS) };
    const high = { ...look, ...thinned(xs, edge(1), POINTS), fill: "tonexty", fillcolor: clear(paint) };
    return [low, high];
  }

  layout(chart, lines, unit) {
    const right = lines.some((line) => line.right);
    const axes = {
      xaxis: { tickformat: unit.name === "env_steps" ? "~s" : "~g", ticksuffix: unit.suffix, nticks: 6 },
      yaxis: { nticks: 5, ...(chart.plot.shares ? { range: [0, 1], tickformat: ".0%" } : {}) },
      yaxis2: { overlaying: "y", side: "right", showgrid: false, nticks: 5 },
    };
    return layout(chart.area, axes, {
      height: HEIGHT,
      margin: { l: 44, r: right ? 44 : 10, t: 22, b: 24 },
      showlegend: lines.length > 1 || Boolean(lines[0].deviation),
      legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { size: 10 }, bgcolor: "transparent" },
      uirevision: unit.name,
    });
  }
}
