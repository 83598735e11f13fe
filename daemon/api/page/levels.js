// A plan is looked at level by level: which goals are around a level, at which level a goal is drawn, and where a text occurs.

import { branchKey, forkKey, goalKey, namedBy } from "./dag.js";
import { h } from "./dom.js";
import { indexOf, numbersOf } from "./goals.js";
import { t } from "./l10n.js";
import { parentOf } from "./opening.js";
import { clip } from "./words.js";

/** @import { GoalTree, LiveState } from "./shapes.js" */

/**
 * A level: the goals within a goal or branch, or (key null) the whole plan.
 * @typedef {{ key: string | null, name: string }} Level
 */
/** Letters of a name in the way to a level. */
const MOST = 40;

/**
 * @param {LiveState} state
 * @param {string | null} branchId
 * @returns {GoalTree | undefined}
 */
const treeOf = (state, branchId) => (branchId === null ? state.goal_tree : state.branches[branchId]?.goal_tree);

/**
 * The level at which a goal, or (without one) a branch is drawn.
 * @param {LiveState} state
 * @param {string | null} key
 * @returns {string | null}
 */
export function levelOf(state, key) {
  const { goal_id, branch_id } = namedBy(key);
  if (goal_id === null && branch_id !== null) {
    const outer = parentOf(branch_id);
    return levelOf(state, goalKey(state.branches[branch_id]?.explore_start_id ?? "", outer));
  }
  const { byId } = indexOf(treeOf(state, branch_id));
  const parent = byId.get(goal_id ?? "")?.parent_id;
  if (parent != null && byId.has(parent)) return goalKey(parent, branch_id);
  return branch_id === null ? null : branchKey(branch_id);
}

/**
 * What must be open at its level for a branch to be drawn; null for goals.
 * @param {LiveState} state
 * @param {string} key
 * @returns {string | null}
 */
export function forkAround(state, key) {
  const { goal_id, branch_id } = namedBy(key);
  const branch = goal_id === null && branch_id !== null ? state.branches[branch_id] : undefined;
  return branch ? forkKey(branch.explore_start_id, parentOf(branch.id)) : null;
}

/**
 * The levels from the whole plan to one of them; the whole plan alone when that is gone.
 * @param {LiveState} state
 * @param {string | null} root
 * @returns {Level[]}
 */
export function wayTo(state, root) {
  /** @type {Level[]} */
  const way = [];
  for (let key = root; key !== null && way.length < 100; key = levelOf(state, key)) {
    const { goal_id, branch_id } = namedBy(key);
    const tree = treeOf(state, branch_id);
    const { byId, children } = indexOf(tree);
    const text = goal_id === null ? state.branches[branch_id ?? ""]?.description : byId.get(goal_id)?.description;
    if (text === undefined) return [{ key: null, name: t("Plan") }];
    const number = goal_id === null ? (branch_id ?? "") : numbersOf(children).get(goal_id);
    way.unshift({ key, name: clip([goal_id !== null && branch_id ? `${branch_id}.${number ?? ""}` : number, text].filter(Boolean).join(" "), MOST) });
  }
  return [{ key: null, name: t("Plan") }, ...way];
}

/**
 * Keys of the goals and branches in whose number, text, reason or summary a text occurs, in the order of the plan.
 * @param {LiveState} state
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
    const numbers = numbersOf(children);
    const todo = [...(children.get(null) ?? [])].reverse();
    for (let goal = todo.pop(); goal; goal = todo.pop()) {
      const number = numbers.get(goal.id);
      if (number === wanted || has(goal.description, goal.summary, goal.reason)) found.push(goalKey(goal.id, branchId));
      todo.push(...[...(children.get(goal.id) ?? [])].reverse());
    }
  };
  look(state.goal_tree, null);
  for (const branch of Object.values(state.branches)) {
    if (branch.id.toLowerCase() === wanted || has(branch.description, branch.summary)) found.push(branchKey(branch.id));
    look(branch.goal_tree, branch.id);
  }
  return found;
}

/**
 * The way to a level, each part a button that goes there; empty at the top.
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
