/** What the API sends (source: seeds 000 and 003), as far as the page reads it; snake_case as on the wire. */

export type GoalStatus = "pending" | "in_progress" | "completed" | "abandoned";
export type GoalType = "normal" | "explore_start" | "explore_merge";
export type BranchStatus = "exploring" | "completed" | "abandoned";
export type TraceStatus = "idle" | "running" | "waiting" | "completed" | "failed" | "canceled";

export interface GoalStats {
  message_count: number;
  total_tokens: number;
  /** US dollars. */
  total_cost: number;
  /** Time at work in milliseconds; traces of older versions do not have it. */
  duration_ms?: number;
  /** Tool calls in short, e.g. `read → edit × 2`. */
  preview?: string | null;
}

export interface Goal {
  id: string;
  parent_id?: string | null;
  branch_id?: string | null;
  type?: GoalType;
  description: string;
  reason?: string;
  status: GoalStatus;
  summary?: string | null;
  branch_ids?: string[] | null;
  explore_start_id?: string | null;
  merge_summary?: string | null;
  selected_branch?: string | null;
  self_stats?: GoalStats;
  cumulative_stats?: GoalStats;
}

export interface GoalTree {
  mission: string;
  current_id?: string | null;
  /** A flat list whose `parent_id` makes the tree; its order is that of siblings. */
  goals: Goal[];
}

export interface Part {
  type: string;
  [field: string]: unknown;
}

export interface Message {
  message_id: string;
  branch_id?: string | null;
  role: "user" | "assistant" | "tool";
  sequence: number;
  goal_id?: string | null;
  tool_call_id?: string | null;
  content: Part[];
  description?: string;
  tokens?: number | null;
  cost?: number | null;
  created_at?: string;
  model?: string | null;
  duration_ms?: number | null;
  /** The part of `duration_ms` that a call which ran at the same time accounts for. */
  overlap_ms?: number | null;
}

/** A branch as the main line lists it; `goal_tree` is there once its details were fetched. */
export interface Branch {
  id: string;
  explore_start_id: string;
  description: string;
  status: BranchStatus;
  summary?: string | null;
  cumulative_stats?: GoalStats;
  goal_count?: number;
  last_message?: Message | null;
  removed?: boolean;
  goal_tree?: GoalTree;
  branches?: Record<string, Branch>;
}

export type Branches = Readonly<Record<string, Branch>>;

export interface Subagent {
  id: string;
  agent: string;
  prompt: string;
  status: "running" | "completed" | "failed";
  summary?: string;
}

export interface TraceMeta {
  trace_id: string;
  title: string;
  summary?: string;
  task?: string;
  status: TraceStatus;
  agent?: string;
  model?: string | null;
  mode?: string | null;
  workspace?: string;
  created_at?: string;
  updated_at?: string;
  total_messages: number;
  total_tokens: number;
  total_cost: number;
  last_event_id?: number;
  foreign?: boolean;
}

export interface TraceDetail extends TraceMeta {
  goal_tree: GoalTree;
  goal_numbers?: Record<string, string>;
  branches: Record<string, Branch>;
  /** A list, or by id. */
  subagents?: Subagent[] | Record<string, Subagent>;
}

export type StepType = "goal" | "thought" | "evaluation" | "response" | "action" | "result";
export type StepStatus = "planned" | "in_progress" | "completed" | "failed" | "skipped";

export interface Step {
  step_id: string;
  step_type: StepType;
  status: StepStatus;
  sequence: number;
  parent_id?: string | null;
  description: string;
  data?: Record<string, unknown>;
  summary?: string | null;
  duration_ms?: number | null;
  cost?: number | null;
  tokens?: number | null;
  created_at?: string;
  child_count?: number;
  children?: Step[];
}

export interface AffectedGoal {
  goal_id: string;
  status?: GoalStatus | null;
  summary?: string | null;
  self_stats?: GoalStats | null;
  cumulative_stats?: GoalStats | null;
}

/** A frame of the WebSocket. Fields differ by `event`; none can be taken for granted. */
export interface Frame {
  event: string;
  event_id?: number;
  [field: string]: any;
}

// -- the graph

export interface DagNode {
  /** `start`, `goal:4`, `goal:A/1` (goal 1 of branch A) or `branch:A`. */
  key: string;
  kind: "start" | "goal" | "explore_start" | "explore_merge" | "branch";
  goal_id: string | null;
  branch_id: string | null;
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
  goal_id: string | null;
  branch_id: string | null;
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

/** What is known of a watched trace; changed in place by `applyFrame`. */
export interface LiveState {
  trace: TraceMeta;
  goal_tree: GoalTree;
  branches: Record<string, Branch>;
  subagents: Record<string, Subagent>;
  /** What branches took that were heard from their beginning, as far as it is among the trace's totals. */
  spent: Record<string, { tokens: number; cost: number }>;
  last_event_id: number;
}

/** What a frame changed, so that only that is drawn again. */
export interface Changed {
  /** Goals, branches or their numbers. */
  graph: boolean;
  /** Shape of the graph: something came, went or moved. */
  shape: boolean;
  /** Title, totals, status. */
  trace: boolean;
  /** A message of this goal (branch_id null: main line) is new. */
  message: { branch_id: string | null; goal_id: string | null } | null;
  /** A branch whose details are no longer what was fetched. */
  stale_branch: string | null;
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
