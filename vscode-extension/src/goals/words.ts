/** What is said about goals that the person changed. Pure. */
import type { Event, Goal, GoalTree } from "../protocol.gen";
import { goalNumbers, goalOf } from "../session/numbers";

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
      return `You added goal ${name(now, after)}`;
    case "goal_moved":
      return `You moved goal ${name(old, before)} to place ${goalNumbers(after).get(event.goalId) ?? "?"}`;
    case "goal_removed":
      return old && `You removed goal ${name(old, before)}: nobody had worked on it yet`;
    case "goal_updated": {
      const { updates } = event;
      const number = goalNumbers(before).get(event.goalId);
      if (typeof updates["description"] === "string") {
        return `You renamed goal ${number ?? ""} to “${brief(updates["description"])}”`.replace("  ", " ");
      }
      if (updates["status"] === "completed") return `You marked goal ${name(old, before)} as done`;
      if (updates["status"] === "abandoned") return `You abandoned goal ${name(old, before)}`;
      return event.currentId === event.goalId && before.currentId !== event.goalId
        ? `You set the focus on goal ${name(now, after)}`
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
