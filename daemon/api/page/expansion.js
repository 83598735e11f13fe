// What is expanded in a graph, and whether the fetched plans of branches are up to date. Pure.

import { branchKey, forkKey, goalKey } from "./dag.js";
import { numbered } from "./goals.js";

/** @import { Branch, GoalTree, SessionView } from "./shapes.js" */

/** @param {string} id of a branch; returns the id of the branch around it, or null */
export function parentOf(id) {
  const dot = id.lastIndexOf(".");
  return dot < 0 ? null : id.slice(0, dot);
}

/**
 * Returns the keys that must be expanded to show a running branch: its exploration and everything around that. A branch
 * that has ended needs none.
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
 * Returns the keys of everything known that can be expanded.
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

/** Tracks the plans of branches that are being fetched, one request per branch at a time. */
export class Fetches {
  constructor() {
    /** By branch: whether events arrived that the answer may lack. @type {Map<string, boolean>} */
    this.under = new Map();
  }

  /** @param {string} id @returns {boolean} false when a request is under way; it is then repeated */
  begin(id) {
    const free = !this.under.has(id);
    this.under.set(id, !free);
    return free;
  }

  /** Notes an event of a branch, which makes a pending answer possibly outdated. @param {string | undefined} id */
  happened(id) {
    if (id !== undefined && this.under.has(id)) this.under.set(id, true);
  }

  /** Ends a request. @param {string} id @returns {boolean} whether the answer may be outdated */
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
 * Merges the fetched details of a branch. Received frames win over an outdated answer, but its goals are better than
 * none.
 * @param {SessionView} state
 * @param {string} id
 * @param {Partial<Branch>} detail
 * @param {boolean} old
 * @returns {SessionView}
 */
export function takeBranch(state, id, detail, old) {
  const known = state.branches[id];
  if (!known) return state;
  const { branches: inner, goalTree, goalNumbers, ...own } = detail;
  const plan = goalTree ? { goalTree: numbered(goalTree, goalNumbers) } : {};
  const branches = { ...state.branches, [id]: old ? { ...known, ...plan } : { ...known, ...own, ...plan, id, exploreStartId: known.exploreStartId } };
  // Nested branches are stored next to the branch, under their full ids.
  for (const one of Object.values(inner ?? {})) {
    const full = one.id.startsWith(`${id}.`) ? one.id : `${id}.${one.id}`;
    branches[full] = old ? { ...one, ...branches[full], id: full } : { ...branches[full], ...one, id: full };
  }
  return { ...state, branches };
}
