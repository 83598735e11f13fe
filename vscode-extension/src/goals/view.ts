import * as vscode from "vscode";
import { oneLine } from "../explore/format";
import { asksFor, explorationOf } from "../explore/view";
import type { FileHistory } from "../history/model";
import type { Goal, GoalTree } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { changedGoals, childrenOf, drop, goalNumbers, goalOf, matchingGoals, NO_GOALS, progress } from "./tree";
import type { Branches } from "../session/state";
import type { GoalCommands } from "./commands";
import { below, branchElement, branchGoalElement, branchRow, branchTooltip, type GoalRow, placeOf, row, tooltip } from "./model";
import { Soon } from "../observable";
import { plural, t } from "../l10n";

const OPENED = "goalsOpened";
/** URI scheme of abandoned goals, whose rows get a gray decoration. */
const ABANDONED = "goalwright-abandoned";
const STATES: Record<GoalRow["state"], vscode.TreeItemCollapsibleState> = {
  leaf: vscode.TreeItemCollapsibleState.None,
  collapsed: vscode.TreeItemCollapsibleState.Collapsed,
  expanded: vscode.TreeItemCollapsibleState.Expanded,
};

/** MIME type of a dragged goal, which VS Code derives from the view's id. */
const DRAGGED = "application/vnd.code.tree.goalwright.goals";

/** The goal tree in the Explorer, with branches below the goals that started them. Elements: see `placeOf`. */
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
  /** Many events at once cause only one repaint. */
  private readonly soon = new Soon(30, () => this.refresh());
  /** The values from which the rows were made. */
  private drawn: readonly unknown[] = [];
  /** The filter's text, and the goals that it shows. */
  private query = "";
  private matching: ReadonlySet<string> | undefined;
  /** Goals whose file changes can be undone. */
  private withChanges: ReadonlySet<string> = new Set();
  /** A goal to reveal as soon as its branch's plan is loaded. */
  private wanted: { goalId: string; branchId: string } | undefined;

  /** `failed` is called with the error when a goal could not be moved. */
  constructor(
    private readonly sessions: SessionController,
    private readonly commands: GoalCommands,
    private readonly failed: (error: unknown) => void,
    private readonly memory: vscode.Memento,
    private readonly history: Pick<FileHistory, "value" | "onDidChange">,
  ) {
    this.view = vscode.window.createTreeView("goalwright.goals", {
      treeDataProvider: this,
      dragAndDropController: this,
      showCollapseAll: true,
    });
    this.disposables = [
      this.changed,
      this.soon,
      this.view,
      vscode.window.registerFileDecorationProvider(this),
      this.view.onDidChangeVisibility(({ visible }) => {
        if (visible) this.follow();
      }),
      // The row of a goal offers to undo its changes.
      history.onDidChange(() => this.soon.request()),
      sessions.onDidChange(() => {
        const { sessionId, state } = sessions;
        const rows = [sessionId, state?.goalTree, state?.branches, state?.pending, state?.session.status];
        // Streaming text, for example, changes no row.
        if (rows.every((value, index) => value === this.drawn[index])) return;
        this.drawn = rows;
        this.soon.request();
      }),
    ];
    this.refresh();
  }

  /** The selected goal, for keybindings. */
  get selected(): string | undefined {
    return this.view.selection[0];
  }

  handleDrag(source: readonly string[], data: vscode.DataTransfer): void {
    if (!source[0]?.startsWith("@")) data.set(DRAGGED, new vscode.DataTransferItem(source[0] ?? ""));
  }

  async handleDrop(target: string | undefined, data: vscode.DataTransfer): Promise<void> {
    const goalId: unknown = data.get(DRAGGED)?.value;
    if (target?.startsWith("@")) return;
    const place = typeof goalId === "string" ? drop(this.tree, goalId, target) : undefined;
    if (typeof goalId !== "string" || !place) return;
    try {
      await this.commands.move(goalId, place);
      await this.show(goalId);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Show only goals that contain certain words, while the user types and until the filter is cleared. Escape clears it, too. */
  filter(): void {
    const box = vscode.window.createInputBox();
    box.title = t("Filter goals");
    box.placeholder = t("Text of the goal or its summary, or its number");
    box.value = this.query;
    // A click on a found goal must not close the box and so clear the filter.
    box.ignoreFocusOut = true;
    let kept = false;
    box.onDidChangeValue((value) => this.setQuery(value));
    box.onDidAccept(() => {
      kept = true;
      box.hide();
    });
    box.onDidHide(() => {
      if (!kept) this.setQuery("");
      box.dispose();
    });
    box.show();
  }

  setQuery(query: string): void {
    if (query.trim() === this.query) return;
    this.query = query.trim();
    void vscode.commands.executeCommand("setContext", "goalwright.goalsFiltered", this.query !== "");
    this.refresh();
  }

  /** Reveal and select a goal. */
  async show(goalId: string): Promise<void> {
    if (!goalOf(this.tree, goalId)) return;
    this.refresh();
    // The row may have disappeared meanwhile.
    await this.view.reveal(goalId, { select: true, focus: false }).then(undefined, () => undefined);
  }

  /** Select a goal, a goal of a branch, or (without a goal) a branch. The plan of a branch may have to be loaded first. */
  async reveal(goalId: string | null, branchId: string | null): Promise<void> {
    if (branchId === null) {
      if (goalId !== null) await this.show(goalId);
      return;
    }
    if (!this.branches[branchId]) return;
    if (goalId !== null && !this.sessions.planOf(branchId)) {
      this.wanted = { goalId, branchId };
      return;
    }
    const element = goalId === null ? branchElement(branchId) : branchGoalElement(branchId, goalId);
    await this.view.reveal(element, { select: true, focus: false }).then(undefined, () => undefined);
  }

  getChildren(element?: string): string[] {
    const found = (goalId: string | null): string[] => below(this.tree, this.branches, goalId).filter((id) => this.matching?.has(id) ?? true);
    if (element === undefined) return found(null);
    const { branch, goal = null } = placeOf(element);
    if (branch === undefined) return found(goal);
    return childrenOf(this.treeOf(branch), goal).map(({ id }) => branchGoalElement(branch, id));
  }

  getParent(element: string): string | undefined {
    const { branch, goal } = placeOf(element);
    if (branch !== undefined && goal === undefined) return this.branches[branch]?.exploreStartId;
    const parent = goalOf(this.treeOf(branch), goal)?.parentId ?? undefined;
    if (branch === undefined) return parent;
    return parent ? branchGoalElement(branch, parent) : branchElement(branch);
  }

  getTreeItem(element: string): vscode.TreeItem {
    const { branch: inBranch, goal: goalId } = placeOf(element);
    if (inBranch !== undefined && goalId === undefined) return this.branchItem(inBranch);
    const tree = this.treeOf(inBranch);
    const goal = goalOf(tree, goalId);
    if (!goal) return new vscode.TreeItem("");
    const { state } = this.sessions;
    const running = inBranch === undefined ? state?.session.status !== "idle" : state?.branches[inBranch]?.status === "exploring";
    const number = goalNumbers(tree).get(goal.id);
    // Numbers of a branch's goals begin with its name: `A.1`.
    const shown = row({ tree, running, branched: this.branched(inBranch) }, goal, inBranch && number ? `${inBranch}.${number}` : number);
    // Matches of a filter may be below a completed goal.
    const isFound = this.matching !== undefined && shown.state !== "leaf";
    const item = itemOf(shown, isFound ? "expanded" : shown.state);
    // VS Code stores expanded rows by id, so a goal that has ended gets a new id to fold it.
    const folded = shown.state === "collapsed" && !this.branched(inBranch).has(goal.id);
    item.id = `${this.sessions.sessionId}:${element}${isFound ? ":found" : folded ? ":folded" : ""}`;
    if (inBranch === undefined) item.command = { command: "goalwright.showGoal", title: t("Show it in the chat"), arguments: [goal.id] };
    // Commands for goals apply to the session's goals only, because a branch controls its own plan.
    item.contextValue = inBranch === undefined ? this.context(goal, shown.current) : "branchGoal";
    if (shown.abandoned) item.resourceUri = vscode.Uri.from({ scheme: ABANDONED, path: `/${goal.id}` });
    return item;
  }

  private context({ id, status }: Goal, current: boolean): string {
    return `goal.${status}${current ? ".current" : ""}${this.withChanges.has(id) ? ".changed" : ""}`;
  }

  /** Create the tooltip on hover, so that its numbers are current without redrawing rows for each change. */
  resolveTreeItem(item: vscode.TreeItem, element: string): vscode.TreeItem {
    const { branch: inBranch, goal: goalId } = placeOf(element);
    if (inBranch !== undefined && goalId === undefined) {
      const branch = this.branches[inBranch];
      if (branch) item.tooltip = new vscode.MarkdownString(branchTooltip(branch, this.waits(branch.id)), true);
      return item;
    }
    const tree = this.treeOf(inBranch);
    const goal = goalOf(tree, goalId);
    const meter = inBranch !== undefined ? undefined : this.sessions.state?.meter?.goals.find((one) => one.goalId === element);
    if (goal) item.tooltip = new vscode.MarkdownString(tooltip(goal, goalNumbers(tree).get(goal.id), meter, tree), true);
    return item;
  }

  private branchItem(id: string): vscode.TreeItem {
    const branch = this.branches[id];
    const { state } = this.sessions;
    if (!branch || !state) return new vscode.TreeItem("");
    const view = explorationOf(state, branch.exploreStartId).branches.find((one) => one.branch.id === id);
    const shown = branchRow(branch, (view?.requests.length ?? 0) > 0, view?.chosen ?? false);
    const item = itemOf(shown, branch.goalCount > 0 && !branch.removed ? "collapsed" : "leaf");
    item.id = `${this.sessions.sessionId}:@${id}`;
    item.contextValue = shown.contextValue;
    return item;
  }

  private waits(id: string): boolean {
    return this.sessions.state?.pending.some((request) => asksFor(request.branchId, id)) ?? false;
  }

  private branched(inBranch: string | undefined): ReadonlySet<string> {
    return new Set(inBranch === undefined ? Object.values(this.branches).map((branch) => branch.exploreStartId) : []);
  }

  provideFileDecoration(uri: vscode.Uri): vscode.FileDecoration | undefined {
    if (uri.scheme !== ABANDONED) return undefined;
    return { color: new vscode.ThemeColor("disabledForeground"), tooltip: t("abandoned") };
  }

  dispose(): void {
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private get branches(): Branches {
    return this.sessions.state?.branches ?? {};
  }

  private get tree(): GoalTree {
    return this.sessions.state?.goalTree ?? NO_GOALS;
  }

  /** Return the plan of a branch, or without one of the session. */
  private treeOf(branch: string | undefined): GoalTree {
    return branch === undefined ? this.tree : (this.sessions.planOf(branch) ?? NO_GOALS);
  }

  private refresh(): void {
    const { mission, goals } = this.tree;
    const { done, all } = progress(this.tree);
    const matching = this.query ? matchingGoals(this.tree, this.query) : undefined;
    this.matching = matching?.shown;
    this.withChanges = changedGoals(this.tree, this.history.value.changes);
    this.view.message = matching ? filterWords(this.query, matching.count) : goals.length > 0 ? oneLine(mission) : "";
    this.view.description = all > 0 ? `${done}/${all}` : "";
    this.changed.fire(undefined);
    this.follow();
    const { wanted } = this;
    if (!wanted || !this.sessions.planOf(wanted.branchId)) return;
    this.wanted = undefined;
    void this.reveal(wanted.goalId, wanted.branchId);
  }

  /** Reveal the current goal without changing selection or focus. */
  private follow(): void {
    const { currentId } = this.tree;
    const shown = `${this.sessions.sessionId}:${currentId}`;
    if (!currentId || this.shown === shown || !goalOf(this.tree, currentId)) return;
    // VS Code keeps extension views in the Explorer collapsed, so the first plan ever opens this one.
    const first = this.memory.get(OPENED) !== true;
    if (!this.view.visible && !first) return;
    if (first) void this.memory.update(OPENED, true);
    this.shown = shown;
    // This fails when the row disappeared meanwhile; the next event tries again.
    this.view.reveal(currentId, { select: false, focus: false, expand: true }).then(undefined, () => undefined);
  }
}

function itemOf({ label, description, icon, spoken }: Pick<GoalRow, "label" | "description" | "icon" | "spoken">, state: GoalRow["state"]): vscode.TreeItem {
  const item = new vscode.TreeItem(label, STATES[state]);
  item.description = description;
  item.iconPath = new vscode.ThemeIcon(icon.id, icon.color ? new vscode.ThemeColor(icon.color) : undefined);
  item.accessibilityInformation = { label: spoken, role: "treeitem" };
  return item;
}

function filterWords(query: string, count: number): string {
  return count === 0 ? t("No goal matches “{0}”.", query) : plural(count, "Filter “{1}”: {0} goal", "Filter “{1}”: {0} goals", count, query);
}
