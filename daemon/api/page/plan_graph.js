// The graph of a session on a page: what is expanded, the level on display, and the plans of branches to fetch.

import { ApiError } from "./api.js";
import { branchKey, dagOf } from "./dag.js";
import { DagView } from "./draw.js";
import { Fetches, aroundWork, everything, takeBranch } from "./expansion.js";
import { levelOf, wayTo } from "./levels.js";
import { isWorking } from "./session.js";

/** @import { Branch, DagEdge, DagNode, SessionView } from "./shapes.js" */

/** Shortest time between two redraws while events arrive. */
const PAUSE_MS = 80;
/** Delay before a branch that changed during its request is fetched again. */
const AGAIN_MS = 150;

/** The part of a graph that the web page and VS Code share. */
export class PlanGraph {
  /**
   * @param {HTMLElement} area the part of the page around the graph
   * @param {HTMLElement} host
   * @param {{ onOpen: (node: DagNode, edge: DagEdge | null) => void, onSelect?: () => void }} options
   * @param {(id: string) => Promise<Partial<Branch>>} read a branch with its plan; rejects with ApiError
   * @param {(message: string) => void} [failed] called when a branch could not be read
   */
  constructor(area, host, options, read, failed) {
    this.area = area;
    this.host = host;
    this.read = read;
    this.failed = failed;
    /** @type {SessionView | null} */
    this.state = null;
    /** @type {Set<string>} */
    this.expanded = new Set();
    /** The goal or branch that is shown as a level of its own. @type {string | null} */
    this.root = null;
    this.follow = true;
    /** The agent's place at the last redraw. @type {string | null} */
    this.place = null;
    this.fetches = new Fetches();
    /** Whether everything is to be expanded, including what is loaded later. */
    this.all = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.view = new DagView(host, {
      ...options,
      onToggle: (key, open) => this.toggle(key, open),
      onEnter: (key) => this.go(key),
      onUp: () => this.up(),
    });
  }

  draw() {}

  /** Fetches a branch, unless it is being fetched. An answer for a session that is no longer shown is dropped. @param {string} id */
  fetch(id) {
    if (!this.fetches.begin(id)) return;
    const traceId = this.state?.trace.traceId;
    this.read(id).then(
      (detail) => {
        if (!this.state || this.state.trace.traceId !== traceId) return;
        const old = this.fetches.end(id);
        this.state = takeBranch(this.state, id, detail, old);
        this.taken(this.state);
        if (old) setTimeout(() => this.state?.trace.traceId === traceId && this.fetch(id), AGAIN_MS);
      },
      (error) => {
        if (!(error instanceof ApiError)) throw error;
        if (this.state?.trace.traceId !== traceId) return;
        this.fetches.end(id);
        this.expanded.delete(branchKey(id));
        this.soon();
        this.failed?.(error.message);
      },
    );
  }

  /** Shows the state with a fetched branch. @param {SessionView} _state */
  taken(_state) {
    this.openAll();
    this.soon();
  }

  /** Draws again after the user expanded or collapsed something, or changed the level. */
  redraw() {
    this.draw();
  }

  soon() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.draw();
    }, PAUSE_MS);
  }

  /** Returns the nodes of the level on display and the way to it. The level may be gone. @param {SessionView} state */
  level(state) {
    const way = wayTo(state, this.root);
    this.root = way.at(-1)?.key ?? null;
    return { way, dag: dagOf(state.goalTree, state.branches, this.expanded, { working: isWorking(state), root: this.root }) };
  }

  /** Whether the keyboard focus is in the graph, or nowhere. */
  hasFocus() {
    return this.area.contains(document.activeElement) || document.activeElement === document.body;
  }

  /** Expands everything around a running branch, because users want to see it. @param {Branch | undefined} branch */
  openFork(branch) {
    if (this.state) for (const key of aroundWork(this.state, branch)) this.expanded.add(key);
  }

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
    if (open && key.startsWith("branch:")) this.fetch(key.slice("branch:".length));
    this.redraw();
  }

  /** Shows the goals within a goal or branch as a level of its own. @param {string | null} root null: the whole plan */
  go(root) {
    const { state, view } = this;
    if (!state) return;
    /** @type {string | null} */
    let key = this.root;
    const focus = this.hasFocus();
    if (root !== key) {
      this.root = root;
      view.select(null);
      if (root?.startsWith("branch:")) this.fetch(root.slice("branch:".length));
      this.redraw();
      view.readable();
    }
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
    this.redraw();
  }

  openAll() {
    const { state } = this;
    if (!state || !this.all) return;
    for (const key of everything(state)) this.expanded.add(key);
    for (const branch of Object.values(state.branches)) if (!branch.goalTree && !branch.removed) this.fetch(branch.id);
  }

  collapseAll() {
    this.all = false;
    this.expanded.clear();
    this.redraw();
    this.view.readable();
  }
}
