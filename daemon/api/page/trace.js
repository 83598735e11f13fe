// One trace on the page: its graph and steps, followed live.

import { ApiError } from "./api.js";
import { branchKey, dagOf } from "./dag.js";
import { h } from "./dom.js";
import { DagView } from "./draw.js";
import { NARROW, layoutOf } from "./layout.js";
import { levelOf, showWay, wayTo } from "./levels.js";
import { t } from "./l10n.js";
import { Fetches, aroundWork, everything, takeBranch } from "./expansion.js";
import { applyEvent, changesOf, isWorking, viewOf } from "./session.js";
import { Watch } from "./socket.js";
import { StepTree } from "./steps.js";

/** @import { Api } from "./api.js" */
/** @import { Branch, DagEdge, DagNode, Frame, SessionView, Step } from "./shapes.js" */

/** Shortest time between two redraws while events arrive. */
const PAUSE_MS = 80;
/** Delay before a branch that changed during its request is fetched again. */
const AGAIN_MS = 150;

/**
 * @typedef {object} TraceHooks
 * @property {(state: SessionView) => void} onState title, status or totals changed
 * @property {(state: "connecting" | "live" | "lost", detail: string) => void} onConnection
 * @property {(message: { branchId: string | null, goalId: string | null }) => void} onMessage
 * @property {(node: DagNode, edge: DagEdge | null) => void} onOpen
 * @property {(step: Step) => void} onStep
 * @property {(message: string) => void} onError
 */

export class TraceView {
  /**
   * @param {{ graph: HTMLElement, steps: HTMLElement }} places
   * @param {Api} api
   * @param {string} traceId
   * @param {TraceHooks} hooks
   */
  constructor({ graph, steps }, api, traceId, hooks) {
    this.api = api;
    this.traceId = traceId;
    this.hooks = hooks;
    this.graph = graph;
    /** @type {SessionView | null} */
    this.state = null;
    /** @type {Set<string>} */
    this.expanded = new Set();
    /** The goal or branch that is shown as a level of its own. @type {string | null} */
    this.root = null;
    /** @type {Watch | null} */
    this.watch = null;
    this.closed = false;
    this.follow = true;
    /** The agent's place at the last redraw. @type {string | null} */
    this.place = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.fetches = new Fetches();
    /** Whether everything is to be expanded, including what is loaded later. */
    this.all = false;
    this.stepsShown = false;
    /** @type {string | null} */
    this.line = null;
    /** Milliseconds that the last redraw took, for benchmarks. */
    this.took = { dag: 0, layout: 0, draw: 0 };
    // The section is the panel of its tab for screen readers, so the graph needs an element of its own.
    this.way = graph.appendChild(h("nav", { class: "dag-way", "aria-label": t("Level of the plan"), hidden: true }));
    this.host = graph.appendChild(h("div"));
    this.view = new DagView(this.host, {
      onOpen: hooks.onOpen,
      onToggle: (key, open) => this.toggle(key, open),
      onEnter: (key) => this.go(key),
      onUp: () => this.up(),
    });
    this.steps = new StepTree(steps, api, hooks.onStep);
  }

  async open() {
    const detail = await this.api.get(`traces/${encodeURIComponent(this.traceId)}`);
    if (this.closed) return;
    this.state = viewOf(detail);
    for (const branch of Object.values(this.state.branches)) this.openFork(branch);
    this.hooks.onState(this.state);
    this.draw();
    this.watch = new Watch({
      address: (since) => this.api.watchAddress(this.traceId, { since_event_id: since, deltas: false }),
      since: this.state.lastEventId,
      onFrame: (frame) => this.apply(frame),
      onState: this.hooks.onConnection,
    });
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.watch?.close();
    this.view.dispose();
    this.host.remove();
    this.way.remove();
  }

  /** @param {Frame} frame */
  apply(frame) {
    const before = this.state;
    if (!before || this.closed) return;
    if (frame.event.startsWith("step_")) {
      if (this.stepsShown) this.steps.apply(frame);
      return;
    }
    const state = (this.state = applyEvent(before, frame));
    const changed = changesOf(before, state, frame);
    this.fetches.happened(frame["branchId"]);
    if (frame.event === "branch_started") this.openFork(state.branches[frame["branch"]?.id]);
    if (frame.event === "connected") this.caughtUp(state);
    else if (changed.staleBranch) void this.fetchBranch(changed.staleBranch);
    if (changed.message) {
      this.hooks.onMessage(changed.message);
      if (this.stepsShown && this.line && changed.message.branchId === this.line) this.reloadSteps();
    }
    if (changed.told) this.hooks.onState(state);
    if (changed.graph) this.soon();
  }

  /** Fetches branches again, because their events were missed meanwhile. @param {SessionView} state */
  caughtUp(state) {
    if (this.stepsShown && this.line) this.reloadSteps();
    for (const branch of Object.values(state.branches)) {
      this.openFork(branch);
      if (branch.goalTree) void this.fetchBranch(branch.id);
    }
  }

  /** Expands everything around a running branch, because users want to see it. @param {Branch | undefined} branch */
  openFork(branch) {
    if (this.state) for (const key of aroundWork(this.state, branch)) this.expanded.add(key);
  }

  soon() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.draw();
    }, PAUSE_MS);
  }

  draw() {
    const { state } = this;
    if (!state || this.closed || this.graph.hidden) return;
    const begun = performance.now();
    const way = wayTo(state, this.root);
    this.root = way.at(-1)?.key ?? null;
    showWay(this.way, way, (key) => this.go(key));
    const dag = dagOf(state.goalTree, state.branches, this.expanded, { working: isWorking(state), root: this.root });
    const made = performance.now();
    // Only a narrow window turns the graph: opening the message pane beside it must not.
    const layout = layoutOf(dag, { wrap: Math.max(Math.min(NARROW, innerWidth), this.graph.clientWidth) });
    const placed = performance.now();
    this.view.show(dag, layout);
    this.took = { dag: made - begun, layout: placed - made, draw: performance.now() - placed };
    this.graph.dataset["nodes"] = String(dag.nodes.length);
    this.graph.dataset["took"] = JSON.stringify(this.took);
    const place = dag.nodes.findLast((node) => node.current)?.key ?? null;
    if (place && place !== this.place && this.place !== null && this.follow) this.view.reveal(place);
    this.place = place;
  }

  // -- expanding and collapsing

  /**
   * @param {string} key
   * @param {boolean} open
   */
  toggle(key, open) {
    if (open) this.expanded.add(key);
    else {
      this.expanded.delete(key);
      this.all = false;
    }
    if (open && key.startsWith("branch:")) void this.fetchBranch(key.slice("branch:".length));
    this.draw();
  }

  /** Shows the goals within a goal or branch as a level of its own. @param {string | null} root null: the whole plan */
  go(root) {
    const { state, view } = this;
    if (!state || root === this.root) return;
    /** @type {string | null} */
    let key = this.root;
    const focus = this.graph.contains(document.activeElement) || document.activeElement === document.body;
    this.root = root;
    view.select(null);
    if (root?.startsWith("branch:")) void this.fetchBranch(root.slice("branch:".length));
    this.draw();
    view.readable();
    // Going up selects the level just left; going down selects the first goal.
    while (key !== null && !view.nodes.has(key)) key = levelOf(state, key);
    view.select(key ?? view.dag.nodes[1]?.key ?? "start", { focus });
  }

  up() {
    if (!this.state || this.root === null) return false;
    this.go(levelOf(this.state, this.root));
    return true;
  }

  /** Expands everything, including branches whose goals arrive later. */
  expandAll() {
    this.all = true;
    this.openAll();
    this.draw();
  }

  openAll() {
    const { state } = this;
    if (!state || !this.all) return;
    for (const key of everything(state)) this.expanded.add(key);
    for (const branch of Object.values(state.branches)) if (!branch.goalTree && !branch.removed) void this.fetchBranch(branch.id);
  }

  collapseAll() {
    this.all = false;
    this.expanded.clear();
    this.draw();
    this.view.readable();
  }

  /**
   * @param {string} id
   */
  async fetchBranch(id) {
    if (!this.fetches.begin(id)) return;
    try {
      const detail = await this.api.get(`traces/${encodeURIComponent(this.traceId)}/branches/${encodeURIComponent(id)}`);
      const old = this.fetches.end(id);
      if (this.closed || !this.state) return;
      this.state = takeBranch(this.state, id, detail, old);
      this.hooks.onState(this.state);
      this.openAll();
      this.soon();
      if (old) setTimeout(() => !this.closed && void this.fetchBranch(id), AGAIN_MS);
    } catch (error) {
      this.fetches.end(id);
      if (!(error instanceof ApiError)) throw error;
      this.expanded.delete(branchKey(id));
      this.soon();
      this.hooks.onError(error.message);
    }
  }

  // -- steps

  /** @param {string | null} line a branch or sub-agent; null: the main session */
  async showSteps(line) {
    this.stepsShown = true;
    this.line = line;
    await this.steps.show(this.traceId, line);
  }

  hideSteps() {
    this.stepsShown = false;
  }

  reloadSteps() {
    clearTimeout(this.stepTimer);
    this.stepTimer = setTimeout(() => void this.steps.show(this.traceId, this.line), 500);
  }

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  stepTimer = undefined;
}
