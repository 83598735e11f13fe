import { indexOf, numbersOf } from "../../../daemon/api/page/goals.js";
import type { Goal, GoalTree } from "../protocol.gen";

interface Index {
  byId: ReadonlyMap<string, Goal>;
  children: ReadonlyMap<string | null, Goal[]>;
  numbers: ReadonlyMap<string, string>;
}

/** The plan of a session without one. */
export const NO_GOALS: GoalTree = { mission: "", currentId: null, goals: [] };

/** Cached indexes. Trees are replaced, never changed, so an index stays valid. */
const indexes = new WeakMap<GoalTree, Index>();

function known(tree: GoalTree): Index {
  let index = indexes.get(tree);
  if (!index) {
    const { byId, children } = indexOf<Goal>(tree);
    indexes.set(tree, (index = { byId, children, numbers: numbersOf(children) }));
  }
  return index;
}
/** Return the children of a goal (null: top level) in order. */
export function childrenOf(tree: GoalTree, parentId: string | null): readonly Goal[] {
  return known(tree).children.get(parentId) ?? [];
}

export function goalOf(tree: GoalTree, goalId: string | null | undefined): Goal | undefined {
  return known(tree).byId.get(goalId ?? "");
}

/** Return display numbers by goal id: `1`, `2.1`, …; abandoned goals and their descendants have none. */
export function goalNumbers(tree: GoalTree): ReadonlyMap<string, string> {
  return known(tree).numbers;
}

/** Return a goal and its ancestors, innermost first. Stops at a broken or circular link. */
export function chain(tree: GoalTree, goalId: string | null): Goal[] {
  const found = new Set<Goal>();
  for (let goal = goalOf(tree, goalId); goal && !found.has(goal); goal = goalOf(tree, goal.parentId)) found.add(goal);
  return [...found];
}
