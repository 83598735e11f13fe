/** Messages between the extension host and the graph's page, and the session's data in them, without the texts of messages. Pure. */
import type { Branch, Branches, Frame, GoalTree, Message, SessionView } from "../../../daemon/api/page/shapes";
import { TOLD } from "../../../daemon/api/page/session.js";
import type { Event, Message as StoredMessage, TraceMessagesParams } from "../protocol.gen";
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
  | { type: "openTrace" }
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
  return { trace, goalTree, branches: withoutTexts(branches), subagents, awaits, lastEventId };
}

export function withoutTexts(branches: Branches): Record<string, Branch> {
  return Object.fromEntries(Object.entries(branches).map(([id, branch]) => [id, { ...branch, lastMessage: null }]));
}

/** Return an event with the state that it changed; undefined if it does not affect the graph. */
export function frameOf({ event, view }: Extract<Update, { event: Event }>): Frame | undefined {
  const { eventId, traceId } = event;
  if (!TOLD.has(event.event)) return view ? { event: event.event, eventId, traceId, view } : undefined;
  switch (event.event) {
    case "message_added":
    case "branch_message_added":
      return { ...event, view, message: slim(event.message) };
    case "branch_completed":
      return { ...event, view, lastMessage: null };
    default:
      return { ...event, view };
  }
}

function slim({ messageId, role, sequence, goalId, branchId }: StoredMessage): object {
  return { messageId, role, sequence, goalId, branchId };
}
