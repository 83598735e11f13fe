/** What is said about goals that the person changed. Pure. */
import type { Event, Goal, GoalTree } from "../protocol.gen";
import { goalNumbers, goalOf } from "../session/numbers";
import { t } from "../l10n";

type GoalEvent = Extract<Event, { event: "goal_added" | "goal_updated" | "goal_moved" | "goal_removed" }>;

/** Longer descriptions are cut where they only name a goal. */
const MOST_LETTERS = 60;

/** `2.1 Fix the discount`, as goals are called in questions and lines. */
export function nameOf(goal: Goal, tree: GoalTree): string {
  return [goalNumbers(tree).get(goal.id), brief(goal.description)].filter(Boolean).join(" ");
}

/** The quiet line in the transcript, `You renamed goal 2 to “Publish”`; undefined for what the agent did itself. */
export function goalLine(event: GoalEvent, before: GoalTree, after: GoalTree): string | undefined {
  if (!event.by) return undefined;
  const old = goalOf(before, idOf(event));
  const now = goalOf(after, idOf(event));
  const name = (goal: Goal | undefined, tree: GoalTree): string => (goal ? nameOf(goal, tree) : "");
  switch (event.event) {
    case "goal_added":
      return t("You added goal {0}", name(now, after));
    case "goal_moved":
      // Of the past, which has no tree of its own, nobody knows the place.
      if (before === after) return undefined;
      return t("You moved goal {0} to place {1}", name(old, before), goalNumbers(after).get(event.goalId) ?? "?");
    case "goal_removed":
      if (event.reason) return old ? t("You removed goal {0}: “{1}”", name(old, before), event.reason) : t("You removed a goal: “{0}”", event.reason);
      return old && t("You removed goal {0} (not started)", name(old, before));
    case "goal_updated": {
      const { updates } = event;
      const number = goalNumbers(before).get(event.goalId);
      if (typeof updates["description"] === "string") {
        return t("You renamed goal {0} to “{1}”", number ?? "", brief(updates["description"])).replace("  ", " ");
      }
      if (updates["status"] === "completed") return t("You marked goal {0} as done", name(old, before));
      if (updates["status"] === "abandoned") return t("You abandoned goal {0}", name(old, before));
      return event.currentId === event.goalId && before.currentId !== event.goalId
        ? t("Now working on {0}", name(now, after))
        : undefined;
    }
  }
}

function idOf(event: GoalEvent): string {
  return event.event === "goal_added" ? event.goal.id : event.goalId;
}

function brief(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > MOST_LETTERS ? `${line.slice(0, MOST_LETTERS - 1).trimEnd()}…` : line;
}
