// What is known of the folder: asks the server what has changed, again and again.

import { count, number, say } from "./words.js";

const EACH_MS = 2000;
const LONGEST_WAIT_MS = 10_000;

/**
 * Runs by id, groups of them and sweeps, as the server tells of them.
 *
 * `on` has `changed(news)`, `connection(state, text)` and `refused(status, text)`.
 */
export class Folder {
  constructor(on) {
    Object.assign(this, { on, runs: new Map(), groups: [], sweeps: [], folder: "", mark: "" });
    this.failures = 0;
    this.behind = 0; // seconds that this machine's clock is behind the server's
    this.timer = 0;
    this.told = [];
    document.addEventListener("visibilitychange", () => document.hidden || this.ask());
    addEventListener("online", () => this.ask());
  }

  begin() {
    this.connected("connecting", "connecting");
    this.ask();
  }

  /** The server's clock, Unix time in seconds. */
  get now() {
    return Date.now() / 1000 + this.behind;
  }

  connected(state, key, values) {
    this.told = [state, key, values];
    this.say();
  }

  /** How the connection is, in the language in force. */
  say() {
    const [state, key, values] = this.told;
    this.on.connection(state, say(key, values));
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.asking || document.hidden) return;
    this.asking = true;
    const from = performance.now();
    let wait = EACH_MS;
    try {
      const answer = await fetch(`api/runs?since=${this.mark}`, { cache: "no-store" });
      if (!answer.ok) {
        this.on.refused(answer.status, await answer.text());
        throw new Error(answer.statusText);
      }
      this.take(await answer.json());
      this.failures = 0;
      this.connected("live", "connected");
      wait = Math.max(wait, 10 * (performance.now() - from));
    } catch {
      this.failures += 1;
      wait = Math.min(EACH_MS * 2 ** (this.failures - 1), LONGEST_WAIT_MS);
      this.connected("lost", "disconnected", { s: Math.ceil(wait / 1000) });
    }
    this.asking = false;
    this.timer = setTimeout(() => this.ask(), Math.min(wait, LONGEST_WAIT_MS));
  }

  take(news) {
    this.mark = news.mark;
    this.behind = news.now_s - Date.now() / 1000;
    this.folder = news.folder;
    if (news.whole) this.runs.clear();
    let come = 0;
    const ended = [];
    for (const run of news.runs) {
      const before = this.runs.get(run.id);
      if (!before) come += 1;
      else if (before.state === "running" && run.state !== "running") ended.push(run);
      this.runs.set(run.id, { ...run, text_to_find: found_by(run) });
    }
    for (const id of news.gone) this.runs.delete(id);
    if (news.groups) this.told_groups = news.groups;
    if (news.sweeps) this.sweeps = news.sweeps;
    const changed = new Set(news.runs.map((run) => run.id));
    if (news.groups || news.runs.length) this.groups = (this.told_groups ?? []).map((group) => this.summed(group, changed, news.whole));
    this.on.changed({ whole: news.whole, come, ended });
  }

  /** A group with what its runs say together; of each seed the newest run counts. */
  summed(group, changed, whole) {
    const members = group.runs.map((id) => this.runs.get(id)).filter(Boolean);
    const newest = new Map();
    for (const run of members) if (!newest.has(run.seed)) newest.set(run.seed, run);
    const states = {};
    for (const run of newest.values()) states[run.state] = (states[run.state] ?? 0) + 1;
    const before = this.groups.find((each) => each.id === group.id)?.version ?? 0;
    return {
      ...group,
      states,
      algorithm: members[0]?.algorithm ?? "",
      environment: members[0]?.environment ?? "",
      seeds: newest.size,
      bests: [...newest.values()].map((run) => run.best).filter(Number.isFinite),
      began: Math.max(...members.map((run) => run.began ?? 0)),
      version: before + (whole || members.some((run) => changed.has(run.id))),
    };
  }
}

/** What a filter's words are looked for in. */
function found_by(run) {
  const facts = [run.name, run.state, run.algorithm, run.environment, `seed${run.seed}`, `seed=${run.seed}`, run.text];
  return [...facts, count(run.env_steps), number(run.best ?? NaN)].join(" ").toLowerCase();
}
