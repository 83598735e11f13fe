/** Where goals can be moved to. Pure. */
import type { Goal, GoalTree } from "../protocol.gen";
import { chain, childrenOf, goalOf } from "../session/numbers";

/** As in the request: under a parent (null: at the top), before a sibling (null: last). */
export interface Place {
  parentId: string | null;
  beforeId: string | null;
}

/** One further up or down among the siblings; undefined at the end of the line. Abandoned ones are passed over. */
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
 * Where a goal goes that is dropped on another: under it, behind what is there. Dropped below all rows it goes to the
 * end of the top level. Undefined when that changes nothing, or would put it below itself.
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
