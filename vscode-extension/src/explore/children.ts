/** What a session knows of its branches and sub-agents, and how events change it. Pure, as `session/state.ts` is. */
import { extendedPreview, workedMs } from "../../../daemon/api/page/goals.js";
import type { BranchMeta, Event, GoalTree, Message, SessionLoadResult, SubagentMeta } from "../protocol.gen";
import { applyToGoals } from "../session/goals";

export interface Children {
  /** By id, in the order in which they were started. */
  branches: Readonly<Record<string, BranchMeta>>;
  subagents: Readonly<Record<string, SubagentMeta>>;
  /** Plans of branches whose whole life was seen here; that of another one is loaded when it is looked at. */
  trees: Readonly<Record<string, GoalTree>>;
  /** Explorations, by their goals, that wait for the person to choose. */
  awaits: readonly string[];
}

export const NO_CHILDREN: Children = { branches: {}, subagents: {}, trees: {}, awaits: [] };

/** A daemon that knows no branches tells of none. */
export function childrenOfLoad(loaded: Partial<Pick<SessionLoadResult, "branches" | "subagents" | "awaitsChoice">>): Children {
  return { branches: loaded.branches ?? {}, subagents: loaded.subagents ?? {}, trees: {}, awaits: loaded.awaitsChoice ?? [] };
}

/** After an event; the same object when it is about none of them. */
export function applyToChildren(children: Children, event: Event): Children {
  switch (event.event) {
    case "branch_started":
      return withTree(withBranch(children, event.branch), event.branch.id, { mission: event.branch.description, currentId: null, goals: [] });
    case "branch_goal_added": {
      const next = change(children, event.branchId, (branch) => ({ ...branch, goalCount: branch.goalCount + 1 }));
      const tree = children.trees[event.branchId];
      const { branchId: _, ...added } = event;
      return tree ? withTree(next, event.branchId, applyToGoals(tree, { ...added, event: "goal_added", index: null, by: "" })) : next;
    }
    case "branch_goal_updated": {
      const tree = children.trees[event.branchId];
      const { branchId: _, ...updated } = event;
      return tree ? withTree(children, event.branchId, applyToGoals(tree, { ...updated, event: "goal_updated", by: "" })) : children;
    }
    case "branch_message_added": {
      const { branchId, message, affectedGoals } = event;
      const next = change(children, branchId, (branch) => counted(branch, message));
      const tree = children.trees[branchId];
      if (!tree || affectedGoals.length === 0) return next;
      const { branchId: _, ...added } = event;
      return withTree(next, branchId, applyToGoals(tree, { ...added, event: "message_added" }));
    }
    case "branch_completed": {
      const { branchId, status, summary, cumulativeStats, lastMessage, score } = event;
      return change(children, branchId, (branch) => ({ ...branch, status, summary, cumulativeStats, score, lastMessage: lastMessage ?? branch.lastMessage }));
    }
    case "branch_removed":
      return change(children, event.branchId, (branch) => ({ ...branch, removed: true }));
    case "subagent_started":
    case "subagent_completed":
      return { ...children, subagents: { ...children.subagents, [event.subagent.id]: event.subagent } };
    default:
      return children;
  }
}

/** Waits for the person, or no longer. */
export function withAwaited(children: Children, exploreStartId: string, waits: boolean): Children {
  if (children.awaits.includes(exploreStartId) === waits) return children;
  const others = children.awaits.filter((one) => one !== exploreStartId);
  return { ...children, awaits: waits ? [...others, exploreStartId] : others };
}

/** The branches of one exploration. */
export function branchesOf(children: Children, exploreStartId: string): BranchMeta[] {
  return Object.values(children.branches).filter((branch) => branch.exploreStartId === exploreStartId);
}

/** The session of a branch or sub-agent (`daemon/model/branches.py: child_id`). */
export function childSession(sessionId: string, id: string): string {
  return sessionId.includes(":") ? `${sessionId}.${id}` : `${sessionId}:${id}`;
}

/** Whether a request of branch `asking` (`A.s1`) comes from a branch or what works for it; `within`: of the session on display. */
export function asksFor(asking: string | null, branchId: string): boolean {
  return asking !== null && (asking === branchId || asking.startsWith(`${branchId}.`));
}

/** What the request took that a message answers. */
function tokensOf({ usage }: Message): number {
  return usage ? usage.input + usage.output + usage.cacheRead + usage.cacheWrite : 0;
}

function counted(branch: BranchMeta, message: Message): BranchMeta {
  const before = branch.cumulativeStats;
  const cumulativeStats = {
    ...before,
    messageCount: before.messageCount + 1,
    totalTokens: before.totalTokens + tokensOf(message),
    totalCost: before.totalCost + (message.cost ?? 0),
    durationMs: before.durationMs + workedMs({ duration_ms: message.durationMs, overlap_ms: message.overlapMs }),
    preview: extendedPreview(before.preview ?? null, message),
  };
  return { ...branch, cumulativeStats, lastMessage: message };
}

function change(children: Children, id: string, to: (branch: BranchMeta) => BranchMeta): Children {
  const branch = children.branches[id];
  return branch ? withBranch(children, to(branch)) : children;
}

function withBranch(children: Children, branch: BranchMeta): Children {
  return { ...children, branches: { ...children.branches, [branch.id]: branch } };
}

function withTree(children: Children, id: string, tree: GoalTree): Children {
  return { ...children, trees: { ...children.trees, [id]: tree } };
}
