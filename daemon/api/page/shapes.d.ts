/**
 * What the API sends (source: seeds 000 and 003), as far as the page reads it: the extension's protocol, of which a trace of
 * an older version, or a forged one, may lack anything but what is named here.
 */
import type * as protocol from "../../../vscode-extension/src/protocol.gen";

type Known<T, K extends keyof T> = Pick<T, K> & Partial<T>;

export type { AffectedGoal, BranchStatus, GoalStatus, TraceStatus, ViewUpdate } from "../../../vscode-extension/src/protocol.gen";
export type GoalStats = Known<protocol.GoalStats, "messageCount" | "totalTokens" | "totalCost">;
export type Goal = Known<Omit<protocol.Goal, "selfStats" | "cumulativeStats">, "id" | "description" | "status"> & { selfStats?: GoalStats; cumulativeStats?: GoalStats };

export interface GoalTree {
  mission: string;
  currentId?: string | null;
  /** A flat list whose `parentId` makes the tree; its order is that of siblings. */
  goals: Goal[];
}

export interface Part {
  type: string;
  [field: string]: any;
}

export type Message = Known<Omit<protocol.Message, "content">, "messageId" | "role" | "sequence"> & { content: Part[] };

/** A branch as the session lists it. `goalTree` is present once its details were fetched or all its events were received. */
export type Branch = Known<Omit<protocol.BranchMeta, "cumulativeStats" | "lastMessage">, "id" | "exploreStartId" | "description" | "status"> & {
  cumulativeStats?: GoalStats;
  lastMessage?: unknown;
  goalTree?: GoalTree;
  branches?: Record<string, Branch>;
};

export type Branches = Readonly<Record<string, Branch>>;
export type Subagent = Known<protocol.SubagentMeta, "id" | "agent" | "prompt" | "status">;

export interface TraceMeta {
  traceId: string;
  title: string;
  summary?: string;
  task?: string;
  status: TraceStatus;
  agent?: string;
  model?: string | null;
  mode?: string | null;
  workspace?: string;
  createdAt?: string;
  updatedAt?: string;
  totalMessages: number;
  totalTokens: number;
  totalCost: number;
  lastEventId?: number;
  foreign?: boolean;
}

export interface TraceDetail extends TraceMeta {
  goalTree: GoalTree;
  goalNumbers?: Record<string, string>;
  branches: Record<string, Branch>;
  /** A list, or by id. */
  subagents?: Subagent[] | Record<string, Subagent>;
}

export type StepType = "goal" | "thought" | "evaluation" | "response" | "action" | "result";
export type StepStatus = "planned" | "in_progress" | "completed" | "failed" | "skipped";

export interface Step {
  stepId: string;
  stepType: StepType;
  status: StepStatus;
  sequence: number;
  parentId?: string | null;
  description: string;
  data?: Record<string, unknown>;
  summary?: string | null;
  durationMs?: number | null;
  cost?: number | null;
  tokens?: number | null;
  createdAt?: string;
  childCount?: number;
  children?: Step[];
}

/** A frame of the WebSocket. Fields differ by `event`; none can be taken for granted. */
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
  /** The number people see: `2.1`, `A.1`, `A`; empty for the start and for abandoned goals. */
  label: string;
  title: string;
  summary: string;
  status: GoalStatus | "removed";
  /** Drawn grey: abandoned itself, or within something abandoned. */
  abandoned: boolean;
  /** The focus is on this goal, or on one that is hidden within it. */
  current: boolean;
  /** The same, also when nobody is at work. */
  focused: boolean;
  /** The branch was chosen. */
  selected: boolean;
  /** What opens it: the goals within, when it is collapsed and has some. */
  expand: string | null;
  /** Number of goals right within, hidden or shown. */
  inside: number;
  /** Opened and closed with this key: the branches of an exploration. */
  fork: string | null;
  forked: boolean;
  branches: number;
  /** It was opened, but its goals are not there yet. */
  loading: boolean;
  /** Keys of what is open around it, innermost first: taking one away collapses it. */
  within: readonly string[];
  /** Nodes of one track stand in one line. */
  track: string;
}

export interface DagEdge {
  key: string;
  from: string;
  to: string;
  /** The goal (or branch) whose work the edge is: its target. */
  goalId: string | null;
  branchId: string | null;
  stats: GoalStats;
  /** Which numbers: `cumulative` for a collapsed goal, `self` for an open one (source: seed 000). */
  counts: "cumulative" | "self";
  /** Another edge to the same node shows the numbers. */
  shared: boolean;
  abandoned: boolean;
  /** Key that opens this edge; null: there is nothing within. */
  expand: string | null;
  /** Open goals and branches that begin with this edge, innermost first: taking one away collapses it. */
  begins: readonly string[];
  /** What was done for those that begin here itself, by their keys: no other edge has these numbers. */
  own: readonly OwnWork[];
}

/** Work for something that is open, which none of the goals within it has. */
export interface OwnWork {
  key: string;
  stats: GoalStats;
  /** The open goal or branch, as it would be drawn. */
  node: DagNode;
}

export interface DagTrack {
  id: string;
  kind: "main" | "branch" | "dead";
  /** The track it leaves, and the node where it does. */
  parent: string | null;
  at: string | null;
}

export interface Dag {
  nodes: DagNode[];
  edges: DagEdge[];
  tracks: DagTrack[];
}

export interface LayoutOptions {
  nodeWidth?: number;
  nodeHeight?: number;
  gapX?: number;
  gapY?: number;
  /** Width in pixels that there is; narrow graphs are read downwards, wide ones go on in the next row. 0: one endless row. */
  wrap?: number;
}

export interface Place {
  x: number;
  y: number;
}

export interface Route {
  /** SVG path. */
  d: string;
  /** Where the label goes (its middle). */
  label: Place;
  /** Room around the path, for what is visible. */
  box: { left: number; top: number; right: number; bottom: number };
}

export interface Layout {
  nodeWidth: number;
  nodeHeight: number;
  width: number;
  height: number;
  /** Read from top to bottom, else from left to right. */
  down: boolean;
  /** Left upper corners by node key. */
  places: Map<string, Place>;
  /** By edge key. */
  routes: Map<string, Route>;
}

/** What is known of a session; replaced by `applyEvent`, never changed. */
export interface SessionView {
  trace: TraceMeta;
  goalTree: GoalTree;
  /** By id, in the order in which they were started. */
  branches: Branches;
  subagents: Readonly<Record<string, Subagent>>;
  /** Goal ids of explorations that wait for the user to choose a branch. */
  awaits: readonly string[];
  lastEventId: number;
}

/** What an event changed, so that only that is drawn again. */
export interface Changed {
  /** Anything. */
  told: boolean;
  /** Goals, branches or their numbers, or whether the agent is at work. */
  graph: boolean;
  /** A message of this goal (branchId null: main line) is new. */
  message: { branchId: string | null; goalId: string | null } | null;
  /** A branch whose details are no longer what was fetched. */
  staleBranch: string | null;
}

export interface DagViewOptions {
  /** An edge (the work that led to `node`) was chosen: by click, or Enter on the node. */
  onOpen(node: DagNode, edge: DagEdge | null): void;
  /** A node was clicked or got the focus by keyboard. */
  onSelect?(node: DagNode): void;
  /** A goal, branch or fork is to be opened or closed. */
  onToggle(key: string, open: boolean): void;
  /** A goal or branch is to be looked at alone; without this, Enter shows the messages of every node. */
  onEnter?(key: string): void;
  /** Back to what is around; false at the top. */
  onUp?(): boolean;
}
