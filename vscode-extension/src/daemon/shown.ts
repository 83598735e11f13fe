/**
 * Sessions that the views of this window show. Loading a session subscribes the window to its updates; the daemon closes
 * a session, and sends nothing of it, when no window shows it any more.
 */
export class ShownSessions {
  private readonly views = new Map<object, readonly string[]>();

  /** `unsubscribe` is called with sessions that no view shows, whether or not the window is subscribed to them. */
  constructor(private readonly unsubscribe: (sessionId: string) => void) {}

  /** Note all sessions that a view shows or is opening. */
  set(view: object, sessionIds: readonly (string | undefined)[]): void {
    const before = this.views.get(view) ?? [];
    this.views.set(view, sessionIds.filter((id) => id !== undefined));
    for (const sessionId of before) this.settle(sessionId);
  }

  /** Call this after each load: a view that only reads, or that was left meanwhile, needs no updates. */
  settle(sessionId: string): void {
    for (const shown of this.views.values()) if (shown.includes(sessionId)) return;
    this.unsubscribe(sessionId);
  }
}
