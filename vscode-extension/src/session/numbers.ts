import { numbersOf } from "../../../daemon/api/page/goals.js";
import type { Goal, GoalTree } from "../protocol.gen";

interface Index {
  byId: ReadonlyMap<string, Goal>;
  children: ReadonlyMap<string | null, Goal[]>;
  numbers: ReadonlyMap<string, string>;
}

/** Trees are never changed, only replaced: what is found out about one of them stays true. */
const indexes = new WeakMap<GoalTree, Index>();

function indexOf(tree: GoalTree): Index {
  const known = indexes.get(tree);
  if (known) return known;
  const byId = new Map(tree.goals.map((goal) => [goal.id, goal]));
  const children = new Map<string | null, Goal[]>();
  for (const goal of tree.goals) {
    const siblings = children.get(goal.parentId);
    if (siblings) siblings.push(goal);
    else children.set(goal.parentId, [goal]);
  }
  const index = { byId, children, numbers: numbersOf(children) };
  indexes.set(tree, index);
  return index;
}

/** Children of a goal (null: top level) in order. */
export function childrenOf(tree: GoalTree, parentId: string | null): readonly Goal[] {
  return indexOf(tree).children.get(parentId) ?? [];
}

export function goalOf(tree: GoalTree, goalId: string | null | undefined): Goal | undefined {
  return indexOf(tree).byId.get(goalId ?? "");
}

/** Display numbers by goal id: `1`, `2.1`, …; abandoned goals and what is below them have none. */
export function goalNumbers(tree: GoalTree): ReadonlyMap<string, string> {
  return indexOf(tree).numbers;
}

/** The goal and all above it, innermost first. Stops at a broken or circular link. */
export function chain(tree: GoalTree, goalId: string | null): Goal[] {
  const found = new Set<Goal>();
  for (let goal = goalOf(tree, goalId); goal && !found.has(goal); goal = goalOf(tree, goal.parentId)) found.add(goal);
  return [...found];
}
