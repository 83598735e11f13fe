import * as vscode from "vscode";
import type { GoalTree } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { chain, childrenOf, goalNumbers, goalOf } from "../session/numbers";
import type { Update } from "../session/state";
import type { GoalCommands } from "./commands";
import { oneLine, row, tooltip, type GoalRow } from "./model";
import { drop } from "./places";

const EMPTY: GoalTree = { mission: "", currentId: null, goals: [] };
/** Rows of abandoned goals get this scheme, and by it their grey. */
const ABANDONED = "goalwright-abandoned";
const STATES: Record<GoalRow["state"], vscode.TreeItemCollapsibleState> = {
  leaf: vscode.TreeItemCollapsibleState.None,
  collapsed: vscode.TreeItemCollapsibleState.Collapsed,
  expanded: vscode.TreeItemCollapsibleState.Expanded,
};

/** What is dragged within the tree; VS Code makes this name from the view's. */
const DRAGGED = "application/vnd.code.tree.goalwright.goals";

/** The goal tree in the Explorer. Elements are goal ids. */
export class GoalsView
  implements
    vscode.TreeDataProvider<string>,
    vscode.TreeDragAndDropController<string>,
    vscode.FileDecorationProvider,
    vscode.Disposable
{
  readonly dragMimeTypes = [];
  readonly dropMimeTypes = [DRAGGED];
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly view: vscode.TreeView<string>;
  private readonly disposables: vscode.Disposable[];
  private shown: string | null = null;
  private timer: NodeJS.Timeout | undefined;

  /** `failed`: how the person is told that a goal could not be moved. */
  constructor(
    private readonly sessions: SessionController,
    private readonly commands: GoalCommands,
    private readonly failed: (error: unknown) => void,
  ) {
    this.view = vscode.window.createTreeView("goalwright.goals", {
      treeDataProvider: this,
      dragAndDropController: this,
      showCollapseAll: true,
    });
    this.disposables = [
      this.changed,
      this.view,
      vscode.window.registerFileDecorationProvider(this),
      this.view.onDidChangeVisibility(({ visible }) => {
        if (visible) this.follow();
      }),
      sessions.onDidChange((change) => {
        if (change.kind === "reset" || (change.kind === "updates" && change.updates.some(concerns))) this.refreshSoon();
      }),
    ];
    this.refresh();
  }

  /** The goal a key was pressed on. */
  get selected(): string | undefined {
    return this.view.selection[0];
  }

  handleDrag(source: readonly string[], data: vscode.DataTransfer): void {
    data.set(DRAGGED, new vscode.DataTransferItem(source[0] ?? ""));
  }

  async handleDrop(target: string | undefined, data: vscode.DataTransfer): Promise<void> {
    const goalId: unknown = data.get(DRAGGED)?.value;
    const place = typeof goalId === "string" ? drop(this.tree, goalId, target) : undefined;
    if (typeof goalId !== "string" || !place) return;
    try {
      await this.commands.move(goalId, place);
      await this.show(goalId);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Opens the way to a goal and selects it. */
  async show(goalId: string): Promise<void> {
    if (!goalOf(this.tree, goalId)) return;
    this.refresh();
    // The row may have gone again in the meantime.
    await this.view.reveal(goalId, { select: true, focus: false }).then(undefined, () => undefined);
  }

  getChildren(element?: string): string[] {
    return childrenOf(this.tree, element ?? null).map((goal) => goal.id);
  }

  getParent(element: string): string | undefined {
    return goalOf(this.tree, element)?.parentId ?? undefined;
  }

  getTreeItem(element: string): vscode.TreeItem {
    const tree = this.tree;
    const goal = goalOf(tree, element);
    if (!goal) return new vscode.TreeItem("");
    const live = new Set(chain(tree, tree.currentId).map((one) => one.id));
    const running = this.sessions.state?.session.status !== "idle";
    const shown = row({ tree, running }, goal, goalNumbers(tree).get(goal.id), live);
    const item = new vscode.TreeItem(shown.label, STATES[shown.state]);
    item.id = `${this.sessions.sessionId}:${goal.id}`;
    item.description = shown.description;
    item.iconPath = new vscode.ThemeIcon(
      shown.icon.id,
      shown.icon.color ? new vscode.ThemeColor(shown.icon.color) : undefined,
    );
    item.accessibilityInformation = { label: shown.spoken, role: "treeitem" };
    item.contextValue = `goal.${goal.status}${shown.current ? ".current" : ""}`;
    if (shown.abandoned) item.resourceUri = vscode.Uri.from({ scheme: ABANDONED, path: `/${goal.id}` });
    return item;
  }

  /** The tooltip, made when the pointer rests on a row: its numbers are then the newest, without a repaint for each. */
  resolveTreeItem(item: vscode.TreeItem, element: string): vscode.TreeItem {
    const { tree } = this;
    const goal = goalOf(tree, element);
    const meter = this.sessions.state?.meter?.goals.find((one) => one.goalId === element);
    if (goal) item.tooltip = new vscode.MarkdownString(tooltip(goal, goalNumbers(tree).get(element), meter), true);
    return item;
  }

  provideFileDecoration(uri: vscode.Uri): vscode.FileDecoration | undefined {
    if (uri.scheme !== ABANDONED) return undefined;
    return { color: new vscode.ThemeColor("disabledForeground"), tooltip: "abandoned" };
  }

  dispose(): void {
    clearTimeout(this.timer);
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private get tree(): GoalTree {
    return this.sessions.state?.goalTree ?? EMPTY;
  }

  /** A cascade is many events in one moment, and one repaint. */
  private refreshSoon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.refresh();
    }, 30);
  }

  private refresh(): void {
    const { mission, goals } = this.tree;
    const live = goals.filter((goal) => goal.status !== "abandoned");
    const done = live.filter((goal) => goal.status === "completed").length;
    this.view.message = goals.length > 0 ? oneLine(mission) : "";
    this.view.description = live.length > 0 ? `${done}/${live.length}` : "";
    this.changed.fire(undefined);
    this.follow();
  }

  /** Opens the way to the current goal, without taking selection or focus. */
  private follow(): void {
    const { currentId } = this.tree;
    const shown = `${this.sessions.sessionId}:${currentId}`;
    if (!currentId || !this.view.visible || this.shown === shown) return;
    if (!goalOf(this.tree, currentId)) return;
    this.shown = shown;
    // It fails when the row went away in between; the next event brings the next try.
    this.view.reveal(currentId, { select: false, focus: false, expand: true }).then(undefined, () => undefined);
  }
}

/** Only what changes a row is worth a repaint; text that streams is not. */
function concerns(update: Update): boolean {
  if (!("event" in update)) return false;
  const { event } = update;
  switch (event.event) {
    case "message_added":
      return event.affectedGoals.length > 0;
    case "goal_added":
    case "goal_updated":
    case "goal_moved":
    case "goal_removed":
    case "session_updated":
    case "turn_started":
    case "turn_ended":
      return true;
    default:
      return false;
  }
}
