/** Answers to the planner's question for steps: JSON for the daemon, a list for the person. Pure. */
import type { GoalTree, Message, Part, SessionInfo } from "../protocol.gen";
import type { Item } from "./state";
import { t } from "../l10n";

export interface PlannedStep {
  goal: string;
  steps: readonly PlannedStep[];
}

/** Whether a session that changes nothing has a plan that could be carried out now. */
export function isPlanned({ mode, trace }: SessionInfo, { goals }: GoalTree): boolean {
  const plans = trace.agent === "plan" || (mode === "plan" && trace.agent === "build");
  return plans && goals.some(({ status }) => status === "pending" || status === "in_progress");
}

const ASKS = '{"steps": [{"goal"';

/** Whether a message asks the model for a plan as JSON (source: daemon/planner/words.py). */
export function asksForPlan(message: Message): boolean {
  return message.role === "user" && message.content.some((part) => part.type === "note" && part.text.startsWith("<planning>\n") && part.text.includes(ASKS));
}

/** Keys of the messages that answer such a question, and whether one is awaited at the end. */
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

/** The steps of an answer that is nothing but JSON, in a fence or not; undefined for anything else. */
export function planned(text: string): readonly PlannedStep[] | undefined {
  const inner = text.trim().replace(/^```[^\n]*\n([\s\S]*?)\n?```$/, "$1");
  let value: unknown;
  try {
    value = JSON.parse(inner);
  } catch {
    return undefined;
  }
  const list = Array.isArray(value) ? value : stepsOf(value);
  return list && stepsIn(list, 2);
}

/** Parts that are a plan: one text of JSON, and nothing else to read. */
export function plannedParts(parts: readonly (Part | undefined)[]): readonly PlannedStep[] | undefined {
  const texts = parts.flatMap((part) => (part?.type === "text" && part.text.trim() ? [part.text] : []));
  return texts.length === 1 && texts[0] !== undefined ? planned(texts[0]) : undefined;
}

function stepsOf(value: unknown): readonly unknown[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const steps = (value as Record<string, unknown>)["steps"];
  return Array.isArray(steps) ? steps : undefined;
}

function stepsIn(list: readonly unknown[], depth: number): readonly PlannedStep[] | undefined {
  const found: PlannedStep[] = [];
  for (const one of list) {
    const fields: Record<string, unknown> = typeof one === "string" ? { goal: one } : typeof one === "object" && one !== null ? { ...one } : {};
    const goal = typeof fields["goal"] === "string" ? fields["goal"] : "keep" in fields ? t("Goal {0}, as it is", String(fields["keep"])) : "";
    if (!goal.trim()) return undefined;
    const steps = depth > 1 && Array.isArray(fields["steps"]) ? (stepsIn(fields["steps"], depth - 1) ?? []) : [];
    found.push({ goal: goal.trim(), steps });
  }
  return found;
}
