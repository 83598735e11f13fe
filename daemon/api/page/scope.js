// One plan as the graph reads it: ancestors and descendants of a goal, its number, its branches and their merge. Pure.

import { NO_STATS, indexOf, numbersOf } from "./goals.js";

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
 * Returns the stats of a goal including its descendants. A goal may have `selfStats` only, so missing totals are summed
 * up here.
 * @param {Goal} goal
 * @param {Scope} scope
 * @returns {GoalStats}
 */
export function wholeOf(goal, scope) {
  if (goal.cumulativeStats) return goal.cumulativeStats;
  const total = { ...(goal.selfStats ?? NO_STATS) };
  const todo = [...(scope.children.get(goal.id) ?? [])];
  for (let one = todo.pop(); one; one = todo.pop()) {
    const stats = one.cumulativeStats ?? one.selfStats ?? NO_STATS;
    total.messageCount += stats.messageCount;
    total.totalTokens += stats.totalTokens;
    total.totalCost += stats.totalCost;
    total.unpricedTokens = (total.unpricedTokens ?? 0) + (stats.unpricedTokens ?? 0);
    total.durationMs = (total.durationMs ?? 0) + (stats.durationMs ?? 0);
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
  const rest = { ...(branch.cumulativeStats ?? NO_STATS), preview: null };
  for (const goal of scope.children.get(null) ?? []) {
    const { messageCount, totalTokens, totalCost, unpricedTokens, durationMs } = wholeOf(goal, scope);
    rest.messageCount -= messageCount;
    rest.totalTokens -= totalTokens;
    rest.totalCost -= totalCost;
    rest.unpricedTokens = (rest.unpricedTokens ?? 0) - (unpricedTokens ?? 0);
    rest.durationMs = (rest.durationMs ?? 0) - (durationMs ?? 0);
  }
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
  /** @type {{ starts: Map<string, string[]>, at: Map<string, string> }} */
  const meets = { starts: new Map(), at: new Map() };
  for (const [startId, mergeId] of scope.joins) {
    const merge = scope.byId.get(mergeId);
    if (!merge || !scope.byId.has(startId)) continue;
    const place = shownFor(merge).id;
    meets.at.set(startId, place);
    const known = meets.starts.get(place);
    if (known) known.push(startId);
    else meets.starts.set(place, [startId]);
  }
  return meets;
}
