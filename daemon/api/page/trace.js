// One trace on the page: its graph and steps, followed live.

import { h } from "./dom.js";
import { NARROW, layoutOf } from "./layout.js";
import { showWay } from "./levels.js";
import { t } from "./l10n.js";
import { PlanGraph } from "./plan_graph.js";
import { applyEvent, changesOf, viewOf } from "./session.js";
import { Watch } from "./socket.js";
import { StepTree } from "./steps.js";

/** @import { Api } from "./api.js" */
/** @import { DagEdge, DagNode, Frame, SessionView, Step } from "./shapes.js" */

/**
 * @typedef {object} TraceHooks
 * @property {(state: SessionView) => void} onState title, status or totals changed
 * @property {(state: "connecting" | "live" | "lost", detail: string) => void} onConnection
 * @property {(message: { branchId: string | null, goalId: string | null }) => void} onMessage
 * @property {(node: DagNode, edge: DagEdge | null) => void} onOpen
 * @property {(step: Step) => void} onStep
 * @property {(message: string) => void} onError
 */

export class TraceView extends PlanGraph {
  /**
   * @param {{ graph: HTMLElement, steps: HTMLElement }} places
   * @param {Api} api
   * @param {string} traceId
   * @param {TraceHooks} hooks
   */
  constructor({ graph, steps }, api, traceId, hooks) {
    // The section is the panel of its tab for screen readers, so the graph needs an element of its own.
    const way = graph.appendChild(h("nav", { class: "dag-way", "aria-label": t("Level of the plan"), hidden: true }));
    const read = (/** @type {string} */ id) => api.get(`traces/${encodeURIComponent(traceId)}/branches/${encodeURIComponent(id)}`);
    super(graph, graph.appendChild(h("div")), { onOpen: hooks.onOpen }, read, hooks.onError);
    this.way = way;
    this.api = api;
    this.traceId = traceId;
    this.hooks = hooks;
    /** @type {Watch | null} */
    this.watch = null;
    this.closed = false;
    this.stepsShown = false;
    /** @type {string | null} */
    this.line = null;
    /** Milliseconds that the last redraw took, for benchmarks. */
    this.took = { dag: 0, layout: 0, draw: 0 };
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
    this.state = null;
    clearTimeout(this.timer);
    this.watch?.close();
    this.view.dispose();
    this.host.remove();
    this.way.remove();
  }

  /** @param {Frame} frame */
  apply(frame) {
    const before = this.state;
    if (!before) return;
    if (frame.event.startsWith("step_")) {
      if (this.stepsShown) this.steps.apply(frame);
      return;
    }
    const state = (this.state = applyEvent(before, frame));
    const changed = changesOf(before, state, frame);
    this.fetches.happened(frame["branchId"]);
    if (frame.event === "branch_started") this.openFork(state.branches[frame["branch"]?.id]);
    if (frame.event === "connected") this.caughtUp(state);
    else if (changed.staleBranch) this.fetch(changed.staleBranch);
    if (changed.message) {
      this.hooks.onMessage(changed.message);
      if (this.stepsShown && this.line && changed.message.branchId === this.line) this.reloadSteps();
    }
    if (changed.told) this.hooks.onState(state);
    if (changed.graph) this.soon();
  }

  /** Fetches branches again, because their events were missed meanwhile, and steps that got no answer. @param {SessionView} state */
  caughtUp(state) {
    if (this.stepsShown && (this.line || !this.steps.loaded)) this.reloadSteps();
    for (const branch of Object.values(state.branches)) {
      this.openFork(branch);
      if (branch.goalTree) this.fetch(branch.id);
    }
  }

  /** @override */
  draw() {
    const { state } = this;
    if (!state || this.area.hidden) return;
    const begun = performance.now();
    const { way, dag } = this.level(state);
    showWay(this.way, way, (key) => this.go(key));
    const made = performance.now();
    // Only a narrow window turns the graph: opening the message pane beside it must not.
    const layout = layoutOf(dag, { wrap: Math.max(Math.min(NARROW, innerWidth), this.area.clientWidth) });
    const placed = performance.now();
    this.view.show(dag, layout);
    this.took = { dag: made - begun, layout: placed - made, draw: performance.now() - placed };
    this.area.dataset["nodes"] = String(dag.nodes.length);
    this.area.dataset["took"] = JSON.stringify(this.took);
    const place = dag.nodes.findLast((node) => node.current)?.key ?? null;
    const { place: before } = this;
    if (place && place !== before && before !== null && this.follow) this.view.reveal(place);
    this.place = place;
  }

  /** @override @param {string | null} root */
  go(root) {
    if (root !== this.root) super.go(root);
  }

  /** @override @param {SessionView} state */
  taken(state) {
    this.hooks.onState(state);
    super.taken(state);
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
    this.stepTimer = setTimeout(() => {
      // The main session's steps follow its frames, once they are loaded.
      if (this.line || !this.steps.loaded) void this.steps.show(this.traceId, this.line);
    }, 500);
  }

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  stepTimer = undefined;
}
