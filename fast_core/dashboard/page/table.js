// A table of records that come, change and go: sorted by any column, and drawn only where it changed.

import { make, mark, put } from "./dom.js";
import { say } from "./words.js";

const FIRST = 200; // rows that are shown until all are asked for
const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Unknown values come last, whichever way it is sorted. */
function compared(first, second, sign) {
  const [no, none] = [first === null || first === undefined, second === null || second === undefined];
  if (no || none) return no - none;
  if (typeof first === "string") return sign * order.compare(first, second);
  return sign * (first - second);
}

/**
 * `columns` have `key` (a word), `value(record)` to sort by, `fill(cell, record)`, and maybe
 * `classes`, `descending` (at the first press), `head` (it names the row), `fixed` (not sorted by).
 */
export class Table {
  constructor(place, { columns, label, sort, sorted }) {
    Object.assign(this, { columns, label, sort, sorted, all: false, rows: new Map(), records: [] });
    this.caption = make("caption", "unseen");
    this.body = make("tbody", "", { role: "rowgroup" });
    this.heads = columns.map((column) => this.headOf(column));
    const heads = make("thead", "", { role: "rowgroup" }, make("tr", "", { role: "row" }, ...this.heads));
    // The roles are said because a narrow page lays the rows out as cards.
    const table = make("table", "", { role: "table" }, this.caption, heads, this.body);
    this.empty = make("p", "empty");
    this.more = make("button", "more", { type: "button" });
    this.more.addEventListener("click", () => {
      this.all = true;
      this.draw();
    });
    place.append(make("div", "scroll", {}, table), this.empty, this.more);
    this.name();
  }

  headOf(column) {
    const head = make("th", column.classes ?? "", { scope: "col", role: "columnheader" });
    if (column.fixed) {
      head.append(make("span", "unseen"));
      return head;
    }
    const button = make("button", "", { type: "button" });
    button.addEventListener("click", () => this.sortBy(column));
    head.append(button);
    return head;
  }

  sortBy(column) {
    const same = this.sort.key === column.key;
    this.sort = { key: column.key, down: same ? !this.sort.down : Boolean(column.descending) };
    this.sorted(this.sort);
    this.name();
    this.draw();
  }

  /** Texts in the language in force. */
  name() {
    this.columns.forEach((column, place) => put(this.heads[place].firstChild, say(column.key)));
    const way = say(this.sort.down ? "descending" : "ascending");
    put(this.caption, say(this.label, { column: `${say(this.sort.key)}, ${way}` }));
    this.columns.forEach((column, place) => {
      const chosen = column.key === this.sort.key;
      if (chosen) mark(this.heads[place], "aria-sort", this.sort.down ? "descending" : "ascending");
      else this.heads[place].removeAttribute("aria-sort");
    });
  }

  /** Show these records, each with an `id`; `empty` says why there are none. */
  show(records, empty = "") {
    this.records = records;
    put(this.empty, records.length ? "" : empty);
    this.draw();
  }

  draw() {
    const column = this.columns.find((each) => each.key === this.sort.key) ?? this.columns[1];
    const sign = this.sort.down ? -1 : 1;
    const keyed = this.records.map((record) => ({ record, by: column.value(record) }));
    keyed.sort((one, other) => compared(one.by, other.by, sign) || order.compare(one.record.name, other.record.name));
    const shown = this.all ? keyed : keyed.slice(0, FIRST);
    const rows = shown.map(({ record }) => this.rowOf(record));
    const kept = new Set(rows);
    for (const [id, row] of this.rows) {
      if (kept.has(row)) continue;
      row.remove();
      this.rows.delete(id);
    }
    // Only what stands elsewhere is moved, so that the keyboard's place is kept.
    rows.forEach((row, place) => {
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
    });
    this.more.hidden = shown.length === keyed.length;
    put(this.more, say("show_all", { n: keyed.length }));
  }

  rowOf(record) {
    let row = this.rows.get(record.id);
    if (!row) {
      row = make("tr", "", { "data-id": record.id, role: "row" });
      for (const column of this.columns) {
        const head = { scope: "row", role: "rowheader" };
        row.append(make(column.head ? "th" : "td", column.classes ?? "", column.head ? head : { role: "cell" }));
      }
      this.rows.set(record.id, row);
    }
    this.columns.forEach((column, place) => {
      const cell = row.children[place];
      column.fill(cell, record);
      if (column.classes?.includes("number")) mark(cell, "data-label", say(column.key));
    });
    return row;
  }
}
