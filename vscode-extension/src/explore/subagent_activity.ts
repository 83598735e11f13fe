import type { Daemon } from "../daemon/daemon";
import type { SessionUpdate } from "../protocol.gen";
import type { SessionState } from "../session/state";
import { childSession } from "./children";
import type { Glimpse } from "./outcomes";
import { lastLine } from "./format";

/** Follow running sub-agents: the log of their parent contains only their start and end. */
export class Glimpses {
  private readonly seen = new Map<string, Glimpse>();

  /** `changed` is called when a glimpse changes. */
  constructor(
    private readonly daemon: Pick<Daemon, "request">,
    private readonly changed: (live: Readonly<Record<string, Glimpse>>) => void,
  ) {}

  /** Follow the running sub-agents of these sessions, and drop all others. */
  follow(states: readonly (SessionState | undefined)[]): void {
    const wanted = new Set<string>();
    for (const state of states) {
      for (const agent of Object.values(state?.subagents ?? {})) {
        if (state && agent.status === "running") wanted.add(childSession(state.session.trace.traceId, agent.id));
      }
    }
    for (const sessionId of this.seen.keys()) if (!wanted.has(sessionId)) this.seen.delete(sessionId);
    for (const sessionId of wanted) if (!this.seen.has(sessionId)) void this.begin(sessionId);
  }

  /** Handle an event of any session. */
  receive({ sessionId, event }: SessionUpdate): void {
    const known = this.seen.get(sessionId);
    if (!known || event.event !== "message_added") return;
    this.set(sessionId, { line: lastLine(event.message) || known.line, messages: known.messages + 1 });
  }

  private async begin(sessionId: string): Promise<void> {
    this.seen.set(sessionId, { line: "", messages: 0 });
    try {
      const { messages, session } = await this.daemon.request("goalwright/session/load", { sessionId, messages: 1 });
      if (this.seen.has(sessionId)) this.set(sessionId, { line: lastLine(messages.at(-1) ?? null), messages: session.trace.messageCount });
    } catch {
      // The sub-agent has ended already; its card shows the result.
    }
  }

  private set(sessionId: string, glimpse: Glimpse): void {
    this.seen.set(sessionId, glimpse);
    this.changed(Object.fromEntries(this.seen));
  }
}
