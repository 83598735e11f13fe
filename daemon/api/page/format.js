// Texts for amounts and states, visible and for screen readers. Pure. tools/text/amounts.py writes amounts alike for terminals.

import { plural, t } from "./l10n.js";

/** @import { DagEdge, DagNode, GoalStats } from "./shapes.js" */

/**
 * Rounds halves up, also those that are a bit less in binary, as Python does.
 * @param {number} value
 * @param {number} digits
 */
const fixed = (value, digits) => (value + 1e-9).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** @param {number | null | undefined} count e.g. 2300 is `2.3k` */
export function amount(count) {
  const n = count ?? 0;
  if (n < 1000) return String(n);
  const [value, unit] = n < 999_500 ? [n / 1000, "k"] : n < 999_500_000 ? [n / 1e6, "M"] : [n / 1e9, "G"];
  return `${value < 99.95 ? fixed(value, 1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}

/**
 * @param {number | null | undefined} dollars empty for nothing
 * @param {number | null} [unpriced] tokens whose price is not known: with any of them, `dollars` is the least it cost
 */
export function money(dollars, unpriced = 0) {
  if (!dollars) return unpriced ? t("unknown price") : "";
  const small = dollars < 0.001 ? "<$0.001" : `$${fixed(dollars, 3).replace(/0$/, "")}`;
  const words = dollars < 0.1 ? small : `$${fixed(dollars, dollars < 1000 ? 2 : 0)}`;
  return unpriced ? `≥ ${words}` : words;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return "";
  if (ms < 1000) return t("{0} ms", Math.round(ms));
  if (ms < 10_000) return t("{0} s", fixed(ms / 1000, 1));
  const s = Math.round(ms / 1000);
  if (s < 60) return t("{0} s", s);
  const min = Math.floor(s / 60);
  return min < 60 ? t("{0} min {1} s", min, s % 60) : t("{0} h {1} min", Math.floor(min / 60), min % 60);
}

/** @param {number} count */
export const messagesWord = (count) => plural(count, "{0} message", "{0} messages", amount(count));

/** @param {GoalStats} stats time at work; empty when there is none, as in traces of older versions */
export const workTime = (stats) => (stats.durationMs ? duration(stats.durationMs) : "");

/** @param {number} count sub-goals of a goal */
export const subGoals = (count) => plural(count, "{0} sub-goal", "{0} sub-goals", amount(count));

/** @param {number | null | undefined} count */
export const tokensWord = (count) => plural(count ?? 0, "{0} token", "{0} tokens", amount(count));

/**
 * @param {GoalStats} stats empty when no work was done
 * @param {number} [most] longest text in characters; a longer line omits the unit of the first number
 */
export function statsLine(stats, most = Infinity) {
  if (!stats.messageCount && !stats.totalTokens) return "";
  const count = amount(stats.messageCount);
  const line = (/** @type {string} */ first) => [first, amount(stats.totalTokens), money(stats.totalCost, stats.unpricedTokens)].filter(Boolean).join(" · ");
  const whole = line(plural(stats.messageCount, "{0} msg", "{0} msgs", count));
  return columns(whole) > most ? line(count) : whole;
}

/** @param {GoalStats} stats in full */
export function statsWords(stats) {
  return listed([messagesWord(stats.messageCount), tokensWord(stats.totalTokens), money(stats.totalCost, stats.unpricedTokens), workTime(stats)]);
}

/** @type {Record<string, string>} */
const STATUS = {
  pending: t("pending"), in_progress: t("in progress"), completed: t("completed"), abandoned: t("abandoned"), planned: t("planned"),
  failed: t("failed"), skipped: t("skipped"), idle: t("new"), running: t("running"), waiting: t("waiting for an answer"), canceled: t("canceled"),
};

/** @param {string} status of a goal or step */
export const statusWord = (status) => STATUS[status] ?? status;

/** The words of the Goals view. @type {Record<string, string>} */
const BRANCH = { in_progress: t("exploring"), completed: t("done"), abandoned: t("abandoned"), removed: t("removed") };

/** @param {DagNode} node */
export const nodeStatusWord = (node) => (node.kind === "branch" ? BRANCH[node.status] : undefined) ?? statusWord(node.status);

/** @type {Record<string, string>} */
const SESSION = { idle: t("new"), completed: t("ready"), failed: t("stopped by an error"), canceled: t("stopped") };

/** The end of a turn says nothing about the plan, in which each goal has its own status. @param {string} status of a session */
export const sessionWord = (status) => SESSION[status] ?? statusWord(status);

/** For goals, as in the terminal (lsp_bridge/cli/text.py). @type {Record<string, string>} */
const ICON = {
  pending: "○", planned: "○", idle: "○", in_progress: "◐", running: "◐", waiting: "?", completed: "✓", abandoned: "⊘",
  failed: "✗", canceled: "✗", skipped: "–", removed: "–",
};

/** @param {string} status */
export const statusIcon = (status) => ICON[status] ?? "•";

/** @type {Record<string, string>} */
const STEP_TYPE = {
  goal: t("goal"), thought: t("thought"), evaluation: t("evaluation"), response: t("response"), action: t("action"), result: t("result"),
};

/** @type {Record<string, string>} */
const END = { max_tokens: t("output limit reached"), canceled: t("canceled"), error: t("error"), permission_denied: t("permission denied") };

/** @param {string} reason why an answer ended */
export const endWord = (reason) => END[reason] ?? reason;

/** @param {string} type of a step */
export const stepTypeWord = (type) => STEP_TYPE[type] ?? type;

/** @param {readonly string[]} words empty ones are left out */
export const listed = (words) => words.filter(Boolean).join(t(", "));

/**
 * @param {number} count
 * @param {boolean | null | undefined} shown
 */
function branchesWord(count, shown) {
  return shown ? plural(count, "{0} branch, shown", "{0} branches, shown", amount(count)) : plural(count, "{0} branch, hidden", "{0} branches, hidden", amount(count));
}

/**
 * Returns the spoken name of a node.
 * @param {DagNode} node
 * @param {DagEdge | undefined} edge the work that led to the node
 */
export function spoken(node, edge) {
  if (node.kind === "start") return t("Start: {0}", node.title || t("no mission yet"));
  const kinds = { goal: "", start: "", explore_start: t("exploration starts"), explore_merge: t("branches meet"), branch: "" };
  const name = [node.label, node.title].filter(Boolean).join(" ");
  return listed([
    node.kind === "branch" ? t("Branch {0}", name) : name,
    kinds[node.kind],
    node.abandoned && node.status !== "abandoned" ? t("{0}, in abandoned work", nodeStatusWord(node)) : nodeStatusWord(node),
    node.selected ? t("used") : "",
    node.current ? t("the agent is here") : "",
    edge?.stats.messageCount ? statsWords(edge.stats) : "",
    ...(edge?.own ?? []).map((own) => t("starts {0}, with {1} of its own", own.node.label, statsWords(own.stats))),
    node.expand ? subGoals(node.inside) : "",
    node.fork ? branchesWord(node.branches, node.forked) : "",
  ]);
}

/** @param {string} text measured in columns: wide characters (CJK) count twice */
export const columns = (text) => [...text].reduce((sum, character) => sum + ((character.codePointAt(0) ?? 0) >= 0x2e80 ? 2 : 1), 0);

/**
 * Shortens a text to one line.
 * @param {string} text
 * @param {number} room columns
 */
export function clip(text, room) {
  let used = 0;
  let cut = "";
  for (const character of text.replace(/\s+/g, " ").trim()) {
    used += columns(character);
    if (used > room) return `${cut.trimEnd()}…`;
    cut += character;
  }
  return cut;
}

/**
 * Removes direction marks from a name that stands in a sentence, because they would turn the text after it.
 * @param {string | null | undefined} name of a model, an agent, a tool
 */
export const plain = (name) => (name ?? "").replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
