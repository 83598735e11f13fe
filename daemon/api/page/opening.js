// What is open in a graph, and whether the plans of branches that it wants are up to date. Pure.

import { branchKey, forkKey, goalKey } from "./dag.js";

/** @import { Branch, GoalTree, SessionView } from "./shapes.js" */

/** @param {string} id of a branch; that of the branch it is in, if any */
export function parentOf(id) {
  const dot = id.lastIndexOf(".");
  return dot < 0 ? null : id.slice(0, dot);
}

/**
 * What must be open for a branch at work to be seen: its exploration, and all that is around that. Nothing of others.
 * @param {SessionView} state
 * @param {Branch | undefined} branch
 * @returns {string[]}
 */
export function aroundWork(state, branch) {
  /** @type {string[]} */
  const keys = [];
  const seen = new Set();
  for (let at = branch; at?.status === "exploring" && !seen.has(at.id); ) {
    seen.add(at.id);
    const outer = parentOf(at.id);
    keys.push(forkKey(at.exploreStartId, outer));
    const tree = outer === null ? state.goalTree : state.branches[outer]?.goalTree;
    keys.push(...goalsAround(tree, at.exploreStartId).map((id) => goalKey(id, outer)));
    if (outer !== null) keys.push(branchKey(outer));
    at = outer === null ? undefined : state.branches[outer];
  }
  return keys;
}

/**
 * @param {GoalTree | undefined} tree
 * @param {string} goalId
 */
function goalsAround(tree, goalId) {
  const parents = new Map(tree?.goals.map((goal) => [goal.id, goal.parentId]));
  const around = new Set();
  for (let id = parents.get(goalId); id && !around.has(id); id = parents.get(id)) around.add(id);
  return [...around];
}

/**
 * Everything that can be opened, as far as it is known.
 * @param {SessionView} state
 * @returns {string[]}
 */
export function everything(state) {
  const within = (/** @type {GoalTree | undefined} */ tree, /** @type {string | null} */ branchId) =>
    (tree?.goals ?? []).flatMap((goal) => [
      ...(goal.parentId ? [goalKey(goal.parentId, branchId)] : []), ...(goal.type === "explore_start" ? [forkKey(goal.id, branchId)] : []),
    ]);
  return [
    ...within(state.goalTree, null),
    ...Object.values(state.branches).flatMap((branch) => [branchKey(branch.id), ...within(branch.goalTree, branch.id)]),
  ];
}

/** The plans of branches that are being fetched, one request for each branch at a time. */
export class Fetches {
  constructor() {
    /** By branch: whether the answer will be older than what is known by then. @type {Map<string, boolean>} */
    this.under = new Map();
  }

  /** @param {string} id @returns {boolean} false: an answer is on its way, and is then asked for once more */
  begin(id) {
    const free = !this.under.has(id);
    this.under.set(id, !free);
    return free;
  }

  /** Something happened in a branch: an answer that is on its way may be older. @param {string | undefined} id */
  happened(id) {
    if (id !== undefined && this.under.has(id)) this.under.set(id, true);
  }

  /** The answer is there. @param {string} id @returns {boolean} whether it may be older than what is known */
  end(id) {
    const old = this.under.get(id) === true;
    this.under.delete(id);
    return old;
  }

  clear() {
    this.under.clear();
  }
}

/**
 * Takes the details of a branch. What frames told meanwhile counts for more than an older answer, but its goals are
 * better than none.
 * @param {SessionView} state
 * @param {string} id
 * @param {Partial<Branch>} detail
 * @param {boolean} old
 * @returns {SessionView}
 */
export function takeBranch(state, id, detail, old) {
  const known = state.branches[id];
  if (!known) return state;
  const { branches: inner, ...own } = detail;
  const branches = { ...state.branches, [id]: old ? { ...known, goalTree: own.goalTree ?? known.goalTree } : { ...known, ...own, id, exploreStartId: known.exploreStartId } };
  // Branches of a branch stand beside it, by their full ids.
  for (const one of Object.values(inner ?? {})) {
    const full = one.id.startsWith(`${id}.`) ? one.id : `${id}.${one.id}`;
    branches[full] = old ? { ...one, ...branches[full], id: full } : { ...branches[full], ...one, id: full };
  }
  return { ...state, branches };
}
