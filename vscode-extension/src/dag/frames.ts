/** What the graph's page gets of the session on display: all but the texts of messages. Pure. */
import { TOLD } from "../../../daemon/api/page/session.js";
import type { Branch, Branches, Frame, SessionView } from "../../../daemon/api/page/shapes";
import type { Event, Message } from "../protocol.gen";

export function graphView({ trace, goalTree, branches, subagents, awaits, spent, lastEventId }: SessionView): SessionView {
  return { trace, goalTree, branches: withoutTexts(branches), subagents, awaits, spent, lastEventId };
}

export function withoutTexts(branches: Branches): Record<string, Branch> {
  return Object.fromEntries(Object.entries(branches).map(([id, branch]) => [id, { ...branch, lastMessage: null }]));
}

/** The event; undefined for what changes nothing in the graph. */
export function frameOf(event: Event): Frame | undefined {
  if (!TOLD.has(event.event)) return undefined;
  switch (event.event) {
    case "message_added":
    case "branch_message_added":
      return { ...event, message: slim(event.message) };
    case "branch_completed":
      return { ...event, lastMessage: null };
    case "permission_asked":
      return { event: event.event, eventId: event.eventId, traceId: event.traceId };
    default:
      return { ...event };
  }
}

function slim({ messageId, role, sequence, goalId, branchId, tokens, cost, usage, durationMs, overlapMs, content }: Message): object {
  // The names of the tools are in previews.
  const named = content.flatMap((part) => (part.type === "tool_call" || part.type === "tool_result" ? [{ type: part.type, name: part.name }] : []));
  return { messageId, role, sequence, goalId, branchId, tokens, cost, usage, durationMs, overlapMs, content: named };
}
