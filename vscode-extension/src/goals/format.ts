/** Texts about the user's changes of goals. Pure. */
import { oneLine, shortened } from "../explore/format";
import type { Event, Goal, GoalTree } from "../protocol.gen";
import { goalNumbers, goalOf } from "../session/numbers";
import { t } from "../l10n";

type GoalEvent = Extract<Event, { event: "goal_added" | "goal_updated" | "goal_moved" | "goal_removed" }>;

/** Name a goal in questions and lines: `2.1 Fix the discount`. */
export function nameOf(goal: Goal, tree: GoalTree): string {
  return [goalNumbers(tree).get(goal.id), brief(goal.description)].filter(Boolean).join(" ");
}

/**
 * Return the line for the transcript, `You renamed the goal “Ship” to “Publish”`; undefined for the agent's own
 * changes. Goals are named by description, because numbers change. For past events only the current tree is known, so
 * `before` is `after`.
 */
export function goalLine(event: GoalEvent, before: GoalTree, after: GoalTree): string | undefined {
  if (!event.by) return undefined;
  if (event.event === "goal_added") return t("You added the goal {0}", quoted(event.goal.description));
  const goal = goalOf(before, event.goalId) ?? goalOf(after, event.goalId);
  const name = quoted(goal?.description ?? (event.event === "goal_removed" ? event.description : ""));
  if (!name) return undefined;
  switch (event.event) {
    case "goal_moved": {
      const following = goalOf(after, event.beforeId);
      return following ? t("You moved the goal {0} before {1}", name, quoted(following.description)) : t("You moved the goal {0} to the end", name);
    }
    case "goal_removed":
      return event.reason ? t("You removed the goal {0}: {1}", name, quoted(event.reason)) : t("You removed the goal {0} (not started)", name);
    case "goal_updated":
      return updatedLine(event, name, before, after);
  }
}

function updatedLine(event: Extract<GoalEvent, { event: "goal_updated" }>, name: string, before: GoalTree, after: GoalTree): string | undefined {
  const { description, status, summary } = event.updates;
  if (typeof description === "string") return before === after ? t("You renamed a goal to {0}", quoted(description)) : t("You renamed the goal {0} to {1}", name, quoted(description));
  if (status === "completed") return t("You marked the goal {0} as done", name);
  if (status === "abandoned") return typeof summary === "string" && summary.trim() ? t("You abandoned the goal {0}: {1}", name, quoted(summary)) : t("You abandoned the goal {0}", name);
  return event.currentId === event.goalId && (before === after || before.currentId !== event.goalId) && status === "in_progress" ? t("Now working on goal {0}", name) : undefined;
}

function quoted(text: string): string {
  return text.trim() ? t("“{0}”", brief(text)) : "";
}

function brief(text: string): string {
  return shortened(oneLine(text), 60);
}
