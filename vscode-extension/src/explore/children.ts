/** Branches and sub-agents of a session. Pure. */
import type { BranchMeta } from "../protocol.gen";
import type { Branches } from "../session/state";

/** Return the branches of one exploration. */
export function branchesOf(branches: Branches, exploreStartId: string): BranchMeta[] {
  return Object.values(branches).filter((branch) => branch.exploreStartId === exploreStartId);
}

/** Return the session id of a branch or sub-agent (`daemon/model/branches.py: child_id`). */
export function childSession(sessionId: string, id: string): string {
  return sessionId.includes(":") ? `${sessionId}.${id}` : `${sessionId}:${id}`;
}

/** Return true if a request of branch `asking` (`A.s1`) comes from the branch or from a session below it. */
export function asksFor(asking: string | null, branchId: string): boolean {
  return asking !== null && (asking === branchId || asking.startsWith(`${branchId}.`));
}
