// Which charts there are, and which lines of the history each of them has.

import { number, say, share } from "./words.js";

const MOST_NODES = 12; // lines of nodes

/** A line: where its numbers are, what it is called, and how it looks (`line` is a colour's number). */
function line(kind, column, name, look = {}) {
  return { kind, column, name, ...look };
}

function reward() {
  return [
    line("train", "rollout/return_last", say("each_episode"), { points: true, line: 0 }),
    line("train", "rollout/return_mean_10", say("mean_of", { n: 10 }), { line: 1, width: 1 }),
    line("train", "rollout/return_mean_50", say("mean_of", { n: 50 }), { line: 2, dash: 1 }),
    line("train", "rollout/return_mean", say("mean_of", { n: 100 }), { line: 3, width: 2.4 }),
  ];
}

function length() {
  return [
    line("train", "rollout/length_last", say("each_episode"), { points: true, line: 0 }),
    line("train", "rollout/length_mean", say("mean_of", { n: 100 }), { line: 1, width: 2 }),
  ];
}

/** Mean and deviation of each environment of evaluation; `eval/` is the run's own. */
function evaluation(history) {
  const names = history.evaluation.names.filter((name) => /^eval(uation\/.+)?\/return_mean$/.test(name));
  return names.map((column, place) => {
    const parts = column.split("/");
    const name = parts.length === 2 ? say("mean_std") : parts.slice(1, -1).join("/");
    const deviation = column.replace(/_mean$/, "_std");
    const look = { line: place + 1, dash: place, width: 2, points: "both", deviation };
    return line("evaluation", column, name, look);
  });
}

function losses(history) {
  const names = history.train.names.filter((name) => /^train\/.*loss/.test(name));
  const sides = names.includes("train/policy_loss") && names.length > 1;
  return names.map((column, place) => {
    const right = sides && column !== "train/policy_loss";
    const name = column.slice("train/".length).replaceAll("_", " ");
    return line("train", column, right ? `${name} →` : name, { line: place + 1, dash: place, right });
  });
}

function rates() {
  return [
    line("train", "time/env_steps_per_s", say("env_steps_per_s"), { line: 1 }),
    line("train", "time/updates_per_s", `${say("updates_per_s")} →`, { line: 2, dash: 1, right: true }),
  ];
}

function lag() {
  return [
    line("train", "scheduler/lag_beyond_round", say("lag_line"), { line: 1, width: 2 }),
    line("train", "scheduler/lag_beyond_max", say("largest"), { line: 2, dash: 1 }),
  ];
}

function ratio() {
  return [line("train", "replay/updates_per_env_step", say("updates_per_env_step"), { line: 1 })];
}

function waiting(history) {
  const nodes = history.nodes.names.filter((name) => !["env_steps", "time_s"].includes(name));
  const sides = [
    line("train", "waits/collecting", say("env_nodes"), { line: 1, width: 2.2 }),
    line("train", "waits/training", say("learner"), { line: 2, width: 2.2, dash: 1 }),
  ];
  const each = nodes.slice(0, MOST_NODES).map((name, place) => {
    return line("nodes", name, name, { line: (place % 6) + 3, dash: place, width: 1 });
  });
  return [...sides, ...each];
}

/**
 * The charts in their order: `lines` of a history, and `latest`, what stands beside the title.
 * `optional` ones are hidden until there is something to draw.
 */
export const PLOTS = [
  { id: "return", lines: reward, latest: (h) => h.train.last("rollout/return_mean") },
  { id: "evaluation", lines: evaluation, latest: (h) => h.evaluation.last("eval/return_mean") },
  { id: "length", lines: length, latest: (h) => h.train.last("rollout/length_mean") },
  { id: "losses", lines: losses },
  { id: "rates", lines: rates, latest: (h) => h.train.last("time/env_steps_per_s") },
  { id: "lag", lines: lag, latest: (h) => h.train.last("scheduler/lag_beyond_round") },
  { id: "ratio", lines: ratio, latest: (h) => h.train.last("replay/updates_per_env_step"), optional: true },
  { id: "waiting", lines: waiting, shares: true },
];

/** The newest value of a chart in a word, for its title. */
export function latest(plot, history) {
  const value = plot.latest?.(history);
  return Number.isFinite(value) ? (plot.shares ? share : number)(value) : "";
}
