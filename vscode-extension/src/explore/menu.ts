/** Commands of a branch's row in the goal tree. */
import type { ChatView } from "../chat/view";
import { placeOf } from "../goals/branches";
import type { SessionController } from "../session/controller";
import { childSession } from "./children";
import type { Explorations } from "./explorations";
import type { Records } from "./record";

interface Parts {
  sessions: SessionController;
  explorations: Explorations;
  records: Records;
  chat: ChatView;
}

export function branchActions({ sessions, explorations, records, chat }: Parts): Record<string, (element: unknown) => unknown> {
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
