// The page of all runs of a folder: asks what has changed, and shows it.

import "./overview_words.js";
import { find, make, mark, put, show, tell } from "./dom.js";
import { Drawn } from "./drawn.js";
import { Folder } from "./folder.js";
import { applyTheme, banner, listenToChoice, listenToPreferences, refused, reveal, showChoice, showConnection, showPreferences } from "./head.js";
import { groupColumns, runColumns } from "./run_columns.js";
import { SeedCurves } from "./seed_curves.js";
import { keep, settings } from "./settings.js";
import { showSweeps } from "./sweep_list.js";
import { Table } from "./table.js";
import { fill, say } from "./words.js";

const STATES = ["running", "finished", "failed", "interrupted", "unknown"];
const LOADS_MS = 3000; // that are waited for the first news
const CHOSEN = 6; // configurations that are drawn at first

const kept = new URLSearchParams(location.hash.slice(1));
const page = { filter: kept.get("q") ?? "", state: kept.get("state") ?? "", sort: kept.get("sort") ?? "age", metric: kept.get("metric") ?? "", chosen: kept.has("draw") };
const folder = new Folder({ changed, connection: showConnection, refused });
const curves = new SeedCurves(settings);
const drawn = new Drawn(folder, { changed: drawAgain });
const shared = { drawn: (id) => drawn.look(id), toggle, now: () => folder.now };
const runs = new Table(find("runs-table"), { columns: runColumns(shared), label: "runs_label", sort: sorting(page.sort), sorted });
const groups = new Table(find("groups"), {
  columns: groupColumns(shared),
  label: "groups_label",
  sort: { key: "age", down: false },
  sorted: () => {},
});

function sorting(text) {
  return { key: text.replace(/^-/, ""), down: text.startsWith("-") };
}

function sorted({ key, down }) {
  page.sort = `${down ? "-" : ""}${key}`;
  remember();
}

/** What is shown stands in the address, so that it is there again after a reload. */
function remember() {
  const values = { q: page.filter, state: page.state, sort: page.sort, metric: page.metric };
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  if (page.chosen) query.set("draw", drawn.ids.join(" "));
  history.replaceState(null, "", `#${query}`);
}

/** News of the folder. */
function changed({ whole, come, ended }) {
  if (!page.chosen) drawn.set(newest());
  else if (whole) drawn.set(kept.get("draw")?.split(" ").filter(Boolean) ?? drawn.ids);
  kept.delete("draw");
  drawn.refresh();
  if (!whole && come) tell(say("said_new", { n: come }));
  for (const run of whole ? [] : ended.slice(0, 3)) tell(say("said_state", { name: run.name, state: say(`state_${run.state}`) }));
  draw();
  setTimeout(reveal); // after the curves' places are there
}

/** The configurations that were launched last, of the newest one's environment. */
function newest() {
  const found = folder.groups.toSorted((one, other) => (other.began ?? 0) - (one.began ?? 0));
  return found.filter((group) => group.environment === found[0].environment).slice(0, CHOSEN).map((group) => group.id);
}

function toggle(id, box) {
  page.chosen = true;
  if (!drawn.toggle(id)) {
    box.checked = false;
    tell(say("too_many", { n: drawn.most }));
    banner(say("too_many", { n: drawn.most }));
    return;
  }
  banner("");
  remember();
  draw();
}

function matches(record) {
  if (page.state && !(record.states ? record.states[page.state] : record.state === page.state)) return false;
  const words = page.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((each) => record.text_to_find.includes(each));
}

function draw() {
  const every = [...folder.runs.values()];
  const found = every.filter(matches);
  const ids = new Set(found.map((run) => run.group));
  const alike = folder.groups.filter((group) => ids.has(group.id));
  put(find("matching"), found.length === every.length ? "" : say("matching", { n: found.length, all: every.length }));
  const empty = say(every.length ? "no_match" : "no_runs");
  groups.show(alike, empty);
  runs.show(found, empty);
  show(find("draw-none"), drawn.ids.length > 0);
  showSweeps(folder.sweeps, filterBy);
  showStates(every);
  drawAgain();
}

function drawAgain() {
  curves.set(drawn.lines(), page.metric);
  showMetrics();
}

/** The metrics to choose from: those of what is drawn. */
function showMetrics() {
  const names = [...new Set([page.metric, ...drawn.metrics])].filter(Boolean).sort();
  const choices = [["", say("no_metric")], ...names.map((name) => [name, name])];
  const text = JSON.stringify(choices);
  if (find("metric").dataset.choices === text) return; // it may be open
  find("metric").dataset.choices = text;
  find("metric").replaceChildren(...choices.map(([value, name]) => make("option", "", { value }, name)));
  find("metric").value = page.metric;
}

function showStates(every) {
  const figures = STATES.map((state) => [state, every.filter((run) => run.state === state).length]);
  const shown = figures.filter(([, n]) => n > 0);
  find("states").replaceChildren(
    ...shown.map(([state, n]) => make("div", "", {}, make("dt", "", {}, say(`state_${state}`)), make("dd", "", { "data-run-state": state }, String(n)))),
  );
  const title = folder.folder.split("/").filter(Boolean).at(-1) ?? "";
  document.title = title ? `${title} · FastLoop` : "FastLoop";
  put(find("folder"), folder.folder);
}

function filterBy(text) {
  page.filter = text;
  find("filter").value = text;
  remember();
  draw();
}

/** Every text, in the language in force. */
function texts() {
  fill(document);
  mark(find("filter"), "placeholder", say("filter_hint"));
  const choices = [["", say("every_state")], ...STATES.map((state) => [state, say(`state_${state}`)])];
  find("state").replaceChildren(...choices.map(([value, text]) => make("option", "", { value }, text)));
  find("state").value = page.state;
  runs.name();
  groups.name();
  showChoices();
  draw();
}

function showChoices() {
  showChoice("spreads", "spread", settings.spread);
  showPreferences();
}

function setTheme(chosen) {
  applyTheme(chosen);
  showChoices();
  draw();
}

function setLanguage(chosen) {
  keep("language", chosen);
  texts();
  folder.say();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !event.target.closest("input, select")) {
    event.preventDefault();
    find("filter").focus();
  }
}

function begin() {
  applyTheme(null);
  find("filter").value = page.filter;
  texts();
  for (const name of ["filter", "state"]) {
    find(name).addEventListener("input", (event) => {
      page[name] = event.target.value;
      remember();
      draw();
    });
  }
  drawn.choose(page.metric);
  find("metric").addEventListener("change", (event) => {
    page.metric = event.target.value;
    drawn.choose(page.metric);
    remember();
    drawAgain();
  });
  find("draw-none").addEventListener("click", () => {
    page.chosen = true;
    drawn.set([]);
    remember();
    draw();
  });
  listenToChoice("spreads", "spread", (spread) => {
    keep("spread", spread);
    showChoices();
    curves.soon();
  });
  listenToPreferences(setTheme, setLanguage);
  document.addEventListener("keydown", keys);
  setInterval(() => document.hidden || runs.draw(), 10_000); // ages
  folder.begin();
  setTimeout(reveal, LOADS_MS);
}

begin();
