// One plan as the graph reads it: ancestors and descendants of a goal, its number, its branches and their merge. Pure.

import { grouped, indexOf, numbersOf } from "./goals.js";

/** @import { Branch, Branches, Goal, GoalStats, GoalTree } from "./shapes.js" */

/**
 * A plan that is drawn: that of the main session or of a branch.
 * @typedef {object} Scope
 * @property {string | null} branchId
 * @property {Map<string, Goal>} byId
 * @property {Map<string | null, Goal[]>} children
 * @property {ReadonlyMap<string, string>} numbers
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
  return { branchId: branchId, byId, children, numbers: numbersOf(tree), focused, joins, branches, working, meets: null };
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
 * Returns the work that a branch did outside its goals, e.g. before it had a plan.
 * @param {Branch} branch
 * @param {Scope} scope of the branch
 * @returns {GoalStats}
 */
export function besideGoals(branch, scope) {
  const goals = scope.children.get(null) ?? [];
  const rest = (/** @type {"messageCount" | "totalTokens" | "totalCost" | "unpricedTokens" | "durationMs"} */ name) => {
    const left = goals.reduce((sum, goal) => sum - (goal.cumulativeStats?.[name] ?? 0), branch.cumulativeStats?.[name] ?? 0);
    // The numbers of the branch and of its goals may be from different moments, so none may become negative.
    return Math.max(0, left);
  };
  return {
    messageCount: rest("messageCount"), totalTokens: rest("totalTokens"), totalCost: rest("totalCost"),
    unpricedTokens: rest("unpricedTokens"), durationMs: rest("durationMs"), preview: null,
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
