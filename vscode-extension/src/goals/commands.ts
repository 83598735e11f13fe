import * as vscode from "vscode";
import type { Parts } from "../extension";
import { fileLines, headline } from "../history/format";
import { ErrorCode, type Goal, type GoalResult, type GoalTree } from "../protocol.gen";
import { changedGoals, goalOf, NO_GOALS, type Place, step } from "./tree";
import { nameOf } from "./model";
import { plural, t } from "../l10n";

const SHOWN_MS = 4_000;
const ABANDON = t("Abandon");
const REVERT = t("Abandon and Revert Files");

/**
 * The user's changes of the plan. The daemon applies them and sends events; nothing changes here before that. They are for
 * the session that was shown when the user was asked, because the boxes stay open while the user looks at another one.
 */
export class GoalCommands {
  constructor(private readonly parts: Pick<Parts, "daemon" | "sessions" | "history">) {}

  /** Add a goal at the top level or below another. Starts a session if there is none. */
  async add(parentId?: string): Promise<string | null> {
    const parent = parentId === undefined ? undefined : this.goal(parentId);
    const { sessionId } = this.parts.sessions;
    const description = await ask({
      title: parent ? t("Add a goal below “{0}”", this.name(parent)) : t("Add a goal"),
      prompt: t("Describe the goal. The agent sees it on its next step."),
      placeHolder: t("Publish the package"),
    });
    if (description === undefined) return null;
    const about = { sessionId: sessionId ?? (await this.parts.sessions.ensure()), parentId: parent?.id ?? null };
    const { goalId } = await this.parts.daemon.request("goalwright/goal/add", { ...about, description });
    return goalId;
  }

  /** Show all actions for a goal as a list. */
  async choose(goalId: string): Promise<void> {
    const goal = this.goal(goalId);
    if (!goal) return;
    const open = goal.status === "pending" || goal.status === "in_progress";
    const action = (icon: string, label: string, command: string): vscode.QuickPickItem & { command: string } => ({ label: `$(${icon}) ${label}`, command });
    const isCurrent = goal.id === this.tree.currentId;
    const items = [
      ...(goal.cumulativeStats.messageCount > 0 ? [action("comment-discussion", t("Show it in the chat"), "showGoal")] : []),
      action("type-hierarchy", t("Show in the graph"), "showGraph"),
      ...(open
        ? [
            ...(isCurrent ? [] : [action("target", t("Do this next"), "focusGoal")]),
            action("add", t("Add a goal below it…"), "addSubGoal"),
            action("edit", t("Rename…"), "renameGoal"),
            ...(step(this.tree, goalId, "up") ? [action("arrow-up", t("Move up"), "moveGoalUp")] : []),
            ...(step(this.tree, goalId, "down") ? [action("arrow-down", t("Move down"), "moveGoalDown")] : []),
            action("pass", t("Mark as done…"), "doneGoal"),
            action("circle-slash", t("Abandon…"), "abandonGoal"),
          ]
        : []),
      ...(this.changedFiles(goal)
        ? [action("diff-multiple", t("Review its file changes"), "reviewGoal"), action("discard", t("Undo its file changes…"), "undoGoal")]
        : []),
    ];
    const picked = await vscode.window.showQuickPick(items, { title: this.name(goal) });
    if (picked) await vscode.commands.executeCommand(`goalwright.${picked.command}`, goalId);
  }

  async rename(goalId: string): Promise<void> {
    const goal = this.goal(goalId);
    if (!goal) return;
    const about = this.about(goalId);
    const description = await ask({ title: t("Rename goal “{0}”", this.name(goal)), value: goal.description });
    if (description === undefined || description === goal.description) return;
    await this.parts.daemon.request("goalwright/goal/rename", { ...about, description });
  }

  async focus(goalId: string): Promise<void> {
    await this.parts.daemon.request("goalwright/goal/focus", this.about(goalId));
  }

  async done(goalId: string): Promise<void> {
    const goal = this.goal(goalId);
    if (!goal) return;
    const about = this.about(goalId);
    const summary = await ask({
      title: t("Mark goal “{0}” as done", this.name(goal)),
      prompt: t("Summary (replaces this goal's details in the context)"),
    });
    if (summary !== undefined) await this.parts.daemon.request("goalwright/goal/done", { ...about, summary });
  }

  async abandon(goalId: string): Promise<void> {
    const goal = this.goal(goalId);
    if (!goal) return;
    const about = this.about(goalId);
    const question = t("Abandon goal “{0}”?", this.name(goal));
    const changedFiles = this.changedFiles(goal);
    const reason = await ask({
      title: t("Abandon goal “{0}”", this.name(goal)),
      prompt: t("Why are you dropping it? The agent keeps this reason."),
    });
    if (reason === undefined) return;
    const revertFiles = await this.askAboutFiles(question, changedFiles, { ...about, reason });
    if (revertFiles === undefined) return;
    const { files } = await this.parts.daemon.request("goalwright/goal/abandon", { ...about, reason, revertFiles });
    if (revertFiles) tell(plural(files.length, "reverted the changes of {0} file", "reverted the changes of {0} files"));
  }

  /** Ask whether to revert a goal's file changes, if there are any. Undefined: cancel. */
  private async askAboutFiles(question: string, changedFiles: boolean, about: { sessionId: string; goalId: string; reason: string }): Promise<boolean | undefined> {
    let planned: GoalResult;
    try {
      planned = await this.parts.daemon.request("goalwright/goal/abandon", { ...about, revertFiles: true, dryRun: true });
    } catch (error) {
      const { code } = error as { code?: unknown };
      // No files were changed for this goal.
      if (code === ErrorCode.UNKNOWN_REQUEST) return false;
      // Nothing can be reverted while a turn runs, which matters only if files were changed.
      if (code === ErrorCode.BUSY && !changedFiles) return false;
      if (code !== ErrorCode.HISTORY_CONFLICT && code !== ErrorCode.BUSY) throw error;
      const { message, detail } = headline((error as Error).message);
      const words = [t("Its file changes cannot be reverted now and would stay:"), message, detail].filter(Boolean).join("\n");
      return (await choose(question, words, ABANDON)) === ABANDON ? false : undefined;
    }
    if (planned.files.length === 0) return false;
    const words = `${t("Files were changed for it. Reverting undoes only these changes; your own edits are kept:")}\n\n${fileLines(planned.files)}`;
    const choice = await choose(question, words, ABANDON, REVERT);
    return choice === undefined ? undefined : choice === REVERT;
  }

  /** Return true if files on disk were changed for a goal or its descendants. */
  private changedFiles({ id }: Goal): boolean {
    return changedGoals(this.tree, this.parts.history.value.changes).has(id);
  }

  /** Move a goal up or down among its siblings. */
  async shift(goalId: string, by: "up" | "down"): Promise<void> {
    const place = step(this.tree, goalId, by);
    if (place) await this.move(goalId, place);
    else tell(by === "up" ? t("this goal is already first") : t("this goal is already last"));
  }

  async move(goalId: string, place: Place): Promise<void> {
    await this.parts.daemon.request("goalwright/goal/move", { ...this.about(goalId), ...place });
  }

  private get tree(): GoalTree {
    return this.parts.sessions.state?.goalTree ?? NO_GOALS;
  }

  private goal(goalId: string): Goal | undefined {
    return goalOf(this.tree, goalId);
  }

  private name(goal: Goal): string {
    return nameOf(goal, this.tree);
  }

  private about(goalId: string): { sessionId: string; goalId: string } {
    return { sessionId: this.parts.sessions.required(), goalId };
  }
}

/** Ask for a line of text, trimmed; undefined when canceled. */
async function ask(options: vscode.InputBoxOptions): Promise<string | undefined> {
  const text = await vscode.window.showInputBox({
    ...options,
    ignoreFocusOut: true,
    // An empty box shows no error, because the user has typed nothing yet.
    validateInput: (value) => (value !== "" && value.trim() === "" ? t("Say it in a few words.") : undefined),
  });
  return text?.trim() || undefined;
}

function choose(question: string, detail: string, ...buttons: string[]): Thenable<string | undefined> {
  return vscode.window.showWarningMessage(question, { modal: true, detail }, ...buttons);
}

function tell(words: string): void {
  vscode.window.setStatusBarMessage(`Goalwright: ${words}`, SHOWN_MS);
}
