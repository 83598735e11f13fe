/** Commands of a branch's row in the goal tree. */
import type { Parts } from "../commands";
import { placeOf } from "../goals/branches";
import { childSession } from "./children";

export function branchActions({ sessions, explorations, records, chat }: Pick<Parts, "sessions" | "explorations" | "records" | "chat">): Record<string, (element: unknown) => unknown> {
  const on = (action: (sessionId: string, branchId: string) => unknown) => (element: unknown) => {
    const place = typeof element === "string" ? placeOf(element) : undefined;
    const { sessionId } = sessions;
    return sessionId && place && "branch" in place ? action(sessionId, place.branch) : undefined;
  };
  return {
    showBranchChanges: on((sessionId, id) => explorations.open(sessionId, id)),
    useBranch: on((sessionId, id) => {
      const branch = sessions.state?.branches[id];
      return branch && explorations.use(sessionId, branch.exploreStartId, [id]);
    }),
    openBranch: on(async (sessionId, id) => {
      await records.open(childSession(sessionId, id));
      await chat.reveal();
    }),
    removeBranch: on((sessionId, id) => explorations.remove(sessionId, id)),
  };
}
