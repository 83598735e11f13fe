/** Messages between the extension host and the graph's page. */
import type { Branch, Frame, GoalTree, Message, SessionView } from "../../../daemon/api/page/shapes";
import type { TraceMessagesParams } from "../protocol.gen";

export type ToGraph =
  /** The full state, at the start and whenever frames are not enough. */
  | { type: "all"; view: SessionView | null }
  /** Changes since the last message, in order. */
  | { type: "frames"; traceId: string; frames: readonly Frame[] }
  /** The plan of a requested branch and the branches within it. */
  | { type: "branch"; traceId: string; branchId: string; goalTree: GoalTree; branches: Record<string, Branch> }
  | { type: "branchFailed"; traceId: string; branchId: string; text: string }
  | { type: "messages"; request: number; messages: Message[]; hasEarlier: boolean }
  | { type: "messagesFailed"; request: number; text: string };

export type FromGraph =
  | { type: "ready" }
  | { type: "branch"; traceId: string; branchId: string }
  | { type: "messages"; request: number; wanted: TraceMessagesParams }
  | { type: "reveal"; goalId: string | null; branchId: string | null }
  | { type: "focusChat" }
  /** Save an SVG to a file that the user chooses. */
  | { type: "savePicture"; name: string; svg: string };

/** State that the page keeps when VS Code discards it and when the window reloads. */
export interface SavedGraph {
  traceId: string;
  expanded: readonly string[];
  /** The goal or branch that is shown alone. */
  root?: string | null;
}
