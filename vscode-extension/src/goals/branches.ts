/** Branches in the goal tree: their rows and texts. Pure. */
import { bareLine } from "../chat/webview/visible";
import { branchesOf } from "../explore/view";
import { board } from "../explore/score";
import { branchLabel, branchState, lastLine, oneLine, spentWords, STATE_WORDS, type BranchState } from "../explore/format";
import type { BranchMeta, Goal, GoalTree } from "../protocol.gen";
import { childrenOf } from "./tree";
import type { Branches } from "../session/state";
import type { GoalRow } from "./model";
import { t } from "../l10n";

/** A row of the tree: a goal of the session, a branch, or a goal of a branch. Goal ids are numbers. */
export type Place = { goal: string } | { branch: string } | { branch: string; goal: string };

export function placeOf(element: string): Place {
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

export interface BranchRow {
  label: string;
  description: string;
  spoken: string;
  icon: GoalRow["icon"];
  /** Context value for menus. */
  contextValue: string;
  state: BranchState;
}

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
    state,
  };
}

/** Return a tooltip in Markdown; `escape` makes the model's text harmless. */
export function branchTooltip(branch: BranchMeta, waiting: boolean, escape: (text: string) => string): string {
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
