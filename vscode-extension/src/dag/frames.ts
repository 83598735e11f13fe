/** The session on display in the shapes of the trace API, which the graph's modules read. Pure. */
import { endedAs, TOLD } from "../../../daemon/api/page/live.js";
import type { Branch, Frame, GoalTree as ApiGoalTree, Message as ApiMessage, Subagent, TraceDetail, TraceStatus } from "../../../daemon/api/page/shapes";
import type { BranchMeta, Event, GoalTree, Message, SessionLoadResult } from "../protocol.gen";
import type { SessionState } from "../session/state";

/** Keys in snake_case at every depth. Ids that stand as keys (`A`, `s1`) have no small letter before a capital one. */
export function snakeKeys<T>(value: unknown): T {
  return convert(value) as T;
}

function convert(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convert);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), convert(inner)]),
  );
}

/** What `GET /api/traces/{id}` would answer, as far as the graph wants it. */
export function traceOf(state: SessionState): TraceDetail {
  const { trace } = state.session;
  const { usage } = trace;
  return {
    trace_id: trace.traceId,
    title: trace.title,
    status: statusOf(state),
    agent: trace.agent,
    model: state.session.model,
    total_messages: trace.messageCount,
    total_tokens: usage.input + usage.output + usage.cacheRead + usage.cacheWrite,
    total_cost: trace.totalCost,
    last_event_id: state.lastEventId,
    goal_tree: treeOf(state.goalTree),
    branches: branchesOf(state.children.branches, state.children.trees),
    subagents: snakeKeys<Record<string, Subagent>>(state.children.subagents),
  };
}

function statusOf({ session }: SessionState): TraceStatus {
  const { lastStopReason } = session.trace;
  if (session.status !== "idle") return session.status;
  return lastStopReason ? endedAs(lastStopReason) : "idle";
}

export function treeOf(tree: GoalTree): ApiGoalTree {
  return snakeKeys(tree);
}

/** Branches by id, with the plans that are known. */
export function branchesOf(branches: Readonly<Record<string, BranchMeta>>, trees: Readonly<Record<string, GoalTree>> = {}): Record<string, Branch> {
  return Object.fromEntries(
    Object.values(branches).map((branch) => {
      const { lastMessage: _, ...rest } = branch;
      const tree = trees[branch.id];
      return [branch.id, { ...snakeKeys<Branch>(rest), ...(tree ? { goal_tree: treeOf(tree) } : {}) }];
    }),
  );
}

/** The details of a branch, from the answer that its own session gave. */
export function branchDetail(loaded: Pick<SessionLoadResult, "goalTree" | "branches">): { goal_tree: ApiGoalTree; branches: Record<string, Branch> } {
  return { goal_tree: treeOf(loaded.goalTree), branches: branchesOf(loaded.branches) };
}

export function messagesOf(messages: readonly Message[]): ApiMessage[] {
  return snakeKeys(messages);
}

/** A frame of the trace API's WebSocket; undefined for what changes nothing in the graph. Texts of messages stay here. */
export function frameOf(event: Event): Frame | undefined {
  if (!TOLD.has(event.event)) return undefined;
  switch (event.event) {
    case "message_added":
    case "branch_message_added":
      return snakeKeys({ ...event, message: slim(event.message) });
    case "branch_completed":
      return snakeKeys({ ...event, lastMessage: null });
    case "permission_asked":
      return snakeKeys({ event: event.event, eventId: event.eventId, traceId: event.traceId });
    default:
      return snakeKeys(event);
  }
}

function slim({ messageId, role, sequence, goalId, branchId, tokens, cost, usage, content }: Message): object {
  // The names of the tools are in previews.
  const calls = content.flatMap((part) => (part.type === "tool_call" ? [{ type: part.type, id: part.id, name: part.name }] : []));
  return { messageId, role, sequence, goalId, branchId, tokens, cost, usage, content: calls };
}
