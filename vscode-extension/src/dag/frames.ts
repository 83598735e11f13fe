/** The session's data for the graph's page, without the texts of messages. Pure. */
import { TOLD } from "../../../daemon/api/page/session.js";
import type { Branch, Branches, Frame, SessionView } from "../../../daemon/api/page/shapes";
import type { Event, Message } from "../protocol.gen";
import type { Update } from "../session/state";

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

function slim({ messageId, role, sequence, goalId, branchId }: Message): object {
  return { messageId, role, sequence, goalId, branchId };
}
