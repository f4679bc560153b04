// What the tables of runs and of configurations show of each.

import { make, mark, put, show } from "./dom.js";
import { count, duration, number, say, word } from "./words.js";

/** The part of a cell with this class, made at the first call. */
function part(cell, tag, classes) {
  return cell.querySelector(`:scope > .${classes}`) ?? cell.appendChild(make(tag, classes));
}

/** A column of text or of numbers. */
function plain(key, value, shown, more = {}) {
  return { key, value, fill: (cell, record) => put(cell, shown(record)), ...more };
}

/** The box that draws a record, with the line that it is drawn by. */
function drawColumn(drawn, toggle) {
  return {
    key: "draw",
    fixed: true,
    classes: "drawn",
    value: () => 0,
    fill: (cell, record) => {
      if (!cell.firstChild) {
        const box = make("input", "", { type: "checkbox" });
        box.addEventListener("change", () => toggle(record.id, box));
        cell.append(make("label", "", {}, box, make("span", "stroke", { "aria-hidden": "true" })));
      }
      const [box, stroke] = cell.firstChild.children;
      const look = drawn(record.id);
      box.checked = Boolean(look);
      mark(box, "aria-label", say("draw_it", { name: record.name }));
      stroke.style.borderTopColor = look ? look.colour() : "transparent";
      stroke.style.borderTopStyle = look?.style ?? "solid";
    },
  };
}

function fillName(cell, run) {
  const link = part(cell, "a", "run-link");
  put(link, run.name);
  mark(link, "href", `run/${run.id}/`);
  const facts = [run.algorithm, run.environment, run.seed !== null && `${say("seed")} ${run.seed}`];
  put(part(cell, "span", "sub"), facts.filter(Boolean).join(" · "));
}

function fillState(cell, run) {
  const state = part(cell, "span", "run-state");
  put(state, word("state", run.state));
  mark(state, "data-run-state", run.state);
  const live = part(cell, "a", "live");
  show(live, Boolean(run.live));
  if (run.live) {
    put(live, say("live"));
    for (const [name, value] of Object.entries({ href: run.live, rel: "noreferrer", target: "_blank" })) mark(live, name, value);
    mark(live, "aria-label", say("live_label", { name: run.name }));
  } else live.removeAttribute("href");
  const stopped = ["failed", "interrupted"].includes(run.state);
  const facts = [
    run.state !== "running" && run.state !== "finished" && run.text,
    run.comebacks > 0 && say("came_back", { n: run.comebacks }),
    stopped && run.resumable && say("resumable"),
  ];
  put(part(cell, "span", "why"), facts.filter(Boolean).join("; "));
}

/** Seconds since a run began, by the server's clock. */
function age(run, now) {
  return run.began === null ? null : Math.max(now() - run.began, 0);
}

/** Columns of the table of runs; `drawn(id)` is how it is drawn, if it is. */
export function runColumns({ drawn, toggle, now }) {
  return [
    drawColumn(drawn, toggle),
    { key: "run", head: true, value: (run) => run.name, fill: fillName },
    { key: "state", value: (run) => run.state, fill: fillState },
    plain("algorithm", (run) => run.algorithm, (run) => run.algorithm || "–", { classes: "wide" }),
    plain("environment", (run) => run.environment, (run) => run.environment || "–", { classes: "wide" }),
    plain("seed", (run) => run.seed, (run) => (run.seed === null ? "–" : String(run.seed)), { classes: "wide number" }),
    plain("env_steps", (run) => run.env_steps, (run) => count(run.env_steps), { classes: "number", descending: true }),
    plain("best", (run) => run.best, (run) => number(run.best ?? NaN), { classes: "number", descending: true }),
    plain("last", (run) => run.last, (run) => number(run.last ?? NaN), { classes: "wide number", descending: true }),
    plain("age", (run) => age(run, now), (run) => duration(age(run, now) ?? NaN), { classes: "number" }),
  ];
}

function fillGroup(cell, group) {
  put(part(cell, "span", "group-name"), group.name);
  put(part(cell, "span", "sub"), [group.algorithm, group.environment].filter(Boolean).join(" · "));
}

/** Mean, lowest and highest of what the seeds reached. */
function reached(group) {
  if (!group.bests.length) return "–";
  const mean = group.bests.reduce((sum, each) => sum + each, 0) / group.bests.length;
  if (group.bests.length === 1) return number(mean);
  return `${number(mean)} (${number(Math.min(...group.bests))} … ${number(Math.max(...group.bests))})`;
}

function standing(group) {
  return Object.entries(group.states)
    .map(([state, n]) => `${n} ${word("state", state)}`)
    .join(say("joiner"));
}

/** Columns of the table of configurations. */
export function groupColumns({ drawn, toggle, now }) {
  const mean = (group) => (group.bests.length ? group.bests.reduce((sum, each) => sum + each, 0) / group.bests.length : null);
  return [
    drawColumn(drawn, toggle),
    { key: "configuration", head: true, value: (group) => group.name, fill: fillGroup },
    plain("algorithm", (group) => group.algorithm, (group) => group.algorithm, { classes: "wide" }),
    plain("environment", (group) => group.environment, (group) => group.environment, { classes: "wide" }),
    plain("seeds", (group) => group.seeds, (group) => count(group.seeds), { classes: "number", descending: true }),
    plain("state", standing, standing),
    plain("best_over", mean, reached, { classes: "number", descending: true }),
    plain("age", (group) => age(group, now), (group) => duration(age(group, now) ?? NaN), { classes: "wide number" }),
  ];
}
