/** The goal tree as rows. Pure: view.ts shows them in VS Code. */
import { bareLine } from "../chat/webview/visible";
import { oneLine } from "../explore/format";
import { duration, messagesWord, money, tokensWord } from "../amounts";
import { total } from "../meter/model";
import type { Goal, GoalMeter, GoalStats, GoalTree } from "../protocol.gen";
import { mergeWords } from "./branches";
import { chain, childrenOf, goalNumbers, goalOf, NO_GOALS } from "../session/numbers";
import { t } from "../l10n";
import { nameOf } from "./format";

export interface GoalRow {
  id: string;
  label: string;
  /** Gray text beside the label. */
  description: string;
  /** Text for screen readers. */
  spoken: string;
  icon: { id: string; color: string | undefined };
  abandoned: boolean;
  current: boolean;
  state: "leaf" | "collapsed" | "expanded";
}

export interface GoalContext {
  tree: GoalTree;
  /** True while a turn runs, so that the current goal's icon spins. */
  running: boolean;
  /** Goals with branches below them. */
  branched?: ReadonlySet<string>;
}

export const STATUS_WORDS: Record<Goal["status"], string> = {
  pending: t("pending"),
  in_progress: t("in progress"),
  completed: t("completed"),
  abandoned: t("abandoned"),
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
  const parent = childrenOf(context.tree, goal.id).length > 0 || context.branched?.has(goal.id) === true;
  const summary = bareLine(oneLine(goal.summary ?? ""));
  const status = STATUS_WORDS[goal.status];
  const label = number ? `${number} ${oneLine(goal.description)}` : oneLine(goal.description);
  return {
    id: goal.id,
    label,
    description: mergeWords(goal) || summary || (current && goal.status !== "completed" ? t("current") : ""),
    spoken: [label, status, mergeWords(goal), summary].filter(Boolean).join(", "),
    icon: icon(goal, current && context.running, current),
    abandoned: goal.status === "abandoned",
    current,
    state: !parent ? "leaf" : live.has(goal.id) || goal.status === "in_progress" ? "expanded" : "collapsed",
  };
}

function icon(goal: Goal, working: boolean, current: boolean): GoalRow["icon"] {
  switch (goal.status) {
    case "pending":
      return { id: "circle-large-outline", color: "disabledForeground" };
    case "in_progress":
      return working ? { id: "loading~spin", color: "charts.blue" } : { id: current ? "arrow-circle-right" : "circle-large-filled", color: "charts.blue" };
    case "completed":
      return { id: "pass-filled", color: "charts.green" };
    case "abandoned":
      return { id: "circle-slash", color: "disabledForeground" };
  }
}

/** Return a tooltip in Markdown. The model's text is escaped, so that a goal's name cannot become a link. */
export function tooltip(goal: Goal, number: string | undefined, meter?: GoalMeter, tree?: GoalTree): string {
  const title = escape(oneLine(goal.description));
  const struck = goal.status === "abandoned" ? `~~${title}~~` : title;
  const lines = [`**${number ? `${escape(number)} ` : ""}${struck}**`, `_${STATUS_WORDS[goal.status]}_`];
  if (goal.reason) lines.push(`**${t("Why:")}** ${escape(oneLine(goal.reason))}`);
  const needs = (goal.needs ?? []).flatMap((id) => goalOf(tree ?? NO_GOALS, id) ?? []).map((need) => escape(nameOf(need, tree ?? NO_GOALS)));
  if (needs.length > 0) lines.push(`**${t("Needs:")}** ${needs.join(", ")}`);
  if (goal.summary) lines.push(`**${t("Summary:")}** ${escape(oneLine(goal.summary))}`);
  if (goal.mergeSummary) lines.push(`**${t("Merged:")}** ${escape(oneLine(goal.mergeSummary))}`);
  const spent = spending(goal, meter);
  if (spent) lines.push(`$(graph) ${spent}`);
  return lines.join("\n\n");
}

/** Format the usage of a goal and its descendants. The meter takes precedence, because it includes branches and sub-agents. */
function spending({ cumulativeStats }: Goal, meter: GoalMeter | undefined): string {
  const took = meter && total(meter.usage) > 0 ? { totalTokens: total(meter.usage), totalCost: meter.cost, unpricedTokens: meter.usage.unpriced } : {};
  return stats({ ...cumulativeStats, ...took });
}

/** Format usage: `3 min 5 s · 12 messages · 3.4k tokens · $0.02`; empty when nothing was used. */
export function stats(value: GoalStats): string {
  if (value.messageCount === 0 && value.totalTokens === 0) return "";
  const parts = [messagesWord(value.messageCount)];
  if (value.durationMs > 0) parts.unshift(duration(value.durationMs));
  if (value.totalTokens > 0) parts.push(tokensWord(value.totalTokens));
  if (value.totalCost > 0 || value.unpricedTokens > 0) parts.push(money(value.totalCost, value.unpricedTokens));
  return parts.join(" · ");
}

export function escape(text: string): string {
  return text.replace(/[\\`*_{}[\]()#+\-.!~|<>$&]/g, "\\$&");
}
