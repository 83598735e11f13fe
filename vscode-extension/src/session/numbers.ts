import type { Goal, GoalTree } from "../protocol.gen";

/** Children of a goal (null: top level) in order. */
export function childrenOf(tree: GoalTree, parentId: string | null): Goal[] {
  return tree.goals.filter((goal) => goal.parentId === parentId);
}

/** Display numbers by goal id: `1`, `2.1`, …; abandoned goals and what is below them have none. */
export function goalNumbers(tree: GoalTree): Map<string, string> {
  const numbers = new Map<string, string>();
  const walk = (parentId: string | null, prefix: string): void => {
    let next = 1;
    for (const goal of childrenOf(tree, parentId)) {
      if (goal.status === "abandoned") continue;
      const number = `${prefix}${next++}`;
      numbers.set(goal.id, number);
      walk(goal.id, `${number}.`);
    }
  };
  walk(null, "");
  return numbers;
}

/** The goal and all above it, innermost first. Stops at a broken or circular link. */
export function chain(tree: GoalTree, goalId: string | null): Goal[] {
  const byId = new Map(tree.goals.map((goal) => [goal.id, goal]));
  const found: Goal[] = [];
  for (let id = goalId; id !== null; ) {
    const goal = byId.get(id);
    if (!goal || found.includes(goal)) break;
    found.push(goal);
    id = goal.parentId;
  }
  return found;
}
