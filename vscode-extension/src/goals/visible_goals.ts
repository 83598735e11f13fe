/** The plan as rows of a list, in which finished goals are folded by default. Pure. */
import type { Goal, GoalTree, HistoryChange } from "../protocol.gen";
import { chain, childrenOf, goalNumbers, goalOf } from "../session/numbers";
import { t } from "../l10n";

export interface ShownGoal {
  goal: Goal;
  /** Number such as `2.1`; empty for abandoned goals. */
  number: string;
  /** Level, from 1 at the top. */
  level: number;
  /** True when there are goals below it. */
  parent: boolean;
  isFolded: boolean;
}

/** Return the rows from top to bottom. `folded`: goals that the user folded (true) or expanded (false). */
export function shownGoals(tree: GoalTree, folded: ReadonlyMap<string, boolean>): ShownGoal[] {
  const numbers = goalNumbers(tree);
  const live = new Set(chain(tree, tree.currentId).map((goal) => goal.id));
  const rows: ShownGoal[] = [];
  const walk = (parentId: string | null, level: number): void => {
    for (const goal of childrenOf(tree, parentId)) {
      const parent = childrenOf(tree, goal.id).length > 0;
      const ended = goal.status === "completed" || goal.status === "abandoned";
      const isFolded = parent && (folded.get(goal.id) ?? (ended && !live.has(goal.id)));
      rows.push({ goal, number: numbers.get(goal.id) ?? "", level, parent, isFolded });
      if (!isFolded) walk(goal.id, level + 1);
    }
  };
  walk(null, 1);
  return rows;
}

/**
 * Find goals that contain all words of a query in number, description, reason or summary. Returns their count, and
 * their ids with those of all ancestors.
 */
export function matchingGoals(tree: GoalTree, query: string): { count: number; shown: ReadonlySet<string> } {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const numbers = goalNumbers(tree);
  const shown = new Set<string>();
  let count = 0;
  for (const goal of tree.goals) {
    const text = [numbers.get(goal.id), goal.description, goal.reason, goal.summary].join("\n").toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    count++;
    for (const one of chain(tree, goal.id)) shown.add(one.id);
  }
  return { count, shown };
}

/** Return the goals with changed files on disk and their ancestors, for which undo has an effect. */
export function changedGoals(tree: GoalTree, changes: readonly Pick<HistoryChange, "goalId" | "state">[]): ReadonlySet<string> {
  const applied = new Set(changes.flatMap(({ goalId, state }) => (goalId !== null && state === "applied" ? [goalId] : [])));
  return new Set([...applied].flatMap((goalId) => chain(tree, goalId).map(({ id }) => id)));
}

/** Count the completed goals and all goals, without abandoned ones. */
export function progress(tree: GoalTree): { done: number; all: number } {
  const live = tree.goals.filter((goal) => goal.status !== "abandoned");
  return { done: live.filter((goal) => goal.status === "completed").length, all: live.length };
}

/** Return the description of the current goal, or else how the plan ended. */
export function nowWords(tree: GoalTree): string {
  const current = goalOf(tree, tree.currentId);
  if (current) return current.description;
  const { done, all } = progress(tree);
  if (all === 0) return t("All goals were abandoned");
  return done === all ? t("All goals are finished") : t("No goal is being worked on");
}
