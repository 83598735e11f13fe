import type { Daemon } from "../daemon/daemon";
import { KEPT_ITEMS, LOADED_MESSAGES, MOST_ITEMS, type SessionController } from "../session/controller";
import { apply, fromLoad, trim, type SessionState, type Update } from "../session/state";
import { Observable } from "../observable";

/**
 * The record of a branch or sub-agent that the user reads; the current session does not change. `onDidChange` fires with
 * each update of the open record, or with undefined when another record, or none, is open.
 */
export class Records extends Observable<Update | undefined> {
  state: SessionState | undefined;
  private loading: { sessionId: string; updates: Update[] } | undefined;

  constructor(
    private readonly daemon: Daemon,
    sessions: SessionController,
  ) {
    super();
    let shown = sessions.sessionId;
    this.disposables.push(
      daemon.onUpdate(({ sessionId, event, view }) => this.receive(sessionId, { event, view })),
      daemon.onDelta(({ sessionId, delta }) => this.receive(sessionId, { delta })),
      daemon.onDidChangeState(({ phase }) => {
        // A new connection follows nothing yet.
        const wanted = this.loading?.sessionId ?? this.sessionId;
        if (phase === "connected" && wanted) this.open(wanted).catch(() => this.close());
      }),
      sessions.onDidChange(() => {
        // A record belongs to the session that it was opened from.
        if (sessions.sessionId !== shown) this.close();
        shown = sessions.sessionId;
      }),
    );
  }

  get sessionId(): string | undefined {
    return this.state?.session.trace.traceId;
  }

  /** Open a record. Throws the daemon's error when the record no longer exists. */
  async open(sessionId: string): Promise<void> {
    const loading = { sessionId, updates: [] as Update[] };
    this.loading = loading;
    this.tellShown();
    try {
      const loaded = await this.daemon.request("goalwright/session/load", { sessionId, messages: LOADED_MESSAGES });
      if (this.loading !== loading) return;
      this.state = loading.updates.reduce(apply, fromLoad(loaded));
    } finally {
      if (this.loading === loading) this.loading = undefined;
      this.tellShown();
    }
    this.changed.fire(undefined);
  }

  close(): void {
    this.loading = undefined;
    const { state } = this;
    this.state = undefined;
    this.tellShown();
    if (state) this.changed.fire(undefined);
  }

  private tellShown(): void {
    this.daemon.show(this, [this.sessionId, this.loading?.sessionId]);
  }

  private receive(sessionId: string, update: Update): void {
    // Deltas that come before the answer are in it, see `SessionController`.
    if (this.loading?.sessionId === sessionId && !("delta" in update)) this.loading.updates.push(update);
    if (!this.state || sessionId !== this.sessionId) return;
    this.state = trim(apply(this.state, update), MOST_ITEMS, KEPT_ITEMS);
    this.changed.fire(update);
  }
}
