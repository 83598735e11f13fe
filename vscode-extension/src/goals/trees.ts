import type { Daemon } from "../daemon/daemon";
import { childSession } from "../explore/children";
import type { GoalTree } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import type { Update } from "../session/state";

/** Plans of branches: those whose life was seen come with the session, others are loaded when they are looked at. */
export class BranchTrees {
  private readonly loaded = new Map<string, GoalTree | undefined>();
  private session = "";

  /** `changed`: another plan is there. */
  constructor(
    private readonly daemon: Pick<Daemon, "request">,
    private readonly sessions: SessionController,
    private readonly changed: () => void,
  ) {}

  /** The plan of a branch, as far as it is known; what is missing comes later. */
  tree(branchId: string): GoalTree | undefined {
    const { state, sessionId } = this.sessions;
    if (!state || !sessionId) return undefined;
    if (sessionId !== this.session) this.loaded.clear();
    this.session = sessionId;
    const seen = state.branches[branchId]?.goalTree;
    if (seen) return seen;
    if (!this.loaded.has(branchId)) {
      this.loaded.set(branchId, undefined);
      void this.load(sessionId, branchId);
    }
    return this.loaded.get(branchId);
  }

  /** The plan of a branch has changed: what was loaded is old. */
  note(update: Update): void {
    if (!("event" in update)) return;
    const { event } = update;
    if (event.event === "branch_goal_added" || event.event === "branch_goal_updated" || event.event === "branch_completed") this.loaded.delete(event.branchId);
  }

  private async load(sessionId: string, branchId: string): Promise<void> {
    try {
      const { goalTree } = await this.daemon.request("goalwright/session/load", { sessionId: childSession(sessionId, branchId), messages: 0 });
      if (sessionId !== this.session) return;
      this.loaded.set(branchId, goalTree);
      this.changed();
    } catch {
      // A branch that was removed has no plan any more; its row says so.
    }
  }
}
