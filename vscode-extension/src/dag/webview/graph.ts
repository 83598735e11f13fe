import { branchKey, dagOf, forkKey, goalKey } from "../../../../daemon/api/page/dag.js";
import { DagView } from "../../../../daemon/api/page/draw.js";
import { layoutOf } from "../../../../daemon/api/page/layout.js";
import { applyFrame, stateOf } from "../../../../daemon/api/page/live.js";
import type { Branch, DagEdge, DagNode, Frame, LiveState, TraceDetail } from "../../../../daemon/api/page/shapes";
import type { ToGraph } from "../messages";

/** Drawn again at most so often while events come in. */
const PAUSE_MS = 80;
/** The narrowest row, in pixels at full size: goals of narrower ones could not be told from each other. */
const NARROWEST = 720;
/** Smaller than on the web page: a panel beside the editor has less room. */
const SIZES = { nodeWidth: 180, gapX: 130, gapY: 32 };

export interface GraphHooks {
  /** Title, status or totals changed. */
  onState(state: LiveState | null): void;
  onMessage(message: { branch_id: string | null; goal_id: string | null }): void;
  /** The person wants the messages of an edge; `reveal`: it was the node that was chosen. */
  onOpen(node: DagNode, edge: DagEdge | null, reveal: boolean): void;
  onExpanded(): void;
  /** The plan of this branch is wanted. */
  onBranch(id: string): void;
}

/** The graph of the session on display: what is open, and what events change. Drawing is the web page's. */
export class Graph {
  readonly view: DagView;
  state: LiveState | null = null;
  expanded = new Set<string>();
  follow = true;
  private readonly fetching = new Set<string>();
  /** The agent's place as it was shown last. */
  private place: string | null = null;
  /** The person has taken over what is seen. */
  private held = false;
  private onEdge = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private width = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly hooks: GraphHooks,
  ) {
    // Whether an edge or a node was clicked, the view tells alike.
    host.addEventListener("click", ({ target }) => (this.onEdge = target instanceof Element && target.closest(".dag-edge") !== null), { capture: true });
    host.addEventListener("keydown", () => (this.onEdge = false), { capture: true });
    this.view = new DagView(host, {
      onSelect: () => (this.held = true),
      onOpen: (node, edge) => {
        this.held = true;
        hooks.onOpen(node, edge, !this.onEdge);
      },
      onToggle: (key, open) => this.toggle(key, open),
    });
    new ResizeObserver(() => {
      if (this.width !== this.wrap()) this.draw();
      // The pane beside it takes room away, and what its messages are about should be seen.
      else if (!this.held && !this.view.viewport.touched) this.view.readable();
      if (this.held && this.view.selected) this.view.reveal(this.view.selected);
    }).observe(host);
  }

  get traceId(): string {
    return this.state?.trace.trace_id ?? "";
  }

  /** The whole session; what is open stays open when it is the same one. */
  show(trace: TraceDetail | null, expanded: readonly string[]): void {
    const before = this.state;
    const same = before !== null && before.trace.trace_id === trace?.trace_id;
    this.state = trace && stateOf(trace);
    this.fetching.clear();
    if (!same) {
      this.expanded = new Set(expanded);
      this.held = false;
      this.place = null;
      this.view.select(null);
    }
    for (const branch of Object.values(this.state?.branches ?? {})) {
      this.openFork(branch);
      const tree = before?.branches[branch.id]?.goal_tree;
      // An old plan is better than none until the new one is there.
      if (same && tree) branch.goal_tree ??= tree;
      if (this.expanded.has(branchKey(branch.id))) this.fetch(branch.id);
    }
    this.hooks.onState(this.state);
    this.draw();
    if (!same) this.view.readable();
  }

  apply(frames: readonly Frame[]): void {
    const { state } = this;
    if (!state) return;
    let told = false;
    let graph = false;
    for (const frame of frames) {
      const changed = applyFrame(state, frame);
      if (frame.event === "branch_started") this.openFork(state.branches[frame["branch"]?.id]);
      if (changed.stale_branch) this.fetch(changed.stale_branch);
      if (changed.message) this.hooks.onMessage(changed.message);
      told ||= changed.trace || changed.shape;
      graph ||= changed.graph || changed.shape;
    }
    if (told) this.hooks.onState(state);
    if (graph) this.soon();
  }

  /** The plan of a branch; branches of a branch stand beside it, by their full ids. */
  branch({ branch_id: id, goal_tree, branches }: Extract<ToGraph, { type: "branch" }>): void {
    this.fetching.delete(id);
    const { state } = this;
    const known = state?.branches[id];
    if (!state || !known) return;
    state.branches[id] = { ...known, goal_tree, goal_count: goal_tree.goals.length };
    for (const inner of Object.values(branches)) {
      const full = inner.id.startsWith(`${id}.`) ? inner.id : `${id}.${inner.id}`;
      state.branches[full] = { ...state.branches[full], ...inner, id: full };
    }
    this.draw();
  }

  branchFailed(id: string): void {
    this.fetching.delete(id);
    this.expanded.delete(branchKey(id));
    this.draw();
  }

  expandAll(): void {
    const { state } = this;
    if (!state) return;
    const open = (goals: LiveState["goal_tree"]["goals"], branchId: string | null): void => {
      for (const goal of goals) {
        if (goal.parent_id) this.expanded.add(goalKey(goal.parent_id, branchId));
        if (goal.type === "explore_start") this.expanded.add(forkKey(goal.id, branchId));
      }
    };
    open(state.goal_tree.goals, null);
    for (const branch of Object.values(state.branches)) {
      this.expanded.add(branchKey(branch.id));
      open(branch.goal_tree?.goals ?? [], branch.id);
      if (!branch.goal_tree) this.fetch(branch.id);
    }
    this.changed();
  }

  collapseAll(): void {
    this.expanded.clear();
    this.changed();
    this.view.readable();
  }

  private toggle(key: string, open: boolean): void {
    this.held = true;
    if (open) this.expanded.add(key);
    else this.expanded.delete(key);
    if (open && key.startsWith("branch:")) this.fetch(key.slice("branch:".length));
    const { selected } = this.view;
    const focus = this.host.contains(document.activeElement) || document.activeElement === document.body;
    this.changed();
    // What was selected may be hidden now, or have given way to what is within it.
    const next = selected && this.view.nodes.has(selected) ? selected : (open ? this.view.dag.nodes.find((node) => node.within[0] === key)?.key : key.replace(/^fork:/, "goal:"));
    if (selected) this.view.select(next ?? null, { focus });
  }

  private changed(): void {
    this.hooks.onExpanded();
    this.draw();
  }

  /** While branches are at work they are what one wants to see, and so are the goals around them. */
  private openFork(branch: Branch | undefined): void {
    const { state } = this;
    if (!state || branch?.status !== "exploring") return;
    const dot = branch.id.lastIndexOf(".");
    const outer = dot < 0 ? null : branch.id.slice(0, dot);
    this.expanded.add(forkKey(branch.explore_start_id, outer));
    const byId = new Map((outer === null ? state.goal_tree : state.branches[outer]?.goal_tree)?.goals.map((goal) => [goal.id, goal.parent_id]));
    const seen = new Set<string>();
    for (let above = byId.get(branch.explore_start_id); above && !seen.has(above); above = byId.get(above)) {
      seen.add(above);
      this.expanded.add(goalKey(above, outer));
    }
  }

  private fetch(id: string): void {
    if (this.fetching.has(id)) return;
    this.fetching.add(id);
    this.hooks.onBranch(id);
  }

  private soon(): void {
    this.timer ??= setTimeout(() => this.draw(), PAUSE_MS);
  }

  private wrap(): number {
    return Math.max(NARROWEST, this.host.clientWidth);
  }

  private draw(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { state, view } = this;
    if (!state) return;
    const dag = dagOf(state.goal_tree, state.branches, this.expanded);
    this.width = this.wrap();
    view.show(dag, layoutOf(dag, { ...SIZES, wrap: this.width }));
    this.host.dataset["nodes"] = String(dag.nodes.length);
    const place = dag.nodes.findLast((node) => node.current)?.key ?? null;
    // Until the person moves it, the view holds the whole of a graph that grows, or where the agent is.
    if (!this.held && !view.viewport.touched) view.readable();
    else if (place && place !== this.place && this.follow) view.reveal(place);
    this.place = place;
  }
}
