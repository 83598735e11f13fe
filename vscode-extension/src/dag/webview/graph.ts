import { branchKey, placeOfWork } from "../../../../daemon/api/page/dag.js";
import { layoutOf } from "../../../../daemon/api/page/layout.js";
import { findGoals, forkAround, levelOf, type Level } from "../../../../daemon/api/page/levels.js";
import { PlanGraph } from "../../../../daemon/api/page/plan_graph.js";
import { applyEvent, changesOf } from "../../../../daemon/api/page/session.js";
import type { Branch, DagEdge, DagNode, Frame, SessionView } from "../../../../daemon/api/page/shapes";

export interface GraphHooks {
  /** Called when title, status or totals change. */
  onState(state: SessionView | null): void;
  onMessage(message: { branchId: string | null; goalId: string | null }): void;
  /** Called to show the messages of an edge; `reveal`: the user chose the node itself. */
  onOpen(node: DagNode, edge: DagEdge | null, reveal: boolean): void;
  onExpanded(): void;
  /** Called with the path to the current level. */
  onLevel(way: Level[]): void;
  /** Read the plan of a branch. Rejects with ApiError. */
  readBranch(id: string): Promise<Partial<Branch>>;
}

/** The graph of the current session: expanded nodes, selection, and updates from events. The web page's modules draw it. */
export class Graph extends PlanGraph {
  /** True after the user moved or selected something, so that the view does not move automatically. */
  private held = false;
  private onEdge = false;
  private width = 0;
  /** Index of the selected search result. */
  private at = -1;

  constructor(
    host: HTMLElement,
    private readonly hooks: GraphHooks,
  ) {
    super(host, host, {
      onSelect: () => (this.held = true),
      onOpen: (node, edge) => {
        this.held = true;
        hooks.onOpen(node, edge, !this.onEdge);
      },
    }, hooks.readBranch);
    // The view reports clicks on edges and on nodes alike, so remember which it was.
    host.addEventListener("click", ({ target }) => (this.onEdge = target instanceof Element && target.closest(".dag-edge") !== null), { capture: true });
    host.addEventListener("keydown", () => (this.onEdge = false), { capture: true });
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

  override taken(): void {
    this.openAll();
    this.redraw();
  }

  override go(root: string | null): void {
    if (this.state && root !== this.root) {
      this.held = false;
      this.view.viewport.touched = false;
    }
    super.go(root);
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
      this.redraw();
    }
    this.view.select(key);
    return this.at + 1;
  }

  override toggle(key: string, open: boolean): void {
    this.held = true;
    const { selected } = this.view;
    const focus = this.hasFocus();
    super.toggle(key, open);
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

  override redraw(): void {
    this.hooks.onExpanded();
    this.draw();
  }

  override draw(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { state, view } = this;
    if (!state) return;
    const begun = performance.now();
    const { way, dag } = this.level(state);
    this.hooks.onLevel(way);
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
