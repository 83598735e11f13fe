import type { Daemon } from "../daemon/daemon";
import { childSession } from "../explore/children";
import type { GoalTree } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import type { Update } from "../session/state";

/** Plans of branches. The session's state has those of branches that ran while it was open; others are loaded on demand. */
export class BranchTrees {
  private readonly loaded = new Map<string, GoalTree | undefined>();
  private session = "";

  /** `changed` is called when a plan was loaded. */
  constructor(
    private readonly daemon: Pick<Daemon, "request">,
    private readonly sessions: SessionController,
    private readonly changed: () => void,
  ) {}

  /** Return the plan of a branch if it is known; otherwise start to load it. */
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

  /** Drop the loaded plan of a branch after it changed. */
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
      // A removed branch has no plan; its row shows that.
    }
  }
}
