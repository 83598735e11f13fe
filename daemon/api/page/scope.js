// One plan, as its graph asks for it: what is above and below a goal, its number, its branches and where they meet. Pure.

import { NO_STATS, indexOf, numbersOf } from "./goals.js";

/** @import { Branch, Branches, Goal, GoalStats, GoalTree } from "./shapes.js" */

/**
 * A plan that nodes are made of: the main line's, or a branch's own.
 * @typedef {object} Scope
 * @property {string | null} branch_id
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
  for (let goal = byId.get(tree.current_id ?? ""); goal && !focused.has(goal.id); goal = byId.get(goal.parent_id ?? "")) {
    focused.add(goal.id);
  }
  const joins = new Map();
  for (const goal of byId.values()) {
    if (goal.type === "explore_merge" && goal.explore_start_id && goal.status !== "abandoned" && !joins.has(goal.explore_start_id)) {
      joins.set(goal.explore_start_id, goal.id);
    }
  }
  return { branch_id: branchId, byId, children, numbers: numbersOf(children), focused, joins, branches, working, meets: null };
}

/**
 * @param {Goal} goal
 * @param {Scope} scope
 */
export function labelOf(goal, scope) {
  const number = scope.numbers.get(goal.id) ?? "";
  return number && scope.branch_id ? `${scope.branch_id}.${number}` : number;
}

/**
 * A branch of a goal: within a branch, its id may be given in full (`A.B`) or without what is above it (`B`).
 * @param {Scope} scope
 * @param {string} id
 * @returns {{ id: string, value: Branch } | null}
 */
export function branchOf(scope, id) {
  const full = scope.branch_id && !id.startsWith(`${scope.branch_id}.`) ? `${scope.branch_id}.${id}` : id;
  for (const one of [full, id]) {
    const value = Object.hasOwn(scope.branches, one) ? scope.branches[one] : undefined;
    if (value && one !== scope.branch_id) return { id: full, value };
  }
  return null;
}

/**
 * What was done for a goal and all below it. Where nobody added it up (seed 000's own example has `self_stats` only), it
 * is the sum of what there is.
 * @param {Goal} goal
 * @param {Scope} scope
 * @returns {GoalStats}
 */
export function wholeOf(goal, scope) {
  if (goal.cumulative_stats) return goal.cumulative_stats;
  const total = { ...(goal.self_stats ?? NO_STATS) };
  const todo = [...(scope.children.get(goal.id) ?? [])];
  for (let one = todo.pop(); one; one = todo.pop()) {
    const stats = one.cumulative_stats ?? one.self_stats ?? NO_STATS;
    total.message_count += stats.message_count;
    total.total_tokens += stats.total_tokens;
    total.total_cost += stats.total_cost;
    total.duration_ms = (total.duration_ms ?? 0) + (stats.duration_ms ?? 0);
    if (!one.cumulative_stats) todo.push(...(scope.children.get(one.id) ?? []));
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
  const rest = { ...(branch.cumulative_stats ?? NO_STATS), preview: null };
  for (const goal of scope.children.get(null) ?? []) {
    const { message_count, total_tokens, total_cost, duration_ms } = wholeOf(goal, scope);
    rest.message_count -= message_count;
    rest.total_tokens -= total_tokens;
    rest.total_cost -= total_cost;
    rest.duration_ms = (rest.duration_ms ?? 0) - (duration_ms ?? 0);
  }
  // Numbers of the two may be of different moments.
  return {
    message_count: Math.max(0, rest.message_count), total_tokens: Math.max(0, rest.total_tokens), total_cost: Math.max(0, rest.total_cost),
    duration_ms: Math.max(0, rest.duration_ms ?? 0), preview: null,
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
    for (; at && !shown.has(at.id) && !onWay.has(at.id); at = scope.byId.get(at.parent_id ?? "")) {
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
