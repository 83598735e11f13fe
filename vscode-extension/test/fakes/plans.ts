/** Plans with the display numbers that the daemon sends with them. */
import { indexOf } from "../../../daemon/api/page/goals.js";
import type { Goal, GoalTree } from "../../../daemon/api/page/shapes";

/** Count the goals of a plan, as `numbers` of `daemon/plan/goal_index.py`. */
export function numbersIn(tree: GoalTree): Record<string, string> {
  const { children } = indexOf<Goal>(tree);
  const numbers: Record<string, string> = {};
  const todo = [{ parent: null as string | null, prefix: "" }];
  for (let one = todo.pop(); one; one = todo.pop()) {
    let next = 1;
    for (const { id, status } of children.get(one.parent) ?? []) {
      if (status === "abandoned") continue;
      numbers[id] = `${one.prefix}${next++}`;
      if (children.has(id)) todo.push({ parent: id, prefix: `${numbers[id]}.` });
    }
  }
  return numbers;
}

/** Return a plan as clients hold it. */
export const sent = <T extends GoalTree>(tree: T): T => ({ ...tree, numbers: numbersIn(tree) });
