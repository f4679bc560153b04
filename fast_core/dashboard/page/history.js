// All rows of the run that the page has: what the server knew before, and what came since.

import { Columns } from "./series.js";

const KINDS = ["train", "evaluation"];
const SIDES = ["collecting", "training"];
const NODES_MS = 1000; // between two points of what nodes wait

export class History {
  constructor() {
    this.forget();
  }

  forget() {
    this.nodes = new Columns();
    this.nodesAt = -Infinity;
    this.replace({});
  }

  /** Take the history of a greeting; what nodes waited is known to the page alone, and stays. */
  replace(columns) {
    for (const kind of KINDS) this[kind] = new Columns(columns[kind]);
    this.sums = null;
    const { train } = this;
    const sums = SIDES.flatMap((side) => [`time/${side}_s`, `time/${side}_waits_s`]);
    const at = (place) => Object.fromEntries(sums.map((name) => [name, train.get(name)[place]]));
    const shares = Array.from({ length: train.length }, (_, place) => this.waits(at(place)));
    for (const name of SIDES.map((side) => `waits/${side}`)) train.columns.set(name, shares.map((each) => each[name] ?? null));
  }

  append(kind, rows) {
    for (const row of rows) this[kind].append(kind === "train" ? { ...row, ...this.waits(row) } : row);
  }

  /** Shares of waiting since the row before, from the sums that rows have. */
  waits(row) {
    const sums = {};
    const shares = {};
    for (const side of SIDES) {
      const [busy, waits] = [row[`time/${side}_s`], row[`time/${side}_waits_s`]];
      if (!Number.isFinite(busy) || !Number.isFinite(waits)) continue;
      sums[side] = { busy, waits };
      const before = this.sums?.[side];
      const waited = before ? waits - before.waits : 0;
      const all = before ? busy - before.busy + waited : 0;
      if (all > 0) shares[`waits/${side}`] = waited / all;
    }
    if (Object.keys(sums).length) this.sums = sums;
    return shares;
  }

  /** Take what nodes wait now; returns whether it is a new point. */
  now(message) {
    const at = performance.now();
    if (at - this.nodesAt < NODES_MS || !message.nodes?.length) return false;
    this.nodesAt = at;
    const shares = message.nodes.map((node) => [node.name, node.waiting_share]);
    const where = { env_steps: message.env_steps, time_s: message.elapsed_s };
    this.nodes.append({ ...where, ...Object.fromEntries(shares) });
    return true;
  }
}
