// The graph of a plan: nodes are results, edges are the work that led to them. Pure functions.
//
// A set of keys says what is expanded: `goal:2` shows the sub-goals of goal 2 in its place, `fork:2` the branches of the
// exploration that goal 2 started, `branch:A` the goals of branch A. Goals of a branch are `goal:A/1`, `fork:A/2`.

import { NO_STATS } from "./goals.js";
import { besideGoals, branchOf, labelOf, meetings, scopeOf } from "./scope.js";

/** @import { Scope } from "./scope.js" */
/** @import { Branch, Branches, Dag, DagNode, Goal, GoalStats, GoalTree, OwnWork } from "./shapes.js" */

/** Limit for goals expanded within each other, because a forged plan may nest them without end. */
const DEEPEST = 400;

/**
 * The end of the path so far, where the next node is attached.
 * @typedef {object} Front
 * @property {readonly { key: string, grey: boolean }[]} sources nodes that lead to the next one
 * @property {readonly OwnWork[]} begins expanded goals and branches that begin with the next edge, outermost first
 */
/**
 * Properties that all nodes of one stretch share.
 * @typedef {object} Around
 * @property {Scope} scope
 * @property {string} track
 * @property {boolean} grey
 * @property {readonly string[]} within
 */

/**
 * @param {string} goalId
 * @param {string | null} [branchId]
 */
export const goalKey = (goalId, branchId) => `goal:${branchId ? `${branchId}/` : ""}${goalId}`;
/**
 * @param {string} goalId
 * @param {string | null} [branchId]
 */
export const forkKey = (goalId, branchId) => `fork:${branchId ? `${branchId}/` : ""}${goalId}`;
/** @param {string} branchId */
export const branchKey = (branchId) => `branch:${branchId}`;

/**
 * Parses the key of a goal or branch; both ids are null for the plan itself.
 * @param {string | null} key
 * @returns {{ goalId: string | null, branchId: string | null }}
 */
export function namedBy(key) {
  const [, kind, outer, id] = /^(goal|branch):(?:([^/]*)\/)?(.*)$/.exec(key ?? "") ?? [];
  if (kind === "branch") return { goalId: null, branchId: id ?? null };
  return { goalId: id ?? null, branchId: outer ?? null };
}

/**
 * Returns the nodes and edges to draw. Each node comes after all nodes that lead to it.
 * @param {GoalTree} tree
 * @param {Branches} [branches] by id, with `goalTree` once it was fetched
 * @param {ReadonlySet<string>} [expanded] keys of what is expanded, see the top of this file
 * @param {{ working?: boolean, root?: string | null }} [how] working: false when the session does not run, so that no
 *   node is current; root: the goal or branch whose goals are drawn, null for the whole plan
 * @returns {Dag}
 */
export function dagOf(tree, branches = {}, expanded = new Set(), { working = true, root = null } = {}) {
  return new Builder(expanded, working).build(tree, branches, root);
}

/**
 * Finds the node where the agent works or, in a session that does not run, where it would continue; undefined without a
 * focused goal.
 * @param {Dag} dag
 * @returns {DagNode | undefined}
 */
export function placeOfWork({ nodes }) {
  return nodes.findLast((node) => node.current) ?? nodes.findLast((node) => node.focused);
}

class Builder {
  /**
   * @param {ReadonlySet<string>} expanded
   * @param {boolean} working
   */
  constructor(expanded, working) {
    this.expanded = expanded;
    this.working = working;
    /** @type {Dag} */
    this.dag = { nodes: [], edges: [] };
    /** @type {Set<string>} */
    this.drawn = new Set();
    /**
     * Last nodes of the branches of an expanded exploration, by the key of the goal that started it.
     * @type {Map<string, Front["sources"]>}
     */
    this.ends = new Map();
  }

  /**
   * @param {GoalTree} tree
   * @param {Branches} branches
   * @param {string | null} root
   */
  build(tree, branches, root) {
    const { goalId, branchId } = namedBy(root);
    const branch = branchId === null ? undefined : branches[branchId];
    const scope = branch
      ? scopeOf(branch.goalTree ?? { mission: "", goals: [] }, { ...branches, ...branch.branches }, branchId, branch.status === "exploring")
      : scopeOf(tree, branches, null);
    const goal = scope.byId.get(goalId ?? "");
    const grey = branch?.status === "abandoned" || branch?.removed === true;
    const around = { scope, track: "main", grey, within: [] };
    /** @type {Partial<DagNode> & Pick<DagNode, "title" | "status">} */
    let facts = { title: tree.mission ?? "", status: "completed" };
    if (goal) facts = this.facts(goal, scope);
    else if (branch) facts = { ...branchFacts(branch.id, branch), loading: !branch.goalTree };
    this.node("start", around, { kind: "start", ...facts });
    this.walk(scope.children.get(goal?.id ?? null) ?? [], { sources: [{ key: "start", grey }], begins: [] }, around);
    return this.dag;
  }

  /**
   * Draws goals one after the other. Abandoned ones lead nowhere, so the path continues from the goal before them.
   * @param {readonly Goal[]} goals
   * @param {Front} front
   * @param {Around} around
   * @returns {Front}
   */
  walk(goals, front, around) {
    for (const goal of goals) {
      if (goal.status !== "abandoned") {
        front = this.goal(goal, front, around);
        continue;
      }
      const key = goalKey(goal.id, around.scope.branchId);
      const from = front.sources[0];
      if (!from) continue;
      this.goal(goal, { sources: [from], begins: [] }, { ...around, track: key, grey: true });
    }
    return front;
  }

  /**
   * @param {Goal} goal
   * @param {Front} front
   * @param {Around} around
   * @returns {Front}
   */
  goal(goal, front, around) {
    const { scope } = around;
    const key = goalKey(goal.id, scope.branchId);
    if (this.drawn.has(key)) return front;
    const children = scope.children.get(goal.id) ?? [];
    const open = this.isOpen(goal, scope) && around.within.length < DEEPEST;
    const explores = goal.type === "explore_start" || goal.type === "explore_merge";
    if (open) {
      const itself = nodeOf(key, around, { kind: "goal", ...this.facts(goal, scope) });
      const stats = goal.selfStats ?? NO_STATS;
      const begins = [...front.begins, { key, stats, node: itself }];
      const inner = this.walk(children, { ...front, begins }, { ...around, within: [key, ...around.within] });
      // The sub-goals replace the goal. The goal itself stays when no sub-goal continues the path, and where branches part or meet.
      if (inner.sources !== front.sources && !explores) return inner;
      front = { sources: inner.sources, begins: inner.begins.filter((one) => one.key !== key) };
    }
    const forkId = this.forkOf(goal, scope);
    const forked = forkId !== null && this.expanded.has(forkId);
    const node = this.node(key, around, {
      kind: goal.type === "explore_start" || goal.type === "explore_merge" ? goal.type : "goal",
      ...this.facts(goal, scope),
      current: this.working && scope.working && scope.focused.has(goal.id),
      focused: scope.working && scope.focused.has(goal.id),
      expand: children.length > 0 && !open && around.within.length < DEEPEST ? key : null,
      inside: children.length,
      fork: forkId,
      forked,
      branches: goal.branchIds?.length ?? 0,
      within: open ? [key, ...around.within] : around.within,
    });
    this.edges(node, this.meeting(goal, front, scope), front.begins, around, {
      stats: (open || forked ? goal.selfStats : goal.cumulativeStats) ?? NO_STATS,
      counts: open || forked ? "self" : "cumulative",
    });
    const next = [{ key, grey: around.grey }];
    if (!forkId || !forked) return { sources: next, begins: [] };
    const ends = this.branches(goal, key, forkId, around);
    this.ends.set(key, ends);
    // Until a goal merges the branches (or when it is drawn already), the branches lead directly to the next goal.
    const place = this.meets(scope).at.get(goal.id);
    const ahead = place !== undefined && !this.drawn.has(goalKey(place, scope.branchId));
    return { sources: ahead || ends.length === 0 ? next : ends, begins: [] };
  }

  /**
   * @param {Goal} goal
   * @param {Scope} scope
   */
  isOpen(goal, scope) {
    return scope.children.has(goal.id) && this.expanded.has(goalKey(goal.id, scope.branchId));
  }

  /** @param {Scope} scope */
  meets(scope) {
    return (scope.meets ??= meetings(scope, (goal) => this.isOpen(goal, scope)));
  }

  /**
   * @param {Goal} goal
   * @param {Scope} scope
   */
  facts(goal, scope) {
    const { id, description: title, summary, mergeSummary, status } = goal;
    return { goalId: id, label: labelOf(goal, scope), title, summary: summary ?? mergeSummary ?? "", status };
  }

  /**
   * Returns the nodes that lead to a goal. For a goal that merges branches, or contains a collapsed merge, these are the
   * ends of the visible branches.
   * @param {Goal} goal
   * @param {Front} front
   * @param {Scope} scope
   * @returns {Front["sources"]}
   */
  meeting(goal, front, scope) {
    let { sources } = front;
    for (const startId of this.meets(scope).starts.get(goal.id) ?? []) sources = this.joined(startId, sources, scope);
    // An abandoned merge does not join the path, but is drawn with its edges.
    const { exploreStartId: own } = goal;
    if (goal.type === "explore_merge" && own && scope.joins.get(own) !== goal.id) sources = this.joined(own, sources, scope);
    return sources;
  }

  /**
   * @param {string} startId
   * @param {Front["sources"]} sources
   * @param {Scope} scope
   * @returns {Front["sources"]}
   */
  joined(startId, sources, scope) {
    const start = goalKey(startId, scope.branchId);
    if (!this.drawn.has(start)) return sources;
    const ends = this.ends.get(start) ?? [];
    const first = ends.length > 0 ? ends : [{ key: start, grey: false }];
    const known = new Set(first.map((one) => one.key));
    if (ends.length > 0) known.add(start);
    else if (sources.some((one) => one.key === start)) return sources;
    return [...first, ...sources.filter((one) => !known.has(one.key))];
  }

  /**
   * Draws the branches of an expanded exploration in parallel.
   * @param {Goal} goal
   * @param {string} from key of the goal's node
   * @param {string} forkId
   * @param {Around} around
   * @returns {Front["sources"]} last nodes of the branches
   */
  branches(goal, from, forkId, around) {
    const chosen = this.chosen(goal, around.scope);
    return (goal.branchIds ?? []).flatMap((id) => {
      const branch = branchOf(around.scope, id);
      return branch ? this.branch(branch.id, branch.value, from, chosen.has(id) || chosen.has(branch.id), {
        ...around,
        within: [forkId, ...around.within],
      }) : [];
    });
  }

  /**
   * @param {string} id full id, e.g. `A` or `A.B`
   * @param {Branch} branch
   * @param {string} from
   * @param {boolean} selected
   * @param {Around} around
   * @returns {Front["sources"]}
   */
  branch(id, branch, from, selected, around) {
    const key = branchKey(id);
    if (this.drawn.has(key)) return [];
    this.drawn.add(key);
    const grey = around.grey || branch.status === "abandoned" || branch.removed === true;
    const facts = { kind: /** @type {const} */ ("branch"), branchId: id, ...branchFacts(id, branch) };
    const source = [{ key: from, grey }];
    const stats = branch.cumulativeStats ?? NO_STATS;
    const wanted = this.expanded.has(key);
    const scope = wanted && branch.goalTree ? scopeOf(branch.goalTree, { ...around.scope.branches, ...branch.branches }, id, branch.status === "exploring") : null;
    const goals = scope?.children.get(null) ?? [];
    /** @type {Front} */
    let front = { sources: source, begins: [] };
    if (scope && goals.length > 0) {
      const begins = [{ key, stats: besideGoals(branch, scope), node: nodeOf(key, { ...around, track: key, grey }, facts) }];
      front = this.walk(goals, { sources: source, begins }, { scope, track: key, grey, within: [key, ...around.within] });
      if (front.sources !== source) return front.sources;
    }
    const node = this.node(key, { ...around, track: key, grey }, {
      ...facts,
      current: this.working && branch.status === "exploring",
      selected,
      expand: wanted ? null : (branch.goalTree?.goals.length ?? branch.goalCount ?? 0) > 0 ? key : null,
      inside: branch.goalTree?.goals.length ?? branch.goalCount ?? 0,
      loading: wanted && !branch.goalTree,
      within: wanted ? [key, ...around.within] : around.within,
    });
    // The branch's node stays beside its visible goals when none of them continues the path.
    const shown = scope && goals.length > 0;
    this.edges(node, source, [], { ...around, grey }, shown ? { stats: besideGoals(branch, scope), counts: "self" } : { stats, counts: "cumulative" });
    return [{ key, grey }];
  }

  /**
   * Returns the ids of the chosen branches; `selectedBranch` may name several.
   * @param {Goal} goal
   * @param {Scope} scope
   */
  chosen(goal, scope) {
    const merge = scope.byId.get(scope.joins.get(goal.id) ?? "");
    const text = merge?.selectedBranch ?? goal.selectedBranch ?? "";
    return new Set(text.match(/[A-Za-z0-9.]+/g) ?? []);
  }

  /**
   * @param {Goal} goal
   * @param {Scope} scope
   */
  forkOf(goal, scope) {
    if (goal.type !== "explore_start" || !goal.branchIds?.some((id) => branchOf(scope, id))) return null;
    return forkKey(goal.id, scope.branchId);
  }

  /**
   * @param {string} key
   * @param {Around} around
   * @param {Partial<DagNode> & Pick<DagNode, "kind" | "title" | "status">} fields
   * @returns {DagNode}
   */
  node(key, around, fields) {
    this.drawn.add(key);
    const node = nodeOf(key, around, fields);
    this.dag.nodes.push(node);
    return node;
  }

  /**
   * @param {DagNode} node
   * @param {Front["sources"]} sources
   * @param {Front["begins"]} begins
   * @param {Around} around
   * @param {{ stats: GoalStats, counts: "cumulative" | "self" }} numbers
   */
  edges(node, sources, begins, around, numbers) {
    const fork = node.kind === "explore_merge" ? this.collapsedFork(node, around.scope) : null;
    sources.forEach((source, index) => {
      this.dag.edges.push({
        key: `${source.key} ${node.key}`,
        from: source.key,
        to: node.key,
        goalId: node.goalId,
        branchId: node.branchId,
        ...numbers,
        shared: index > 0,
        abandoned: around.grey || source.grey,
        expand: node.expand ?? fork,
        begins: begins.map((one) => one.key).reverse(),
        own: index === 0 ? begins.filter((one) => one.stats.messageCount > 0) : [],
      });
    });
  }

  /**
   * Returns the key that expands a collapsed exploration: the edge into the merge opens it.
   * @param {DagNode} node
   * @param {Scope} scope
   */
  collapsedFork(node, scope) {
    const start = scope.byId.get(scope.byId.get(node.goalId ?? "")?.exploreStartId ?? "");
    const key = start ? this.forkOf(start, scope) : null;
    return key && !this.expanded.has(key) ? key : null;
  }
}

/**
 * @param {string} label
 * @param {Branch} branch
 * @returns {Pick<DagNode, "label" | "title" | "summary" | "status">}
 */
const branchFacts = (label, { description: title, summary, removed, status }) =>
  ({ label, title, summary: summary ?? "", status: removed ? "removed" : status === "exploring" ? "in_progress" : status });

/**
 * @param {string} key
 * @param {Around} around
 * @param {Partial<DagNode> & Pick<DagNode, "kind" | "title" | "status">} fields
 * @returns {DagNode}
 */
function nodeOf(key, around, fields) {
  return {
    key, goalId: null, branchId: around.scope.branchId, label: "", abandoned: around.grey,
    current: false, focused: false, selected: false, expand: null, inside: 0, fork: null, forked: false, branches: 0, loading: false,
    within: around.within, track: around.track, ...fields,
    title: bounded(fields.title, MOST_TITLE), summary: bounded(fields.summary ?? "", MOST_SUMMARY),
  };
}

/** Limits in characters. The goal tool accepts no longer texts, but a forged plan could freeze the browser. */
const MOST_TITLE = 500;
const MOST_SUMMARY = 8_000;

/**
 * @param {string} text
 * @param {number} most
 */
const bounded = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
