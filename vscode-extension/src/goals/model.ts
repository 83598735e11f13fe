/** The goal tree as rows, and texts about the user's changes of goals. Pure: view.ts shows them in VS Code. */
import { statusWord } from "../../../daemon/api/page/format.js";
import { bareLine } from "../chat/webview/visible";
import { branchLabel, branchState, type BranchState, lastLine, oneLine, shortened, spentWords, STATE_WORDS } from "../explore/format";
import { duration } from "../amounts";
import { total } from "../meter/model";
import type { BranchMeta, Event, Goal, GoalMeter, GoalStats, GoalTree } from "../protocol.gen";
import { chain, childrenOf, goalNumbers, goalOf, NO_GOALS } from "./tree";
import { branchesOf } from "../explore/view";
import { board } from "../explore/score";
import type { Branches } from "../session/state";
import { t } from "../l10n";

export interface GoalRow {
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

export function row({ tree, running, branched }: GoalContext, goal: Goal, number: string | undefined): GoalRow {
  const current = goal.id === tree.currentId;
  const parent = childrenOf(tree, goal.id).length > 0 || branched?.has(goal.id) === true;
  const live = goal.status === "in_progress" || chain(tree, tree.currentId).includes(goal);
  const summary = bareLine(oneLine(goal.summary ?? ""));
  const status = statusWord(goal.status);
  const label = number ? `${number} ${oneLine(goal.description)}` : oneLine(goal.description);
  return {
    label,
    description: mergeWords(goal) || summary || (current && goal.status !== "completed" ? t("current") : ""),
    spoken: [label, status, mergeWords(goal), summary].filter(Boolean).join(", "),
    icon: icon(goal, current && running, current),
    abandoned: goal.status === "abandoned",
    current,
    state: !parent ? "leaf" : live ? "expanded" : "collapsed",
  };
}

const GOAL_ICONS: Readonly<Record<Goal["status"], GoalRow["icon"]>> = {
  pending: { id: "circle-large-outline", color: "disabledForeground" },
  in_progress: { id: "circle-large-filled", color: "charts.blue" },
  completed: { id: "pass-filled", color: "charts.green" },
  abandoned: { id: "circle-slash", color: "disabledForeground" },
};

function icon({ status }: Goal, working: boolean, current: boolean): GoalRow["icon"] {
  const known = GOAL_ICONS[status];
  return status === "in_progress" && current ? { ...known, id: working ? "loading~spin" : "arrow-circle-right" } : known;
}

/** Return a tooltip in Markdown. The model's text is escaped, so that a goal's name cannot become a link. */
export function tooltip(goal: Goal, number: string | undefined, meter?: GoalMeter, tree?: GoalTree): string {
  const title = escape(oneLine(goal.description));
  const struck = goal.status === "abandoned" ? `~~${title}~~` : title;
  const lines = [`**${number ? `${escape(number)} ` : ""}${struck}**`, `_${statusWord(goal.status)}_`];
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
  const spent = spentWords(value);
  return spent && value.durationMs > 0 ? `${duration(value.durationMs)} · ${spent}` : spent;
}

export function escape(text: string): string {
  return text.replace(/[\\`*_{}[\]()#+\-.!~|<>$&]/g, "\\$&");
}

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

/** Return what a row of the tree is: a goal of the session, a branch, or a goal of a branch. Goal ids are numbers. */
export function placeOf(element: string): { branch?: string; goal?: string } {
  if (!element.startsWith("@")) return { goal: element };
  const [branch = "", goal] = element.slice(1).split("/");
  return goal === undefined ? { branch } : { branch, goal };
}

export function branchElement(id: string): string {
  return `@${id}`;
}

export function branchGoalElement(id: string, goalId: string): string {
  return `@${id}/${goalId}`;
}

/** Return the rows below a goal: the branches it started, then its child goals. */
export function below(tree: GoalTree, all: Branches, goalId: string | null): string[] {
  const branches = goalId === null ? [] : branchesOf(all, goalId).map((branch) => branchElement(branch.id));
  return [...branches, ...childrenOf(tree, goalId).map((goal) => goal.id)];
}

/** The row of a branch; `contextValue` is for menus. */
type BranchRow = Pick<GoalRow, "label" | "description" | "spoken" | "icon"> & { contextValue: string };

const ICONS: Readonly<Record<BranchState, GoalRow["icon"]>> = {
  exploring: { id: "loading~spin", color: "charts.blue" },
  waiting: { id: "bell-dot", color: "editorWarning.foreground" },
  completed: { id: "git-branch", color: "charts.green" },
  abandoned: { id: "circle-slash", color: "disabledForeground" },
  removed: { id: "trash", color: "disabledForeground" },
};

export function branchRow(branch: BranchMeta, waiting: boolean, chosen: boolean): BranchRow {
  const state = branchState(branch, waiting);
  const label = branchLabel(branch);
  const live = state === "exploring" || state === "waiting";
  const facts = live
    ? [state === "waiting" ? STATE_WORDS.waiting : "", spentWords(branch.cumulativeStats), bareLine(lastLine(branch.lastMessage))]
    : [chosen ? t("used") : state === "completed" ? "" : STATE_WORDS[state], bareLine(oneLine(branch.summary ?? "")) || spentWords(branch.cumulativeStats)];
  const description = facts.filter(Boolean).join(" · ");
  return {
    label,
    description,
    spoken: [t("Branch {0}", label), STATE_WORDS[state], chosen ? t("used") : "", description].filter(Boolean).join(", "),
    icon: chosen ? { id: "pass-filled", color: "charts.green" } : ICONS[state],
    contextValue: `branch.${state}`,
  };
}

/** Return a tooltip in Markdown. The model's text is escaped. */
export function branchTooltip(branch: BranchMeta, waiting: boolean): string {
  const state = STATE_WORDS[branchState(branch, waiting)];
  const place = branch.node ? ` · ${t("on {0}", escape(branch.node))}` : "";
  const lines = [`**${t("Branch {0}", escape(branchLabel(branch)))}**`, `_${state}_${place}`];
  if (branch.summary) lines.push(escape(oneLine(branch.summary)));
  for (const { name, cells } of board([branch])) lines.push(t("{0}: {1}", name, escape(cells[0]?.text ?? "")));
  const spent = spentWords(branch.cumulativeStats);
  if (!branch.score && spent) lines.push(escape(spent));
  const last = lastLine(branch.lastMessage);
  if (!branch.summary && last) lines.push(escape(last));
  return lines.join("\n\n");
}

/** Return `chosen: A` for a goal in which a branch was chosen. */
export function mergeWords(goal: Goal): string {
  return goal.type === "explore_merge" && goal.selectedBranch ? t("chosen: {0}", goal.selectedBranch) : "";
}
