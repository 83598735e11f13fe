import type { AffectedGoal, Event, Goal, GoalMoved, GoalTree } from "../protocol.gen";
import { camelKeys } from "./read";

/** The tree after an event; the same object when the event is not about goals. */
export function applyToGoals(tree: GoalTree, event: Event): GoalTree {
  switch (event.event) {
    case "goal_added":
      return added(tree, event.goal, event.index);
    case "goal_updated": {
      const goals = tree.goals.map((goal) =>
        goal.id === event.goalId ? ({ ...goal, ...camelKeys(event.updates) } as Goal) : goal,
      );
      return { ...tree, goals: affected(goals, event.affectedGoals), currentId: event.currentId };
    }
    case "goal_moved":
      return moved(tree, event);
    case "goal_removed":
      return { ...tree, goals: tree.goals.filter((goal) => goal.id !== event.goalId), currentId: event.currentId };
    case "message_added":
      return event.affectedGoals.length > 0 ? { ...tree, goals: affected(tree.goals, event.affectedGoals) } : tree;
    case "session_updated": {
      const { mission } = event.updates;
      return typeof mission === "string" ? { ...tree, mission } : tree;
    }
    default:
      return tree;
  }
}

function added(tree: GoalTree, goal: Goal, index: number | null): GoalTree {
  const goals = tree.goals.filter((other) => other.id !== goal.id);
  goals.splice(index ?? goals.length, 0, goal);
  return { ...tree, goals };
}

/** Under its new parent, before the given sibling or behind all. What is below it comes along by its own links. */
function moved(tree: GoalTree, { goalId, parentId, beforeId, affectedGoals }: GoalMoved): GoalTree {
  const goal = tree.goals.find((one) => one.id === goalId);
  if (!goal) return tree;
  const goals = tree.goals.filter((one) => one.id !== goalId);
  const before = goals.findIndex((one) => one.id === beforeId && one.parentId === parentId);
  goals.splice(before < 0 ? goals.length : before, 0, { ...goal, parentId });
  return { ...tree, goals: affected(goals, affectedGoals) };
}

function affected(goals: Goal[], changes: readonly AffectedGoal[]): Goal[] {
  if (changes.length === 0) return goals;
  const byId = new Map(changes.map((change) => [change.goalId, change]));
  return goals.map((goal) => {
    const change = byId.get(goal.id);
    if (!change) return goal;
    return {
      ...goal,
      status: change.status ?? goal.status,
      summary: change.summary ?? goal.summary,
      selfStats: change.selfStats ?? goal.selfStats,
      cumulativeStats: change.cumulativeStats ?? goal.cumulativeStats,
    };
  });
}
