/** The plan in the transcript: changes by plan calls, and steps in answers to the planner. Pure. */
import { ASKS_FOR_PLAN, type GoalTree, type Message, type Part, type SessionInfo, type ToolResultPart } from "../protocol.gen";
import { goalNumbers, goalOf } from "../goals/tree";
import type { Item } from "./state";
import { t } from "../l10n";

export interface PlannedStep {
  goal: string;
  steps: readonly PlannedStep[];
}

/** Return what a read-only session leaves to carry out: open goals, or the text of its answer if there are no goals. */
export function plannedWork({ mode, trace }: SessionInfo, { goals }: GoalTree): "goals" | "text" | undefined {
  if (trace.agent !== "plan" && !(mode === "plan" && trace.agent === "build")) return undefined;
  if (goals.length === 0) return "text";
  return goals.some(({ status }) => status === "pending" || status === "in_progress") ? "goals" : undefined;
}

/** Return true if a message asks the model for a plan as JSON. */
export function asksForPlan(message: Message): boolean {
  return message.role === "user" && message.content.some((part) => part.type === "note" && part.text.startsWith("<planning>\n") && part.text.includes(ASKS_FOR_PLAN));
}

/** Return the keys of messages that answer a request for a plan, and whether such an answer is awaited. */
export function planAnswers(items: readonly Item[]): { keys: ReadonlySet<string>; awaited: boolean } {
  const keys = new Set<string>();
  let asked = false;
  for (const item of items) {
    if (item.kind !== "message") continue;
    if (asked && item.message.role === "assistant") keys.add(item.key);
    asked = asksForPlan(item.message);
  }
  return { keys, awaited: asked };
}

/** Parse the steps of an answer that consists only of JSON, fenced or not; undefined for anything else. */
export function planned(text: string): readonly PlannedStep[] | undefined {
  const inner = text.trim().replace(/^```[^\n]*\n([\s\S]*?)\n?```$/, "$1");
  let value: unknown;
  try {
    value = JSON.parse(inner);
  } catch {
    return undefined;
  }
  const list = Array.isArray(value) ? value : (value as { steps?: unknown } | null)?.steps;
  return Array.isArray(list) ? stepsIn(list, 2) : undefined;
}

/** Parse parts that are a plan: one text of JSON, and no other text. */
export function plannedParts(parts: readonly (Part | undefined)[]): readonly PlannedStep[] | undefined {
  const texts = parts.flatMap((part) => (part?.type === "text" && part.text.trim() ? [part.text] : []));
  return texts.length === 1 && texts[0] !== undefined ? planned(texts[0]) : undefined;
}

function stepsIn(list: readonly unknown[], depth: number): readonly PlannedStep[] | undefined {
  const found: PlannedStep[] = [];
  for (const one of list) {
    const fields: Record<string, unknown> = typeof one === "string" ? { goal: one } : typeof one === "object" && one !== null ? { ...one } : {};
    const goal = goalIn(fields);
    if (!goal) return undefined;
    const steps = depth > 1 && Array.isArray(fields["steps"]) ? (stepsIn(fields["steps"], depth - 1) ?? []) : [];
    found.push({ goal, steps });
  }
  return found;
}

function goalIn(fields: Record<string, unknown>): string {
  if (typeof fields["goal"] === "string") return fields["goal"].trim();
  return "keep" in fields ? t("Goal {0}, unchanged", String(fields["keep"])) : "";
}

/** Words of a screen reader for each operation on a goal. */
const SPOKEN = {
  added: (name: string) => t("Added goal {0}", name),
  completed: (name: string) => t("Completed goal {0}", name),
  abandoned: (name: string) => t("Abandoned goal {0}", name),
  removed: (name: string) => t("Removed goal {0}", name),
  focused: (name: string) => t("Now working on goal {0}", name),
  renamed: (name: string) => t("Renamed goal to {0}", name),
  moved: (name: string) => t("Moved goal {0}", name),
};
type Operation = keyof typeof SPOKEN;

/** A goal that a call of `goal` or `step` changed. */
export interface PlanChange {
  operation: Operation;
  goalId: string;
  description: string;
}

/** Return the plan changes of a call; empty when there are none, and for sessions of older versions. */
export function planChanges(result: ToolResultPart | undefined): PlanChange[] {
  const list = result?.metadata["plan"];
  if (!Array.isArray(list)) return [];
  return list.flatMap((one: unknown): PlanChange[] => {
    const { operation, goal_id: goalId, description } = (typeof one === "object" && one !== null ? one : {}) as Record<string, unknown>;
    const known = typeof operation === "string" && Object.hasOwn(SPOKEN, operation);
    return known && typeof goalId === "string" ? [{ operation: operation as Operation, goalId, description: typeof description === "string" ? description : "" }] : [];
  });
}

/** A line of the checklist. It has the goal's current number, so that it never refers to another goal. */
export type PlanLine = ReturnType<typeof planLine>;

export function planLine(change: PlanChange, tree: GoalTree) {
  const number = goalNumbers(tree).get(change.goalId) ?? "";
  const ended = change.operation === "completed" || change.operation === "abandoned";
  /** Result of the goal. */
  const summary = ended ? (goalOf(tree, change.goalId)?.summary ?? "") : "";
  return { ...change, number, summary, spoken: SPOKEN[change.operation]([number, change.description].filter(Boolean).join(" ")) };
}
