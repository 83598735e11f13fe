// One plan, as its graph asks for it: what is above and below a goal, its number, its branches and where they meet. Pure.

import { NO_STATS, indexOf, numbersOf } from "./goals.js";

/** @import { Branch, Branches, Goal, GoalStats, GoalTree } from "./shapes.js" */

/**
 * A plan that nodes are made of: the main line's, or a branch's own.
 * @typedef {object} Scope
 * @property {string | null} branchId
 * @property {Map<string, Goal>} byId
 * @property {Map<string | null, Goal[]>} children
 * @property {Map<string, string>} numbers
 * @property {Set<string>} focused the focus and all goals above it
 * @property {Map<string, string>} joins ids of merging goals by that of the goal that started the exploration
 * @property {Branches} branches
 * @property {boolean} working somebody works on it
 * @property {ReturnType<typeof meetings> | null} meets see `meetings`; made when it is first wanted
 */
/**
 * @param {GoalTree} tree
 * @param {Branches} branches
 * @param {string | null} branchId
 * @param {boolean} [working] false: nobody works on this plan any more
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
 * A branch of a goal: within a branch, its id may be given in full (`A.B`) or without what is above it (`B`).
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
 * What was done for a goal and all below it. Where nobody added it up (a goal may have `selfStats` only), it
 * is the sum of what there is.
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
    total.durationMs = (total.durationMs ?? 0) + (stats.durationMs ?? 0);
    if (!one.cumulativeStats) todo.push(...(scope.children.get(one.id) ?? []));
  }
  return total;
}

/**
 * What was done in a branch before its plan, or beside it: no goal of it has that.
 * @param {Branch} branch
 * @param {Scope} scope of the branch
 * @returns {GoalStats}
 */
export function besideGoals(branch, scope) {
  const rest = { ...(branch.cumulativeStats ?? NO_STATS), preview: null };
  for (const goal of scope.children.get(null) ?? []) {
    const { messageCount, totalTokens, totalCost, durationMs } = wholeOf(goal, scope);
    rest.messageCount -= messageCount;
    rest.totalTokens -= totalTokens;
    rest.totalCost -= totalCost;
    rest.durationMs = (rest.durationMs ?? 0) - (durationMs ?? 0);
  }
  // Numbers of the two may be of different moments.
  return {
    messageCount: Math.max(0, rest.messageCount), totalTokens: Math.max(0, rest.totalTokens), totalCost: Math.max(0, rest.totalCost),
    durationMs: Math.max(0, rest.durationMs ?? 0), preview: null,
  };
}

/**
 * What is drawn of where the branches of each exploration meet: that goal itself, or the outermost of the goals around
 * it that is closed; and the goals that start them, by what is drawn. Linear, however deep a forged plan is.
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
