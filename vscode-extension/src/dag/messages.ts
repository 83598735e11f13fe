/** Messages between the extension host and the graph's page, and the session's data in them. Pure. */
import type { Branch, Frame, GoalTree, Message, SessionView } from "../../../daemon/api/page/shapes";
import { TOLD } from "../../../daemon/api/page/session.js";
import type { Event, TraceMessagesParams } from "../protocol.gen";
import type { Update } from "../session/state";

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

export function graphView({ trace, goalTree, branches, subagents, awaits, lastEventId }: SessionView): SessionView {
  return { trace, goalTree, branches, subagents, awaits, lastEventId };
}

/** Return an event with the totals that it changed; undefined if it does not affect the graph. */
export function frameOf({ event, view }: Extract<Update, { event: Event }>): Frame | undefined {
  return view || TOLD.has(event.event) ? { ...event, view } : undefined;
}
