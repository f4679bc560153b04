// What is drawn, by which line, and its curves, which are fetched as the runs grow.

import { colour } from "./dom.js";

const COLOURS = 8;
const STYLES = ["solid", "dashed"]; // dots are for where seeds are missing
const DASHES = ["solid", "dash"]; // as plotly calls them
const MOST = COLOURS * STYLES.length; // lines that can be told apart
const EACH_MS = 3000; // between two fetches of a curve that grows

/** The groups and runs that are drawn. `changed` is called when curves have come. */
export class Drawn {
  constructor(folder, { changed }) {
    Object.assign(this, { folder, changed, most: MOST });
    this.known = new Map(); // id -> {look, curves, version}
    this.metric = ""; // that is drawn beside the returns
    this.fetching = false;
    this.timer = 0;
  }

  /** Draw this metric, too; none if it is empty. */
  choose(metric) {
    this.metric = metric;
    clearTimeout(this.timer);
    this.timer = 0;
    this.refresh();
  }

  /** Every metric of what is drawn. */
  get metrics() {
    return [...new Set([...this.known.values()].flatMap((each) => each.curves?.metrics ?? []))].sort();
  }

  get ids() {
    return [...this.known.keys()];
  }

  look(id) {
    return this.known.get(id)?.look;
  }

  set(ids) {
    for (const id of this.ids) if (!ids.includes(id)) this.known.delete(id);
    for (const id of ids.slice(0, MOST)) this.put(id);
  }

  /** Draw it or don't; false where there are as many as can be told apart. */
  toggle(id) {
    if (this.known.delete(id)) return true;
    if (this.known.size >= MOST) return false;
    this.put(id);
    this.refresh();
    return true;
  }

  put(id) {
    if (this.known.has(id)) return;
    const taken = new Set([...this.known.values()].map((each) => each.look.number));
    let number = 0;
    while (taken.has(number)) number += 1;
    const look = {
      number,
      colour: () => colour(`line-${(number % COLOURS) + 1}`),
      dash: DASHES[Math.floor(number / COLOURS)],
      style: STYLES[Math.floor(number / COLOURS)],
    };
    this.known.set(id, { look, curves: null, version: "" });
  }

  /** Fetch the curves of what has changed since they were fetched; drop what is no more. */
  refresh() {
    for (const id of this.ids) if (!this.record(id)) this.known.delete(id);
    if (this.timer || this.fetching) return;
    if (this.due().length) this.fetch();
  }

  due() {
    return this.ids.filter((id) => this.known.get(id).version !== this.version(id));
  }

  record(id) {
    return this.folder.groups.find((group) => group.id === id) ?? this.folder.runs.get(id);
  }

  version(id) {
    const record = this.record(id);
    return `${this.metric} ${record?.version ?? `${record?.state} ${record?.env_steps} ${record?.last}`}`;
  }

  async fetch() {
    this.fetching = true;
    const wanted = this.due().map((id) => [id, this.version(id)]);
    const query = new URLSearchParams([["metric", this.metric], ...wanted.map(([id]) => ["id", id])]);
    try {
      const answer = await fetch(`api/curves?${query}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const found = await answer.json();
      for (const [id, version] of wanted) {
        const known = this.known.get(id);
        if (known && found[id]) Object.assign(known, { curves: found[id], version });
      }
      this.changed();
    } catch {
      // the next news brings another try
    }
    this.fetching = false;
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.refresh();
    }, EACH_MS);
  }

  /** The lines as `SeedCurves` draws them. */
  lines() {
    return this.ids.map((id) => {
      const { look, curves } = this.known.get(id);
      const record = this.record(id);
      return { id, name: record.name, environment: record.environment || "–", look, single: this.folder.runs.has(id), ...curves };
    });
  }
}
