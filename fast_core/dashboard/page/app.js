// The page: what the server says goes to its parts, what a person does goes to the server.

import { Charts } from "./charts.js";
import { save } from "./clip.js";
import { Connection } from "./connection.js";
import { find, make, mark, put, show, tell } from "./dom.js";
import { Grid } from "./grid.js";
import { applyTheme, banner, listenToChoice, listenToPreferences, refused, reveal, showChoice, showConnection, showPreferences } from "./head.js";
import { History } from "./history.js";
import { Help, listen } from "./keys.js";
import { Large } from "./large.js";
import { keep, language, settings } from "./settings.js";
import { Timeline } from "./timeline.js";
import { count, duration, fill, number, say, word } from "./words.js";

const EVENTS = 200; // that are kept
const TEXT = 3; // the kind of picture that is none
const LAYOUTS = ["auto", "classic", "one"];
const LOADS_MS = 1500; // that are waited for a picture, and again for a greeting

const page = { run: {}, fps: 5, paused: false, ended: null, now: {}, asked: "", lost: false, enlarged: null, next: 0, events: [] };
const history = new History();
const charts = new Charts(history, settings);
const timeline = new Timeline();
const help = new Help();
const grid = new Grid({ changed: watch, enlarge });
const large = new Large({ enlarge: (number) => enlarge(number, false), back });
const decoding = new Set(); // tiles and kinds whose picture is being decoded

const connection = new Connection({
  opened,
  closed,
  trying: () => page.lost && showConnection("connecting", say("retrying")),
  refused,
  picture,
  hello,
  now,
  rows: (message) => {
    history.append(message.kind, message.rows);
    charts.changed();
  },
  event: addEvent,
  end: (message) => end(message.text),
  insight: (message) => large.think(message),
});

function opened() {
  if (page.lost) tell(say("said_back"));
  page.lost = false;
  document.body.classList.remove("lost");
  showConnection("live", say("connected"));
}

function closed(wait) {
  if (!page.lost && page.run.name) tell(say("said_lost"));
  page.lost = true;
  page.next = performance.now() + wait;
  document.body.classList.add("lost");
  if (page.ended !== null) banner(endText());
  countDown();
}

function countDown() {
  const left = Math.ceil((page.next - performance.now()) / 1000);
  if (connection?.live || left <= 0) return;
  showConnection("lost", say("disconnected", { s: left }));
  setTimeout(countDown, 1000);
}

function hello(message) {
  const other = page.run.directory !== undefined && page.run.directory !== message.run.directory;
  Object.assign(page, { run: message.run, fps: message.fps, hello: message, ended: null, asked: "", enlarged: null });
  if (other) forget();
  page.played = message.frames && !message.run.running; // its policy plays anew
  document.body.classList.toggle("played", page.played);
  history.replace(message.history ?? {});
  if (message.events?.length) {
    find("events").replaceChildren();
    page.events.length = 0;
    message.events.forEach(addEvent);
  }
  grid.setTiles(message.tiles);
  if (large.open) enlarge(large.tile.number, false);
  banner("");
  if (!message.run.running) end(message.run.outcome ?? "", false);
  texts();
  charts.changed();
  charts.load();
  watch();
  setTimeout(unveil, message.frames && message.tiles.length ? LOADS_MS : 0);
}

function unveil() {
  grid.shown = true;
  reveal();
}

/** Another run is served at this address. */
function forget() {
  timeline.forget();
  find("events").replaceChildren();
  history.forget();
  grid.setTiles([]);
  back();
}

/** Texts that the run and the language decide. */
function texts() {
  const { run, hello } = page;
  document.title = run.name ? `${run.name} · FastLoop` : "FastLoop";
  put(find("run-name"), run.name ?? "FastLoop");
  const facts = [run.algorithm, run.environment, run.seed != null && `${say("seed")} ${run.seed}`, run.mode];
  put(find("run-facts"), facts.filter(Boolean).join(" · "));
  mark(find("run-facts"), "title", run.directory ?? "");
  show(find("no-frames"), Boolean(hello && !hello.frames));
  document.body.classList.toggle("past", Boolean(hello && !run.running && !hello.tiles.length));
  grid.element.classList.toggle("blind", Boolean(hello && !hello.frames));
  put(find("why-no-frames"), hello?.why_no_frames ?? "");
}

function now(message) {
  page.now = message;
  const { rates = {}, async = {} } = message;
  const phase = page.ended !== null ? "ended" : message.phase ?? "";
  put(find("phase"), word("phase", phase));
  mark(find("phase"), "data-phase", phase);
  put(find("elapsed"), duration(message.elapsed_s));
  put(find("env-steps"), count(message.env_steps));
  put(find("updates"), count(message.updates));
  put(find("env-rate"), count(rates.env_steps_per_s ?? rates.env_steps));
  put(find("update-rate"), number(rates.updates_per_s ?? rates.updates));
  for (const name of ["degree", "admitted", "merged", "trained"]) put(find(name), count(async[name]));
  put(find("lag-mean"), number(async.lag_mean));
  put(find("lag-max"), count(async.lag_max));
  if (page.paused) return;
  const over = page.ended !== null && message.tiles && !(page.played && connection.live);
  grid.update(over ? { ...message, tiles: message.tiles.map((tile) => ({ ...tile, state: "ended" })) } : message);
  large.update();
  timeline.add(message.nodes ?? [], performance.now());
  if (history.now(message)) charts.changed(["waiting"]);
}

/** Events may come by the hundred: they are put into the page together, before it is drawn. */
function addEvent(message) {
  page.events.push(message);
  if (page.events.length > 1) return;
  requestAnimationFrame(() => {
    const items = page.events.splice(0).slice(-EVENTS).map(eventItem);
    find("events").prepend(...items.reverse());
    while (find("events").children.length > EVENTS) find("events").lastChild.remove();
    show(find("no-events"), false);
  });
}

function eventItem(message) {
  const at = typeof message.at === "number" ? clock(message.at) : String(message.at ?? "");
  const item = make("li", "", { "data-kind": message.kind ?? "" }, make("time", "", {}, at), " ");
  item.append(make("b", "", {}, message.kind ?? ""), " ", make("span", "", {}, message.text ?? ""));
  return item;
}

/** Seconds of the run, or of the epoch, as a time. */
function clock(at) {
  if (at < 1e9) return duration(at);
  return new Date(at * 1000).toLocaleTimeString(language(), { hour12: false });
}

function end(text, aloud = true) {
  page.ended = text;
  banner(endText());
  now(page.now);
  if (aloud) tell(say("said_ended", { why: text }));
}

/** How the run ended, and where it can be seen once its server is gone. */
function endText() {
  const ended = page.ended ? `${say("ended")}: ${page.ended}` : say("ended");
  const text = page.played && !page.lost ? `${ended}\n${say("plays")}` : ended;
  return page.lost && page.run.directory ? `${text}\n${say("watch_again", { command: `fastloop watch ${page.run.directory}` })}` : text;
}

/** Show a picture, then say so: the server sends the next one of its tile only then. */
async function picture(message) {
  const key = `${message.tile}/${message.kind}`;
  if (page.paused || decoding.has(key)) return connection.send({ type: "ack", seq: message.seq });
  decoding.add(key);
  try {
    const screens = large.open ? large : grid;
    if (message.kind === TEXT) screens.write(await message.blob.text(), message);
    else await draw(screens, message);
  } catch {
    // a picture that is none: the next one may be
  }
  decoding.delete(key);
  unveil();
  connection.send({ type: "ack", seq: message.seq });
}

async function draw(screens, message) {
  const bitmap = await createImageBitmap(message.blob);
  screens.draw(bitmap, message);
  bitmap.close();
}

/** Ask for what can be seen, and for nothing else. */
function watch() {
  if (!page.hello) return;
  const seen = large.open ? [large.tile.number] : grid.visible;
  const tiles = document.hidden || page.paused || !page.hello.frames ? [] : seen;
  const mode = large.open ? "both" : settings.mode;
  const message = { type: "watch", tiles, fps: page.fps, mode };
  const text = JSON.stringify(message);
  if (!connection.live) return;
  const enlarged = large.open && tiles.length ? large.tile.number : null;
  if (enlarged !== page.enlarged) connection.send({ type: "enlarge", tile: enlarged });
  page.enlarged = enlarged;
  if (text !== page.asked) connection.send(message);
  page.asked = text;
}

function enlarge(number, focus = true) {
  const tile = grid.tile(number);
  if (!tile && number !== null && large.open) return;
  large.set(tile ?? null, grid.tiles);
  show(grid.element, !large.open);
  if (tile) grid.choose(number);
  showChoices();
  watch();
  if (tile && focus) find("back").focus({ preventScroll: true });
}

function back() {
  if (!large.open) return false;
  const { number } = large.tile;
  large.set(null, []);
  show(grid.element, true);
  showChoices();
  grid.arrange();
  grid.focus(number);
  watch();
  return true;
}

function setLayout(layout) {
  if (layout === "one") return enlarge(grid.chosen, false);
  keep("layout", layout);
  grid.reshape();
  grid.setLayout(layout);
  back();
  showChoices();
}

function setMode(mode) {
  keep("mode", mode);
  grid.reshape();
  showChoices();
  watch();
}

function pause() {
  page.paused = !page.paused;
  tell(say(page.paused ? "said_paused" : "said_going_on"));
  showChoices();
  if (!page.paused) now(page.now);
  watch();
}

/** Every switch shows what is chosen. */
function showChoices() {
  const layout = large.open ? "one" : settings.layout;
  show(find("modes"), !large.open); // the large one shows both
  showChoice("layouts", "layout", layout);
  showChoice("modes", "mode", settings.mode);
  showChoice("axes", "axis", settings.axis);
  mark(find("pause"), "aria-pressed", page.paused);
  put(find("pause"), say(page.paused ? "go_on" : "pause"));
  document.body.classList.toggle("paused", page.paused);
  showPreferences();
}

function setTheme(chosen) {
  applyTheme(chosen);
  showChoices();
  charts.changed();
  timeline.draw();
  if (large.open) large.insight.draw();
}

function setLanguage(chosen) {
  keep("language", chosen);
  fill(document);
  help.fill();
  grid.rename();
  large.rename();
  texts();
  showChoices();
  if (page.now.nodes) now(page.now);
  if (page.ended !== null) banner(endText());
  if (connection.live) showConnection("live", say("connected"));
  charts.changed();
  timeline.draw();
}

function clip() {
  const tile = large.tile ?? grid.tile(grid.chosen);
  if (!tile) return false;
  if (!large.open) enlarge(tile.number, false);
  save(tile, settings.format, page.run.name ?? "run");
  return true;
}

function begin() {
  applyTheme(null);
  setTimeout(unveil, 2 * LOADS_MS);
  show(find("all-runs"), /\/run\/[^/]+\/$/.test(location.pathname)); // one of a folder's
  fill(document);
  grid.setLayout(settings.layout);
  find("clip-format").value = settings.format;
  showConnection("connecting", say("connecting"));
  showChoices();
  texts();
  find("pause").addEventListener("click", pause);
  listenToPreferences(setTheme, setLanguage);
  find("open-help").addEventListener("click", () => help.open());
  find("clip").addEventListener("click", clip);
  find("clip-format").addEventListener("change", (event) => keep("format", event.target.value));
  listenToChoice("layouts", "layout", setLayout);
  listenToChoice("modes", "mode", setMode);
  listenToChoice("axes", "axis", (axis) => {
    keep("axis", axis);
    showChoices();
    charts.changed();
  });
  document.addEventListener("visibilitychange", watch);
  listen({
    pause,
    mode: () => setMode(settings.mode === "rgb" ? "obs" : "rgb"),
    layout: () => setLayout(LAYOUTS[(LAYOUTS.indexOf(large.open ? "one" : settings.layout) + 1) % LAYOUTS.length]),
    clip,
    help: () => help.open(),
    back,
    enlarge: () => (large.open ? false : enlarge(grid.chosen)),
    choose: (place) => (large.open ? enlarge(place, false) : grid.focus(place)),
    move: (across, down) => move(across, down),
  });
}

/** Arrows go between tiles; up and down scroll the page, unless a tile has the keyboard. */
function move(across, down) {
  const at = document.activeElement;
  if (at.closest(".tile")) return grid.move(across, down);
  if (down || (at !== document.body && !at.closest("#screens"))) return false;
  return large.open ? enlarge(large.tile.number + across, false) : grid.move(across, 0);
}

begin();
