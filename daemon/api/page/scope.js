// One plan as the graph reads it: ancestors and descendants of a goal, its number, its branches and their merge. Pure.

import { NO_STATS, grouped, indexOf, numbersOf } from "./goals.js";

/** @import { Branch, Branches, Goal, GoalStats, GoalTree } from "./shapes.js" */

/**
 * A plan that is drawn: that of the main session or of a branch.
 * @typedef {object} Scope
 * @property {string | null} branchId
 * @property {Map<string, Goal>} byId
 * @property {Map<string | null, Goal[]>} children
 * @property {Map<string, string>} numbers
 * @property {Set<string>} focused the focused goal and its ancestors
 * @property {Map<string, string>} joins ids of merging goals by the id of the goal that started the exploration
 * @property {Branches} branches
 * @property {boolean} working whether the agent works on this plan
 * @property {ReturnType<typeof meetings> | null} meets see `meetings`; computed on first use
 */
/**
 * @param {GoalTree} tree
 * @param {Branches} branches
 * @param {string | null} branchId
 * @param {boolean} [working] false when the agent no longer works on this plan
 * @returns {Scope}
 */
export function scopeOf(tree, branches, branchId, working = true) {
  const { byId, children } = indexOf(tree);
  const focused = new Set();
  for (let goal = byId.get(tree.currentId ?? ""); goal && !focused.has(goal.id); goal = byId.get(goal.parentId ?? "")) {
    focused.add(goal.id);
  }
  const joins = new Map();
  for (const goal of byId.values()) {
    if (goal.type === "explore_merge" && goal.exploreStartId && goal.status !== "abandoned" && !joins.has(goal.exploreStartId)) {
      joins.set(goal.exploreStartId, goal.id);
    }
  }
  return { branchId: branchId, byId, children, numbers: numbersOf(children), focused, joins, branches, working, meets: null };
}

/**
 * @param {Goal} goal
 * @param {Scope} scope
 */
export function labelOf(goal, scope) {
  const number = scope.numbers.get(goal.id) ?? "";
  return number && scope.branchId ? `${scope.branchId}.${number}` : number;
}

/**
 * Finds a branch of a goal. Within a branch, the id may be full (`A.B`) or relative (`B`).
 * @param {Scope} scope
 * @param {string} id
 * @returns {{ id: string, value: Branch } | null}
 */
export function branchOf(scope, id) {
  const full = scope.branchId && !id.startsWith(`${scope.branchId}.`) ? `${scope.branchId}.${id}` : id;
  for (const one of [full, id]) {
    const value = Object.hasOwn(scope.branches, one) ? scope.branches[one] : undefined;
    if (value && one !== scope.branchId) return { id: full, value };
  }
  return null;
}

/**
 * Adds numbers of work, or subtracts them.
 * @param {GoalStats} stats
 * @param {GoalStats} other
 * @param {1 | -1} [sign]
 * @returns {GoalStats}
 */
function plus(stats, other, sign = 1) {
  const sum = (/** @type {number | undefined} */ one, /** @type {number | undefined} */ more) => (one ?? 0) + sign * (more ?? 0);
  return {
    ...stats,
    messageCount: sum(stats.messageCount, other.messageCount), totalTokens: sum(stats.totalTokens, other.totalTokens), totalCost: sum(stats.totalCost, other.totalCost),
    unpricedTokens: sum(stats.unpricedTokens, other.unpricedTokens), durationMs: sum(stats.durationMs, other.durationMs),
  };
}

/**
 * Returns the stats of a goal including its descendants. A goal may have `selfStats` only, so missing totals are summed
 * up here.
 * @param {Goal} goal
 * @param {Scope} scope
 * @returns {GoalStats}
 */
export function wholeOf(goal, scope) {
  if (goal.cumulativeStats) return goal.cumulativeStats;
  let total = goal.selfStats ?? NO_STATS;
  const todo = [...(scope.children.get(goal.id) ?? [])];
  for (let one = todo.pop(); one; one = todo.pop()) {
    total = plus(total, one.cumulativeStats ?? one.selfStats ?? NO_STATS);
    if (!one.cumulativeStats) todo.push(...(scope.children.get(one.id) ?? []));
  }
  return total;
}

/**
 * Returns the work that a branch did outside its goals, e.g. before it had a plan.
 * @param {Branch} branch
 * @param {Scope} scope of the branch
 * @returns {GoalStats}
 */
export function besideGoals(branch, scope) {
  let rest = branch.cumulativeStats ?? NO_STATS;
  for (const goal of scope.children.get(null) ?? []) rest = plus(rest, wholeOf(goal, scope), -1);
  // The numbers of the branch and of its goals may be from different moments, so none may become negative.
  return {
    messageCount: Math.max(0, rest.messageCount), totalTokens: Math.max(0, rest.totalTokens), totalCost: Math.max(0, rest.totalCost),
    unpricedTokens: Math.max(0, rest.unpricedTokens ?? 0), durationMs: Math.max(0, rest.durationMs ?? 0), preview: null,
  };
}

/**
 * Maps each exploration to the goal drawn for its merge: the merge itself, or its outermost collapsed ancestor; and each
 * such goal to the starts of its explorations. Linear, however deep a forged plan is.
 * @param {Scope} scope
 * @param {(goal: Goal) => boolean} isOpen
 */
export function meetings(scope, isOpen) {
  /** @type {Map<string, Goal>} */
  const shown = new Map();
  const shownFor = (/** @type {Goal} */ goal) => {
    /** @type {Goal[]} */
    const way = [];
    const onWay = new Set();
    /** @type {Goal | undefined} */
    let at = goal;
    for (; at && !shown.has(at.id) && !onWay.has(at.id); at = scope.byId.get(at.parentId ?? "")) {
      onWay.add(at.id);
      way.push(at);
    }
    let above = at;
    for (const one of way.reverse()) {
      const around = above && shown.get(above.id);
      shown.set(one.id, !above || !around || (around === above && isOpen(above)) ? one : around);
      above = one;
    }
    return shown.get(goal.id) ?? goal;
  };
  /** @type {Map<string, string>} */
  const at = new Map();
  for (const [startId, mergeId] of scope.joins) {
    const merge = scope.byId.get(mergeId);
    if (merge && scope.byId.has(startId)) at.set(startId, shownFor(merge).id);
  }
  return { at, starts: grouped(at.keys(), (startId) => at.get(startId)) };
}
