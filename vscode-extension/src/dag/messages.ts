/** What the extension host and the graph's page say to each other. */
import type { Branch, Frame, GoalTree, Message, SessionView } from "../../../daemon/api/page/shapes";

export type ToGraph =
  /** The whole, at the beginning and whenever frames would not do. */
  | { type: "all"; view: SessionView | null }
  /** What changed since, in order. */
  | { type: "frames"; traceId: string; frames: readonly Frame[] }
  /** The plan of a branch that was asked for, and the branches within it. */
  | { type: "branch"; traceId: string; branchId: string; goalTree: GoalTree; branches: Record<string, Branch> }
  | { type: "branchFailed"; traceId: string; branchId: string; text: string }
  | { type: "messages"; request: number; messages: Message[]; hasEarlier: boolean }
  | { type: "messagesFailed"; request: number; text: string };

/** Which messages; `goalId` is the internal one. */
export interface Wanted {
  traceId: string;
  goalId: string | null;
  branchId: string | null;
  descendants: boolean;
  withoutGoal: boolean;
  /** With those that a branch began with. */
  inherited: boolean;
  before: number | null;
  limit: number;
}

export type FromGraph =
  | { type: "ready" }
  | { type: "branch"; traceId: string; branchId: string }
  | { type: "messages"; request: number; wanted: Wanted }
  | { type: "reveal"; goalId: string | null; branchId: string | null }
  | { type: "focusChat" }
  | { type: "openTrace" }
  /** To be written to a file that the user chooses. */
  | { type: "savePicture"; name: string; svg: string };

/** What the page remembers while VS Code has thrown it away, and from one window to the next. */
export interface SavedGraph {
  traceId: string;
  expanded: readonly string[];
  /** The goal or branch that is looked at alone. */
  root?: string | null;
}
