/** The goal tree as rows. Pure: what VS Code shows of it is in tree.ts. */
import type { Goal, GoalStats, GoalTree } from "../protocol.gen";
import { chain, childrenOf, goalNumbers } from "../session/numbers";

export interface GoalRow {
  id: string;
  label: string;
  /** Greyed text beside the label. */
  description: string;
  /** What a screen reader says. */
  spoken: string;
  icon: { id: string; color: string | undefined };
  tooltip: string;
  abandoned: boolean;
  current: boolean;
  state: "leaf" | "collapsed" | "expanded";
}

export interface GoalContext {
  tree: GoalTree;
  /** A turn is under way: the current goal spins. */
  running: boolean;
}

export const STATUS_WORDS: Record<Goal["status"], string> = {
  pending: "pending",
  in_progress: "in progress",
  completed: "completed",
  abandoned: "abandoned",
};

export function rows(context: GoalContext, parentId: string | null): GoalRow[] {
  const numbers = goalNumbers(context.tree);
  const live = new Set(chain(context.tree, context.tree.currentId).map((goal) => goal.id));
  return childrenOf(context.tree, parentId).map((goal) => row(context, goal, numbers.get(goal.id), live));
}

export function row(
  context: GoalContext,
  goal: Goal,
  number: string | undefined,
  live: ReadonlySet<string>,
): GoalRow {
  const current = goal.id === context.tree.currentId;
  const parent = context.tree.goals.some((other) => other.parentId === goal.id);
  const summary = oneLine(goal.summary ?? "");
  const status = STATUS_WORDS[goal.status];
  const label = number ? `${number} ${oneLine(goal.description)}` : oneLine(goal.description);
  return {
    id: goal.id,
    label,
    description: summary || (current && goal.status !== "completed" ? "current" : ""),
    spoken: [label, status, summary].filter(Boolean).join(", "),
    icon: icon(goal, current && context.running),
    tooltip: tooltip(goal, number),
    abandoned: goal.status === "abandoned",
    current,
    state: !parent ? "leaf" : live.has(goal.id) || goal.status === "in_progress" ? "expanded" : "collapsed",
  };
}

function icon(goal: Goal, working: boolean): GoalRow["icon"] {
  switch (goal.status) {
    case "pending":
      return { id: "circle-large-outline", color: "disabledForeground" };
    case "in_progress":
      return working ? { id: "loading~spin", color: "charts.blue" } : { id: "arrow-circle-right", color: "charts.blue" };
    case "completed":
      return { id: "pass-filled", color: "charts.green" };
    case "abandoned":
      return { id: "circle-slash", color: "disabledForeground" };
  }
}

/** Markdown. Text of the model is escaped: a tooltip must not become a link by what a goal is called. */
export function tooltip(goal: Goal, number: string | undefined): string {
  const title = escape(oneLine(goal.description));
  const struck = goal.status === "abandoned" ? `~~${title}~~` : title;
  const lines = [`**${number ? `${escape(number)} ` : ""}${struck}**`, `_${STATUS_WORDS[goal.status]}_`];
  if (goal.reason) lines.push(`**Why:** ${escape(oneLine(goal.reason))}`);
  if (goal.summary) lines.push(`**Summary:** ${escape(oneLine(goal.summary))}`);
  if (goal.mergeSummary) lines.push(`**Merged:** ${escape(oneLine(goal.mergeSummary))}`);
  const own = stats(goal.selfStats);
  const all = stats(goal.cumulativeStats);
  if (all) lines.push(`$(graph) ${all}${own && own !== all ? ` · own: ${own}` : ""}`);
  const preview = goal.cumulativeStats.preview ?? goal.selfStats.preview;
  if (preview) lines.push(`$(tools) ${escape(preview)}`);
  return lines.join("\n\n");
}

/** `12 messages · 3.4k tokens · $0.02`; empty when nothing was spent. */
export function stats(value: GoalStats): string {
  if (value.messageCount === 0 && value.totalTokens === 0) return "";
  const parts = [`${value.messageCount} ${value.messageCount === 1 ? "message" : "messages"}`];
  if (value.totalTokens > 0) parts.push(`${short(value.totalTokens)} tokens`);
  if (value.totalCost > 0) parts.push(money(value.totalCost));
  return parts.join(" · ");
}

/** `950`, `3.4k`, `1.2M`. */
export function short(count: number): string {
  if (count < 1000) return String(count);
  const [value, unit] = count < 999_500 ? [count / 1000, "k"] : [count / 1_000_000, "M"];
  return `${value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}

/** `$0.004`, `$1.23`. */
export function money(dollars: number): string {
  if (dollars === 0) return "$0";
  if (dollars < 0.001) return "<$0.001";
  return `$${dollars < 0.1 ? dollars.toFixed(3) : dollars.toFixed(2)}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

function escape(text: string): string {
  return text.replace(/[\\`*_{}[\]()#+\-.!~|<>$&]/g, "\\$&");
}
