/** The branches and sub-agents of a session. Pure. */
import type { BranchMeta } from "../protocol.gen";
import type { Branches } from "../session/state";

/** The branches of one exploration. */
export function branchesOf(branches: Branches, exploreStartId: string): BranchMeta[] {
  return Object.values(branches).filter((branch) => branch.exploreStartId === exploreStartId);
}

/** The session of a branch or sub-agent (`daemon/model/branches.py: child_id`). */
export function childSession(sessionId: string, id: string): string {
  return sessionId.includes(":") ? `${sessionId}.${id}` : `${sessionId}:${id}`;
}

/** Whether a request of branch `asking` (`A.s1`) comes from a branch or what works for it; `within`: of the session on display. */
export function asksFor(asking: string | null, branchId: string): boolean {
  return asking !== null && (asking === branchId || asking.startsWith(`${branchId}.`));
}
