// The numbers behind the charts: columns that grow, and as many points as can be seen.

const LONGEST = 6000; // rows; beyond it every second one of the older half goes

/** Rows as columns; a value that a row lacks is null. */
export class Columns {
  constructor(columns = {}) {
    this.columns = new Map(Object.entries(columns));
    this.length = Object.values(columns)[0]?.length ?? 0;
  }

  get names() {
    return [...this.columns.keys()];
  }

  get(name) {
    return this.columns.get(name) ?? [];
  }

  has(name) {
    return this.get(name).some(Number.isFinite);
  }

  last(name) {
    return this.get(name).findLast(Number.isFinite);
  }

  append(row) {
    for (const [name, value] of Object.entries(row)) {
      if (typeof value !== "number" || this.columns.has(name)) continue;
      this.columns.set(name, new Array(this.length).fill(null));
    }
    for (const [name, values] of this.columns) values.push(typeof row[name] === "number" ? row[name] : null);
    this.length += 1;
    if (this.length > LONGEST) this.halve();
  }

  halve() {
    const half = this.length >> 1;
    for (const [name, values] of this.columns) {
      this.columns.set(name, values.filter((_, place) => place >= half || place % 2 === 0));
    }
    this.length = Math.max(...[...this.columns.values()].map((values) => values.length));
  }
}

/** At most about `limit` points, the lowest and highest of each stretch among them. */
export function thinned(xs, ys, limit) {
  const points = [];
  const length = Math.min(xs.length, ys.length);
  for (let place = 0; place < length; place += 1) {
    if (Number.isFinite(xs[place]) && Number.isFinite(ys[place])) points.push(place);
  }
  let kept = points;
  if (points.length > limit) {
    kept = [];
    const stretch = points.length / (limit / 2);
    for (let from = 0; from < points.length; from += stretch) {
      const part = points.slice(Math.floor(from), Math.floor(from + stretch));
      if (!part.length) continue;
      const low = part.reduce((best, each) => (ys[each] < ys[best] ? each : best));
      const high = part.reduce((best, each) => (ys[each] > ys[best] ? each : best));
      kept.push(...(low === high ? [low] : [Math.min(low, high), Math.max(low, high)]));
    }
    if (kept.at(-1) !== points.at(-1)) kept.push(points.at(-1));
  }
  return { x: kept.map((place) => xs[place]), y: kept.map((place) => ys[place]) };
}
