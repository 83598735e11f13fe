/**
 * The API's data as far as the page reads it. It is the extension's protocol, but a trace of an older version, or a
 * forged one, may lack every field that is not required here.
 */
import type * as protocol from "../../../vscode-extension/src/protocol.gen";

type Known<T, K extends keyof T> = Pick<T, K> & Partial<T>;

export type { AffectedGoal, BranchStatus, GoalStatus, TraceStatus, ViewUpdate } from "../../../vscode-extension/src/protocol.gen";
export type GoalStats = Known<protocol.GoalStats, "messageCount" | "totalTokens" | "totalCost">;
export type Goal = Known<Omit<protocol.Goal, "selfStats" | "cumulativeStats">, "id" | "description" | "status"> & { selfStats?: GoalStats; cumulativeStats?: GoalStats };

export interface GoalTree {
  mission: string;
  currentId?: string | null;
  /** Display numbers by goal id, as the daemon sends them; abandoned goals have none. */
  numbers?: Readonly<Record<string, string>>;
  /** A flat list whose `parentId` makes the tree; its order is that of siblings. */
  goals: Goal[];
}

export interface Part {
  type: string;
  [field: string]: any;
}

export type Message = Known<Omit<protocol.Message, "content">, "messageId" | "role" | "sequence"> & { content: Part[] };

export type MessagesQuery = protocol.TraceMessagesParams;

/** A branch as the session lists it. `goalTree` is present once its details were fetched or all its events were received. */
export type Branch = Known<Omit<protocol.BranchMeta, "cumulativeStats" | "lastMessage">, "id" | "exploreStartId" | "description" | "status"> & {
  cumulativeStats?: GoalStats;
  lastMessage?: unknown;
  goalTree?: GoalTree;
  goalNumbers?: Record<string, string>;
  branches?: Record<string, Branch>;
};

export type Branches = Readonly<Record<string, Branch>>;
export type Subagent = Known<protocol.SubagentMeta, "id" | "agent" | "prompt" | "status">;

export type TraceMeta = Known<protocol.TraceMeta, "traceId" | "title" | "status" | "totalMessages" | "totalTokens" | "totalCost">;

export interface TraceDetail extends TraceMeta {
  goalTree: GoalTree;
  goalNumbers?: Record<string, string>;
  branches: Record<string, Branch>;
  subagents: Record<string, Subagent>;
}

export type Step = Known<Omit<protocol.Step, "data">, "stepId" | "stepType" | "status" | "sequence" | "description"> & {
  data?: Record<string, unknown>;
  childCount?: number;
  children?: Step[];
};

/** Sums of a group. */
export type Group = protocol.StatsGroup;

/** A frame of the WebSocket. Its fields depend on `event`, and any of them may be missing. */
export interface Frame {
  event: string;
  eventId?: number;
  [field: string]: any;
}

// -- the graph

export interface DagNode {
  /** `start`, `goal:4`, `goal:A/1` (goal 1 of branch A) or `branch:A`. */
  key: string;
  kind: "start" | "goal" | "explore_start" | "explore_merge" | "branch";
  goalId: string | null;
  branchId: string | null;
  /** The number that users see: `2.1`, `A.1`, `A`; empty for the start and for abandoned goals. */
  label: string;
  title: string;
  summary: string;
  status: GoalStatus | "removed";
  /** Drawn grey: abandoned itself, or within something abandoned. */
  abandoned: boolean;
  /** The agent works on this goal, or on one hidden within it. */
  current: boolean;
  /** Like `current`, also when the session does not run. */
  focused: boolean;
  /** The branch was chosen. */
  selected: boolean;
  /** Key that expands its sub-goals, if it is collapsed and has any. */
  expand: string | null;
  /** Number of direct sub-goals, hidden or shown. */
  inside: number;
  /** Key that expands and collapses the branches of its exploration. */
  fork: string | null;
  forked: boolean;
  branches: number;
  /** Expanded, but its goals are not loaded yet. */
  loading: boolean;
  /** Keys of what is expanded around it, innermost first: removing one collapses it. */
  within: readonly string[];
  /** Nodes of one track are aligned in one line. */
  track: string;
}

export interface DagEdge {
  key: string;
  from: string;
  to: string;
  /** The goal or branch whose work the edge stands for: its target. */
  goalId: string | null;
  branchId: string | null;
  stats: GoalStats;
  /** `cumulative` for a collapsed goal, `self` for an expanded one. */
  counts: "cumulative" | "self";
  /** Another edge to the same node shows the numbers. */
  shared: boolean;
  abandoned: boolean;
  /** Key that expands this edge; null when it contains nothing. */
  expand: string | null;
  /** Expanded goals and branches that begin with this edge, innermost first: removing one collapses it. */
  begins: readonly string[];
  /** Work of the goals and branches that begin here themselves, by key; no other edge has these numbers. */
  own: readonly OwnWork[];
}

/** Work of an expanded goal or branch that belongs to none of its sub-goals. */
export interface OwnWork {
  key: string;
  stats: GoalStats;
  /** The expanded goal or branch as it would be drawn. */
  node: DagNode;
}

export interface Dag {
  nodes: DagNode[];
  edges: DagEdge[];
}

export interface LayoutOptions {
  nodeWidth?: number;
  nodeHeight?: number;
  gapX?: number;
  gapY?: number;
  /** Available width in pixels: narrow graphs run from top to bottom, wide ones continue in the next row. 0: one endless row. */
  wrap?: number;
}

export interface Place {
  x: number;
  y: number;
}

export interface Route {
  /** SVG path. */
  d: string;
  /** Position of the label's middle. */
  label: Place;
  /** Bounds of the path with its labels, for the check whether it is visible. */
  box: { left: number; top: number; right: number; bottom: number };
}

export interface Layout {
  nodeWidth: number;
  nodeHeight: number;
  width: number;
  height: number;
  /** From top to bottom, otherwise from left to right. */
  down: boolean;
  /** Top left corners by node key. */
  places: Map<string, Place>;
  /** By edge key. */
  routes: Map<string, Route>;
}

/** State of a session; `applyEvent` replaces it and never changes it. */
export interface SessionView {
  trace: TraceMeta;
  goalTree: GoalTree;
  /** By id, in the order in which they started. */
  branches: Branches;
  subagents: Readonly<Record<string, Subagent>>;
  /** Goal ids of explorations that wait for the user to choose a branch. */
  awaits: readonly string[];
  lastEventId: number;
}

/** Changes by an event, so that only that is redrawn. */
export interface Changed {
  /** Whether any field changed. */
  told: boolean;
  /** Whether goals, branches, their numbers, or the session's activity changed. */
  graph: boolean;
  /** The goal that has a new message (branchId null: main session). */
  message: { branchId: string | null; goalId: string | null } | null;
  /** A branch whose fetched details are outdated. */
  staleBranch: string | null;
}

export interface DagViewOptions {
  /** The user opened an edge (the work that led to `node`): by click, or Enter on the node. */
  onOpen(node: DagNode, edge: DagEdge | null): void;
  /** The user clicked a node or moved the focus to it. */
  onSelect?(node: DagNode): void;
  /** The user expands or collapses a goal, branch or fork. */
  onToggle(key: string, open: boolean): void;
  /** The user opens a goal or branch as a level of its own; without this callback, Enter shows the messages of every node. */
  onEnter?(key: string): void;
  /** Goes up one level; returns false at the top. */
  onUp?(): boolean;
}
