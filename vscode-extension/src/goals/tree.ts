/** The goal tree: numbers, ancestors, the rows of a list, and positions to move goals to. Pure. */
import { indexOf, numbersOf } from "../../../daemon/api/page/goals.js";
import type { Goal, GoalTree, HistoryChange } from "../protocol.gen";
import { t } from "../l10n";

/** The plan of a session without one. */
export const NO_GOALS: GoalTree = { mission: "", currentId: null, goals: [] };

function indexed(tree: GoalTree) {
  const index = indexOf<Goal>(tree);
  return { ...index, numbers: numbersOf(tree) };
}

/** Cached indexes. Trees are replaced, never changed, so an index stays valid. */
const indexes = new WeakMap<GoalTree, ReturnType<typeof indexed>>();

function known(tree: GoalTree): ReturnType<typeof indexed> {
  const index = indexes.get(tree) ?? indexed(tree);
  indexes.set(tree, index);
  return index;
}

/** Return the children of a goal (null: top level) in order. */
export function childrenOf(tree: GoalTree, parentId: string | null): readonly Goal[] {
  return known(tree).children.get(parentId) ?? [];
}

export function goalOf(tree: GoalTree, goalId: string | null | undefined): Goal | undefined {
  return known(tree).byId.get(goalId ?? "");
}

/** Return display numbers by goal id, as the daemon sent them: `1`, `2.1`, …; abandoned goals and their descendants have none. */
export function goalNumbers(tree: GoalTree): ReadonlyMap<string, string> {
  return known(tree).numbers;
}

/** Return a goal and its ancestors, innermost first. Stops at a broken or circular link. */
export function chain(tree: GoalTree, goalId: string | null): Goal[] {
  const found = new Set<Goal>();
  for (let goal = goalOf(tree, goalId); goal && !found.has(goal); goal = goalOf(tree, goal.parentId)) found.add(goal);
  return [...found];
}

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
export function progress({ goals }: { goals: readonly Pick<Goal, "status">[] }): { done: number; all: number } {
  const live = goals.filter((goal) => goal.status !== "abandoned");
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
