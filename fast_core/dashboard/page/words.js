// Every text of the page, in both languages, and numbers as people read them.

import { language } from "./settings.js";

// key: [English, Chinese]
const WORDS = {
  skip: ["Skip to the screens", "跳到画面"],
  controls: ["Controls", "控制"],
  figures: ["Progress", "进度"],
  seed: ["seed", "种子"],
  elapsed: ["elapsed", "已用时间"],
  env_steps: ["env steps", "环境步数"],
  env_steps_per_s: ["env steps/s", "环境步/秒"],
  updates: ["updates", "更新次数"],
  updates_per_s: ["updates/s", "更新/秒"],
  connected: ["live", "实时"],
  connecting: ["connecting…", "正在连接…"],
  disconnected: ["disconnected, next try in {s} s", "连接已断开，{s} 秒后重试"],
  retrying: ["disconnected, trying again…", "连接已断开，正在重试…"],
  said_lost: ["The connection is lost; the page tries again by itself.", "连接已断开，页面会自动重连。"],
  said_back: ["Connected again.", "已重新连接。"],
  token_needed: [
    "The page needs its token: open the address that the run printed.",
    "此页面需要令牌：请打开运行时打印的地址。",
  ],
  refused: ["The server refused the page: {why}", "服务器拒绝了此页面：{why}"],
  pause: ["Pause", "暂停"],
  go_on: ["Go on", "继续"],
  paused: ["Paused", "已暂停"],
  said_paused: ["Paused. Training goes on.", "画面已暂停，训练仍在进行。"],
  said_going_on: ["The screens are live.", "画面已恢复。"],
  help: ["Help", "帮助"],
  to_dark: ["Dark", "深色"],
  to_light: ["Light", "浅色"],
  to_dark_label: ["Dark theme", "深色主题"],
  to_light_label: ["Light theme", "浅色主题"],
  other_language: ["中文", "English"],
  async: ["Asynchrony", "异步"],
  degree: ["degree", "异步度"],
  admitted: ["admitted", "已准入"],
  merged: ["merged", "已合并"],
  trained: ["trained", "已训练"],
  lag_mean: ["lag, mean", "平均滞后"],
  lag_max: ["lag, largest", "最大滞后"],
  screens: ["Screens", "画面"],
  layout: ["Layout", "布局"],
  layout_auto: ["Grid", "网格"],
  layout_classic: ["4 × 2", "4 × 2"],
  layout_one: ["One", "单个"],
  mode: ["What is shown", "显示内容"],
  mode_rgb: ["RGB", "RGB"],
  mode_obs: ["Observation", "观测"],
  page_back: ["Screens before", "前面的画面"],
  page_on: ["Screens after", "后面的画面"],
  page_of: ["{from}–{to} of {all}", "{from}–{to}，共 {all}"],
  training_tile: ["Environment {n}", "环境 {n}"],
  evaluation_tile: ["Evaluation {n}", "评估 {n}"],
  evaluation_short: ["eval", "评估"],
  enlarge_label: ["{name}: enlarge", "{name}：放大"],
  where: ["shard {shard}, environment {env}, {node}", "分片 {shard}，环境 {env}，{node}"],
  where_evaluation: ["evaluated environment {env}, {node}", "评估环境 {env}，{node}"],
  picture_label: ["What {name} looks like", "{name} 的画面"],
  observation_label: ["What the policy of {name} sees", "{name} 的策略所见"],
  best: ["best", "最佳"],
  waiting_frame: ["Waiting...", "等待中…"],
  no_picture: ["No picture", "无画面"],
  no_frame_yet: ["no picture yet", "暂无画面"],
  shown_evaluating: ["shown while an evaluation runs", "评估进行时显示"],
  episode: ["ep {x}", "回合 {x}"],
  version: ["v{x}", "版本 {x}"],
  seed_is: ["seed {x}", "种子 {x}"],
  fps: ["{x} fps", "{x} 帧/秒"],
  back: ["Back", "返回"],
  all_runs: ["All runs", "全部运行"],
  all_tiles: ["All screens", "全部画面"],
  save_clip: ["Save clip", "保存片段"],
  saving_clip: ["Saving…", "正在保存…"],
  format: ["Format of the clip", "片段格式"],
  clip_saved: ["The clip is saved as {name}.", "片段已保存为 {name}。"],
  clip_failed: ["No clip: {why}", "无法保存片段：{why}"],
  picture: ["RGB", "RGB"],
  text: ["Text", "文本"],
  observation: ["Observation", "观测"],
  insight: ["What the policy thinks", "策略的判断"],
  value: ["Value", "价值"],
  probabilities: ["Action probabilities", "动作概率"],
  q: ["Q-values", "Q 值"],
  mean: ["Action, mean ± deviation", "动作均值 ± 标准差"],
  of_taken: ["of the action taken", "所选动作"],
  no_insight: [
    "Waiting: what the policy thinks appears when the update in progress has ended. If it stays away, the run's logs say why.",
    "等待中：当前更新结束后在此显示策略的判断。若一直没有，请查看运行日志。",
  ],
  action: ["action {n}", "动作 {n}"],
  more_actions: ["and {n} more", "另有 {n} 个"],
  timeline: ["What every node does", "各节点状态"],
  timeline_span: ["last 60 s", "最近 60 秒"],
  legend: ["Legend", "图例"],
  waits: ["waits {x}", "等待 {x}"],
  events: ["Events", "事件"],
  no_events: ["Nothing yet.", "暂无事件。"],
  charts: ["Charts", "图表"],
  axis: ["Horizontal axis", "横轴"],
  axis_env_steps: ["Env steps", "环境步数"],
  axis_time_s: ["Time", "时间"],
  no_points: ["No points yet", "暂无数据"],
  no_plotly: [
    "The charts' script can't be loaded ({why}); all else works.",
    "图表脚本无法加载（{why}），其余功能正常。",
  ],
  chart_return: ["Reward of training episodes", "训练回合奖励"],
  chart_length: ["Length of training episodes", "训练回合长度"],
  chart_evaluation: ["Evaluation", "评估"],
  chart_losses: ["Losses", "损失"],
  chart_rates: ["Env steps/s and updates/s", "环境步/秒与更新/秒"],
  chart_lag: ["Policy lag", "策略滞后"],
  chart_ratio: ["Replay ratio", "回放比"],
  chart_waiting: ["Share of time waiting", "等待时间占比"],
  each_episode: ["newest episode", "最新回合"],
  mean_of: ["mean {n}", "{n} 回合均值"],
  lag_line: ["mean", "均值"],
  mean_std: ["mean ± std", "均值 ± 标准差"],
  largest: ["largest", "最大"],
  updates_per_env_step: ["updates per env step", "每环境步更新次数"],
  env_nodes: ["env nodes", "环境节点"],
  learner: ["learner", "学习器"],
  ended: ["The run has ended", "运行已结束"],
  plays: ["Here its policy plays, without exploration.", "此处由其策略进行游玩（无探索）。"],
  said_ended: ["The run has ended: {why}", "运行已结束：{why}"],
  watch_again: ["The server has ended with it. To see it again: {command}", "服务器已随之结束。再次查看：{command}"],
  no_frames: ["No pictures of this run", "此运行没有画面"],
  keys: ["Keys", "快捷键"],
  keys_on: ["Single-key shortcuts", "启用单键快捷键"],
  close: ["Close", "关闭"],
  key_space: ["pause the screens, or go on", "暂停或继续画面"],
  key_numbers: ["choose a screen", "选择画面"],
  key_arrows: ["go to the next screen", "移到相邻画面"],
  key_enter: ["enlarge the chosen screen", "放大所选画面"],
  key_escape: ["back to all screens", "返回全部画面"],
  key_o: ["observation or RGB", "切换观测与 RGB"],
  key_l: ["next layout", "切换布局"],
  key_s: ["save a clip of the chosen screen", "保存所选画面的片段"],
  key_help: ["this help", "显示帮助"],
  help_text: [
    "Pausing stops the pictures, never the training. Screens that are out of view and hidden tabs ask for nothing.",
    "暂停只停止画面，不影响训练。不可见的画面和隐藏的标签页不会请求数据。",
  ],
  tile_running: ["running", "运行中"],
  tile_waiting: ["waiting", "等待"],
  "tile_waiting for policy": ["waiting for policy", "等待策略"],
  tile_restarting: ["restarting", "正在重启"],
  tile_dead: ["dead", "已停止"],
  tile_ended: ["ended", "已结束"],
  tile_starting: ["starting", "启动中"],
  node_starting: ["starting", "启动"],
  node_waiting: ["waiting", "等待"],
  node_stepping: ["stepping", "步进"],
  node_acting: ["inferring", "推理"],
  node_learning: ["learning", "学习"],
  node_publishing: ["publishing", "发布"],
  node_evaluating: ["evaluating", "评估"],
  node_saving: ["saving", "保存"],
  node_writing: ["writing", "写入"],
  node_transforming: ["transforming", "变换"],
  node_drawing: ["drawing rows", "采样"],
  node_trying: ["trying", "试验"],
  node_handling: ["handling", "处理"],
  node_stopped: ["stopped", "停止"],
  node_dead: ["dead", "已停止"],
  node_restarting: ["restarting", "重启"],
  phase_starting: ["starting", "启动中"],
  phase_training: ["training", "训练中"],
  phase_paused: ["paused", "已暂停"],
  phase_checkpointing: ["saving", "保存中"],
  phase_finishing: ["stopping", "停止中"],
  phase_finished: ["finished", "已结束"],
  phase_ended: ["ended", "已结束"],
  phase_failed: ["failed", "失败"],
};

/** The texts of another page than a run's. */
export function add(words) {
  Object.assign(WORDS, words);
}

/** The text of a key in the language in force, with `{name}` filled in. */
export function say(key, values = {}) {
  const text = WORDS[key][language() === "zh" ? 1 : 0];
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/** The word for what the server calls `name`; a name that is unknown here stands for itself. */
export function word(group, name) {
  const key = `${group}_${name}`;
  return key in WORDS ? say(key) : name;
}

/** Fill in the texts of the elements that name a key in `data-word` or `data-label`. */
export function fill(root) {
  document.documentElement.lang = language() === "zh" ? "zh-Hans" : "en";
  for (const element of root.querySelectorAll("[data-word]")) {
    element.textContent = say(element.dataset.word);
  }
  for (const element of root.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", say(element.dataset.label));
  }
}

/** A whole number with thousands separated; a dash where there is none. */
export function count(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : "–";
}

/** A measured number at a steady width: `213.4`, `0.012`, `1.2e+7`; a dash where there is none. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e7 || size < 1e-4) return value.toExponential(1);
  if (size >= 1e3) return count(value);
  if (size >= 10) return value.toFixed(1);
  return size >= 1 ? value.toFixed(2) : value.toPrecision(2);
}

/** A fraction as a percentage. */
export function share(value) {
  return Number.isFinite(value) ? `${Math.round(100 * Math.min(Math.max(value, 0), 1))} %` : "–";
}

/** A time in its two largest units: `12 s`, `2 min 05 s`, `3 h 20 min`. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const whole = Math.max(Math.round(seconds), 0);
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${two(Math.floor((whole % 86400) / 3600))} h`;
}
