/** Positions to which goals can be moved. Pure. */
import type { Goal, GoalTree } from "../protocol.gen";
import { chain, childrenOf, goalOf } from "../session/numbers";

/** A position as in the request: under a parent (null: top level), before a sibling (null: last). */
export interface Place {
  parentId: string | null;
  beforeId: string | null;
}

/** Return the position one step up or down among the siblings, skipping abandoned goals; undefined at the end. */
export function step(tree: GoalTree, goalId: string, by: "up" | "down"): Place | undefined {
  const goal = goalOf(tree, goalId);
  if (!goal) return undefined;
  const { parentId } = goal;
  const siblings = childrenOf(tree, parentId);
  const at = siblings.indexOf(goal);
  const live = (one: Goal): boolean => one.status !== "abandoned";
  if (by === "up") {
    const above = siblings.slice(0, at).reverse().find(live);
    return above && { parentId, beforeId: above.id };
  }
  const below = siblings.slice(at + 1).find(live);
  if (!below) return undefined;
  return { parentId, beforeId: siblings[siblings.indexOf(below) + 1]?.id ?? null };
}

/**
 * Return the position of a goal dropped on another: the last child of that one. A drop below all rows moves it to the
 * end of the top level. Undefined when nothing would change, or the goal would be below itself.
 */
export function drop(tree: GoalTree, goalId: string, onto: string | undefined): Place | undefined {
  const goal = goalOf(tree, goalId);
  if (!goal) return undefined;
  if (onto === undefined) {
    const last = childrenOf(tree, null).at(-1);
    return last?.id === goalId ? undefined : { parentId: null, beforeId: null };
  }
  const inside = chain(tree, onto).some((one) => one.id === goalId);
  return inside || goal.parentId === onto ? undefined : { parentId: onto, beforeId: null };
}
