// The levels of a plan: which goals surround a level, at which level a goal is drawn, and where a text occurs.

import { branchKey, forkKey, goalKey, namedBy } from "./dag.js";
import { h } from "./dom.js";
import { indexOf, numbersOf } from "./goals.js";
import { t } from "./l10n.js";
import { parentOf } from "./expansion.js";
import { clip } from "./format.js";

/** @import { GoalTree, SessionView } from "./shapes.js" */

/**
 * A level: the goals within a goal or branch, or (key null) the whole plan.
 * @typedef {{ key: string | null, name: string }} Level
 */
/** Longest name of a level in the path, in characters. */
const MOST = 40;

/**
 * @param {SessionView} state
 * @param {string | null} branchId
 * @returns {GoalTree | undefined}
 */
const treeOf = (state, branchId) => (branchId === null ? state.goalTree : state.branches[branchId]?.goalTree);

/**
 * Returns the level at which a goal or, without a goal id, a branch is drawn.
 * @param {SessionView} state
 * @param {string | null} key
 * @returns {string | null}
 */
export function levelOf(state, key) {
  const { goalId, branchId } = namedBy(key);
  if (goalId === null && branchId !== null) {
    const outer = parentOf(branchId);
    return levelOf(state, goalKey(state.branches[branchId]?.exploreStartId ?? "", outer));
  }
  const { byId } = indexOf(treeOf(state, branchId));
  const parent = byId.get(goalId ?? "")?.parentId;
  if (parent != null && byId.has(parent)) return goalKey(parent, branchId);
  return branchId === null ? null : branchKey(branchId);
}

/**
 * Returns the key that must be expanded for a branch to be drawn; null for goals.
 * @param {SessionView} state
 * @param {string} key
 * @returns {string | null}
 */
export function forkAround(state, key) {
  const { goalId, branchId } = namedBy(key);
  const branch = goalId === null && branchId !== null ? state.branches[branchId] : undefined;
  return branch ? forkKey(branch.exploreStartId, parentOf(branch.id)) : null;
}

/**
 * Returns the levels from the whole plan down to one level; only the whole plan when that level no longer exists.
 * @param {SessionView} state
 * @param {string | null} root
 * @returns {Level[]}
 */
export function wayTo(state, root) {
  /** @type {Level[]} */
  const way = [];
  for (let key = root; key !== null && way.length < 100; key = levelOf(state, key)) {
    const { goalId, branchId } = namedBy(key);
    const tree = treeOf(state, branchId);
    const { byId } = indexOf(tree);
    const text = goalId === null ? state.branches[branchId ?? ""]?.description : byId.get(goalId)?.description;
    if (text === undefined) return [{ key: null, name: t("Plan") }];
    const number = goalId === null ? (branchId ?? "") : numbersOf(tree).get(goalId);
    way.unshift({ key, name: clip([goalId !== null && branchId ? `${branchId}.${number ?? ""}` : number, text].filter(Boolean).join(" "), MOST) });
  }
  return [{ key: null, name: t("Plan") }, ...way];
}

/**
 * Returns keys of the goals and branches whose number, text, reason or summary contains a text, in the order of the plan.
 * @param {SessionView} state
 * @param {string} text
 * @returns {string[]}
 */
export function findGoals(state, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const has = (/** @type {(string | null | undefined)[]} */ ...texts) => texts.some((one) => one?.toLowerCase().includes(wanted));
  /** @type {string[]} */
  const found = [];
  const look = (/** @type {GoalTree | undefined} */ tree, /** @type {string | null} */ branchId) => {
    const { children } = indexOf(tree);
    const numbers = numbersOf(tree);
    const todo = [...(children.get(null) ?? [])].reverse();
    for (let goal = todo.pop(); goal; goal = todo.pop()) {
      const number = numbers.get(goal.id);
      if (number === wanted || has(goal.description, goal.summary, goal.reason)) found.push(goalKey(goal.id, branchId));
      todo.push(...[...(children.get(goal.id) ?? [])].reverse());
    }
  };
  look(state.goalTree, null);
  for (const branch of Object.values(state.branches)) {
    if (branch.id.toLowerCase() === wanted || has(branch.description, branch.summary)) found.push(branchKey(branch.id));
    look(branch.goalTree, branch.id);
  }
  return found;
}

/**
 * Shows the path to a level with a button for each part; hidden at the top.
 * @param {HTMLElement} host a navigation landmark
 * @param {readonly Level[]} way
 * @param {(key: string | null) => void} go
 */
export function showWay(host, way, go) {
  host.hidden = way.length < 2;
  const shows = JSON.stringify(way);
  if (host.dataset["shows"] === shows) return;
  host.dataset["shows"] = shows;
  const last = way.length - 1;
  host.replaceChildren(h("ol", {}, ...way.map(({ key, name }, at) => h("li", {},
    at === last ? h("span", { "aria-current": "page" }, name) : h("button", { type: "button", onclick: () => go(key) }, name)))));
}
