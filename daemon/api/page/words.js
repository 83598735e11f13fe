// Amounts and states in words, for people who look and for people who listen. Pure.

/** @import { DagEdge, DagNode, GoalStats } from "./shapes.js" */

/** @param {number | null | undefined} count e.g. 2300 is `2.3k` */
export function amount(count) {
  const n = count ?? 0;
  if (n < 1000) return String(n);
  const [value, unit] = n < 999_950 ? [n / 1000, "k"] : n < 999_950_000 ? [n / 1e6, "M"] : [n / 1e9, "G"];
  return `${value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}

/** @param {number | null | undefined} dollars empty for nothing */
export function money(dollars) {
  if (!dollars) return "";
  return dollars < 0.01 ? "<$0.01" : `$${dollars < 1000 ? dollars.toFixed(2) : Math.round(dollars)}`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (count, one, many = `${one}s`) => `${amount(count)} ${count === 1 ? one : many}`;

/** @param {GoalStats} stats time at work; empty for nothing, as in traces of older versions */
export const workTime = (stats) => (stats.duration_ms ? duration(stats.duration_ms) : "");

/** @param {GoalStats} stats in short, for an edge; empty when nothing was done */
export function statsLine(stats) {
  if (!stats.message_count && !stats.total_tokens) return "";
  return [plural(stats.message_count, "msg"), amount(stats.total_tokens), money(stats.total_cost)].filter(Boolean).join(" · ");
}

/** @param {GoalStats} stats in full */
export function statsWords(stats) {
  const words = [plural(stats.message_count, "message"), plural(stats.total_tokens, "token"), money(stats.total_cost), workTime(stats)];
  return words.filter(Boolean).join(", ");
}

/** @type {Record<string, string>} */
const STATUS = {
  pending: "not begun", in_progress: "in progress", completed: "completed", abandoned: "abandoned", planned: "planned",
  failed: "failed", skipped: "skipped", idle: "not begun", running: "running", waiting: "waits for an answer", canceled: "canceled",
};

/** @param {string} status of a goal, step or trace */
export const statusWord = (status) => STATUS[status] ?? status;

/** @type {Record<string, string>} */
const ICON = {
  pending: "○", planned: "○", idle: "○", in_progress: "◐", running: "◐", waiting: "?", completed: "✓", abandoned: "✕",
  failed: "✕", canceled: "✕", skipped: "–",
};

/** @param {string} status */
export const statusIcon = (status) => ICON[status] ?? "•";

/**
 * What a node is called aloud.
 * @param {DagNode} node
 * @param {DagEdge | undefined} edge the work that led to it
 */
export function spoken(node, edge) {
  if (node.kind === "start") return `Start: ${node.title || "no mission yet"}`;
  const kinds = { goal: "", start: "", explore_start: "exploration begins", explore_merge: "branches meet", branch: "branch" };
  return [
    [node.kind === "branch" ? "Branch" : "", node.label, node.title].filter(Boolean).join(" "),
    node.kind === "branch" ? "" : kinds[node.kind],
    node.abandoned && node.status !== "abandoned" ? `${statusWord(node.status)}, within abandoned work` : statusWord(node.status),
    node.selected ? "chosen" : "",
    node.current ? "the agent is here" : "",
    edge?.stats.message_count ? statsWords(edge.stats) : "",
    ...(edge?.own ?? []).map((own) => `begins ${own.node.label}, with ${statsWords(own.stats)} of its own`),
    node.expand ? `${plural(node.inside, "goal")} within` : "",
    node.fork ? `${plural(node.branches, "branch", "branches")}, ${node.forked ? "shown" : "hidden"}` : "",
  ].filter(Boolean).join(", ");
}

/**
 * Long text cut for one line; wide characters (CJK) count twice.
 * @param {string} text
 * @param {number} room
 */
export function clip(text, room) {
  let used = 0;
  let cut = "";
  for (const character of text.replace(/\s+/g, " ").trim()) {
    used += (character.codePointAt(0) ?? 0) >= 0x2e80 ? 2 : 1;
    if (used > room) return `${cut.trimEnd()}…`;
    cut += character;
  }
  return cut;
}

/**
 * A name that stands among other words: without the marks that turn the direction of what follows it.
 * @param {string | null | undefined} name of a model, an agent, a tool
 */
export const plain = (name) => (name ?? "").replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
