/** What the extension host and the graph's page say to each other; snake_case as the modules of `daemon/api/page/` read it. */
import type { Branch, Frame, GoalTree, Message, TraceDetail } from "../../../daemon/api/page/shapes";

export type ToGraph =
  /** The whole, at the beginning and whenever frames would not do. */
  | { type: "all"; trace: TraceDetail | null }
  /** What changed since, in order. */
  | { type: "frames"; trace_id: string; frames: readonly Frame[] }
  /** The plan of a branch that was asked for, and the branches within it. */
  | { type: "branch"; trace_id: string; branch_id: string; goal_tree: GoalTree; branches: Record<string, Branch> }
  | { type: "branchFailed"; trace_id: string; branch_id: string; text: string }
  | { type: "messages"; request: number; messages: Message[]; has_earlier: boolean }
  | { type: "messagesFailed"; request: number; text: string };

/** Which messages; `goal_id` is the internal one. */
export interface Wanted {
  trace_id: string;
  goal_id: string | null;
  branch_id: string | null;
  descendants: boolean;
  without_goal: boolean;
  /** With those that a branch began with. */
  inherited: boolean;
  before: number | null;
  limit: number;
}

export type FromGraph =
  | { type: "ready" }
  | { type: "branch"; trace_id: string; branch_id: string }
  | { type: "messages"; request: number; wanted: Wanted }
  | { type: "reveal"; goal_id: string | null; branch_id: string | null }
  | { type: "focusChat" }
  | { type: "openTrace" }
  /** To be written to a file that the user chooses. */
  | { type: "savePicture"; name: string; svg: string };

/** What the page remembers while VS Code has thrown it away, and from one window to the next. */
export interface SavedGraph {
  trace_id: string;
  expanded: readonly string[];
  /** The goal or branch that is looked at alone. */
  root?: string | null;
}
