import { branchKey, dagOf, placeOfWork } from "../../../../daemon/api/page/dag.js";
import { DagView } from "../../../../daemon/api/page/draw.js";
import { layoutOf } from "../../../../daemon/api/page/layout.js";
import { findGoals, forkAround, levelOf, wayTo, type Level } from "../../../../daemon/api/page/levels.js";
import { Fetches, aroundWork, everything, takeBranch } from "../../../../daemon/api/page/expansion.js";
import { applyEvent, changesOf, isWorking } from "../../../../daemon/api/page/session.js";
import type { Branch, DagEdge, DagNode, Frame, SessionView } from "../../../../daemon/api/page/shapes";
import type { ToGraph } from "../messages";

/** Shortest time between two drawings while events arrive. */
const PAUSE_MS = 80;

export interface GraphHooks {
  /** Called when title, status or totals change. */
  onState(state: SessionView | null): void;
  onMessage(message: { branchId: string | null; goalId: string | null }): void;
  /** Called to show the messages of an edge; `reveal`: the user chose the node itself. */
  onOpen(node: DagNode, edge: DagEdge | null, reveal: boolean): void;
  onExpanded(): void;
  /** Called with the path to the current level. */
  onLevel(way: Level[]): void;
  /** Called to request the plan of a branch. */
  onBranch(id: string): void;
}

/** The graph of the current session: expanded nodes, selection, and updates from events. The web page's modules draw it. */
export class Graph {
  readonly view: DagView;
  state: SessionView | null = null;
  expanded = new Set<string>();
  /** The goal or branch that is shown alone. */
  root: string | null = null;
  follow = true;
  private readonly fetches = new Fetches();
  /** True to expand everything, including branches that arrive later. */
  private all = false;
  /** The agent's last shown position. */
  private place: string | null = null;
  /** True after the user moved or selected something, so that the view does not move automatically. */
  private held = false;
  private onEdge = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private width = 0;
  /** Index of the selected search result. */
  private at = -1;

  constructor(
    private readonly host: HTMLElement,
    private readonly hooks: GraphHooks,
  ) {
    // The view reports clicks on edges and on nodes alike, so remember which it was.
    host.addEventListener("click", ({ target }) => (this.onEdge = target instanceof Element && target.closest(".dag-edge") !== null), { capture: true });
    host.addEventListener("keydown", () => (this.onEdge = false), { capture: true });
    this.view = new DagView(host, {
      onSelect: () => (this.held = true),
      onOpen: (node, edge) => {
        this.held = true;
        hooks.onOpen(node, edge, !this.onEdge);
      },
      onToggle: (key, open) => this.toggle(key, open),
      onEnter: (key) => this.go(key),
      onUp: () => this.up(),
    });
    new ResizeObserver(() => {
      if (this.width !== this.host.clientWidth) this.draw();
      // The pane beside the graph takes space, but the node whose messages it shows should stay visible.
      else this.fit();
      if (this.held && this.view.selected) this.view.reveal(this.view.selected);
    }).observe(host);
  }

  get traceId(): string {
    return this.state?.trace.traceId ?? "";
  }

  /** Show a session. For the same session as before, expanded nodes stay expanded. */
  show(state: SessionView | null, expanded: readonly string[], root: string | null = null): void {
    const before = this.state;
    const same = before !== null && before.trace.traceId === state?.trace.traceId;
    this.state = state;
    this.fetches.clear();
    if (!same) {
      this.all = false;
      this.expanded = new Set(expanded);
      this.root = root;
      this.held = false;
      this.place = null;
      this.view.select(null);
    }
    for (const branch of Object.values(state?.branches ?? {})) {
      this.openFork(branch);
      const goalTree = before?.branches[branch.id]?.goalTree;
      // Keep the old plan until the new one arrives.
      if (same && goalTree && this.state) this.state = { ...this.state, branches: { ...this.state.branches, [branch.id]: { goalTree, ...branch } } };
      if (this.expanded.has(branchKey(branch.id)) || this.root === branchKey(branch.id) || this.root?.startsWith(`goal:${branch.id}/`)) this.fetch(branch.id);
    }
    this.hooks.onState(this.state);
    this.draw();
    if (!same) this.view.readable();
  }

  apply(frames: readonly Frame[]): void {
    let { state } = this;
    if (!state) return;
    let told = false;
    let graph = false;
    for (const frame of frames) {
      const before: SessionView = state;
      this.state = state = applyEvent(before, frame);
      const changed = changesOf(before, state, frame);
      if (frame.event === "branch_started") this.openFork(state.branches[frame["branch"]?.id]);
      if (changed.staleBranch) this.fetch(changed.staleBranch);
      if (changed.message) this.hooks.onMessage(changed.message);
      told ||= changed.told;
      graph ||= changed.graph;
    }
    if (told) this.hooks.onState(state);
    if (graph) this.soon();
  }

  /** Add a branch's plan. Branches within a branch are stored at the top level by their full ids. */
  branch({ branchId: id, goalTree, branches }: Extract<ToGraph, { type: "branch" }>): void {
    const again = this.fetches.end(id);
    if (!this.state?.branches[id]) return;
    // Frames sent before this answer were applied before, so it is never older than the state.
    this.state = takeBranch(this.state, id, { goalTree, goalCount: goalTree.goals.length, branches }, false);
    if (again) this.fetch(id);
    this.openAll();
    this.draw();
  }

  branchFailed(id: string): void {
    this.fetches.end(id);
    this.expanded.delete(branchKey(id));
    this.draw();
  }

  /** Expand everything, including goals of branches that arrive later. */
  expandAll(): void {
    this.all = true;
    this.openAll();
    this.changed();
  }

  private openAll(): void {
    const { state } = this;
    if (!state || !this.all) return;
    for (const key of everything(state)) this.expanded.add(key);
    for (const branch of Object.values(state.branches)) if (!branch.goalTree && !branch.removed) this.fetch(branch.id);
    this.hooks.onExpanded();
  }

  collapseAll(): void {
    this.all = false;
    this.expanded.clear();
    this.changed();
    this.view.readable();
  }

  /** Show only the goals within a goal or branch; null: the whole plan. */
  go(root: string | null): void {
    const { state, view } = this;
    if (!state) return;
    const from = this.root;
    const focus = this.host.contains(document.activeElement) || document.activeElement === document.body;
    if (root !== from) {
      this.root = root;
      this.held = false;
      view.viewport.touched = false;
      view.select(null);
      if (root?.startsWith("branch:")) this.fetch(root.slice("branch:".length));
      this.changed();
      view.readable();
    }
    // On the way up, select the level that was left; on the way down, the first node.
    let key = from;
    while (key !== null && !view.nodes.has(key)) key = levelOf(state, key);
    view.select(key ?? view.dag.nodes[1]?.key ?? "start", { focus });
  }

  private up(): boolean {
    if (!this.state || this.root === null) return false;
    this.go(levelOf(this.state, this.root));
    return true;
  }

  /** Mark the nodes that contain a text; returns their number. */
  find(text: string): number {
    const found = this.state ? findGoals(this.state, text) : [];
    this.view.matches = new Set(found);
    this.at = -1;
    this.view.draw();
    return found.length;
  }

  /** Select the next or previous search result, at whatever level it is. Returns its number, from 1. */
  next(by: 1 | -1): number {
    const { state } = this;
    const found = [...this.view.matches];
    if (!state || found.length === 0) return 0;
    this.at = (this.at + by + (this.at < 0 && by < 0 ? 1 : 0) + found.length) % found.length;
    const key = found[this.at] ?? "";
    this.held = true;
    if (!this.view.nodes.has(key)) {
      const fork = forkAround(state, key);
      if (fork) this.expanded.add(fork);
      this.root = levelOf(state, key);
      this.changed();
    }
    this.view.select(key);
    return this.at + 1;
  }

  private toggle(key: string, open: boolean): void {
    this.held = true;
    if (open) this.expanded.add(key);
    else {
      this.expanded.delete(key);
      this.all = false;
    }
    if (open && key.startsWith("branch:")) this.fetch(key.slice("branch:".length));
    const { selected } = this.view;
    const focus = this.host.contains(document.activeElement) || document.activeElement === document.body;
    this.changed();
    // The selected node may be hidden now, or replaced by the nodes within it.
    const next = selected && this.view.nodes.has(selected) ? selected : (open ? this.view.dag.nodes.find((node) => node.within[0] === key)?.key : key.replace(/^fork:/, "goal:"));
    if (selected) this.view.select(next ?? null, { focus });
  }

  /** Keep the graph readable and the selection visible until the user moves the view. True when it did. */
  private fit(): boolean {
    const { view } = this;
    if (this.held || view.viewport.touched) return false;
    view.readable();
    if (view.selected) view.reveal(view.selected);
    return true;
  }

  private changed(): void {
    this.hooks.onExpanded();
    this.draw();
  }

  /** Expand running branches and what surrounds them, because users want to see these. */
  private openFork(branch: Branch | undefined): void {
    if (this.state) for (const key of aroundWork(this.state, branch)) this.expanded.add(key);
  }

  private fetch(id: string): void {
    if (this.fetches.begin(id)) this.hooks.onBranch(id);
  }

  private soon(): void {
    this.timer ??= setTimeout(() => this.draw(), PAUSE_MS);
  }

  private draw(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { state, view } = this;
    if (!state) return;
    const begun = performance.now();
    const way = wayTo(state, this.root);
    this.root = way.at(-1)?.key ?? null;
    this.hooks.onLevel(way);
    const dag = dagOf(state.goalTree, state.branches, this.expanded, { working: isWorking(state), root: this.root });
    this.width = this.host.clientWidth;
    view.show(dag, layoutOf(dag, { wrap: Math.max(1, this.width) }));
    this.host.dataset["took"] = (performance.now() - begun).toFixed(0);
    this.host.dataset["nodes"] = String(dag.nodes.length);
    const place = placeOfWork(dag)?.key ?? null;
    // Until the user moves the view, show the whole growing graph, or the agent's position.
    if (!this.fit() && place && place !== this.place && this.follow) view.reveal(place);
    this.place = place;
  }
}
