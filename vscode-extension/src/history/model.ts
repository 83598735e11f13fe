import type * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import type { HistoryChange, HistoryOutcome, HistoryRestoreParams, HistoryResult } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import type { Update } from "../session/state";
import { Observable, Soon } from "../observable";

/** Changes since a message or of a goal; without `sessionId` of the current session. */
export type About = Pick<HistoryRestoreParams, "messageId" | "goalId"> & { sessionId?: string };

const EMPTY: HistoryResult = { changes: [], undo: null, redo: null };
/** A patch of many files causes many events at once; they share one request to the daemon. */
const PAUSE_MS = 50;

/** The file changes of the current session that can be undone or redone, in `value`. The daemon tracks and reverts them. */
export class FileHistory extends Observable {
  value = EMPTY;
  private readonly soon = new Soon(PAUSE_MS, () => void this.read());
  private reads = 0;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
    private readonly log: vscode.LogOutputChannel,
  ) {
    super();
    this.disposables.push(
      this.soon,
      sessions.onDidChange((change) => {
        if (change.kind === "reset") void this.read();
        else if (change.kind === "update" && concerns(change.update)) this.soon.request();
      }),
    );
  }

  /** Return the changes by tool call. */
  byCall(): Record<string, HistoryChange> {
    return Object.fromEntries(this.value.changes.map((change) => [change.toolCallId, change]));
  }

  /** Undo or redo a change, or the next one without an id. Throws on a conflict. */
  step(action: "undo" | "redo", changeId?: string): Promise<HistoryOutcome> {
    return this.daemon.request(`goalwright/history/${action}`, { sessionId: this.sessions.required(), changeId: changeId ?? null });
  }

  /** Return the id of the current session. Throws an error with a message for the user when there is none. */
  get sessionId(): string {
    return this.sessions.required();
  }

  /** Revert all changes since a message or of a goal; with `dryRun` only return what would change. */
  restore(about: About, dryRun: boolean, texts = false): Promise<HistoryOutcome> {
    return this.daemon.request("goalwright/history/restore", { sessionId: this.sessionId, ...about, dryRun, texts });
  }

  private async read(): Promise<void> {
    const read = ++this.reads;
    const { sessionId } = this.sessions;
    if (!sessionId || this.daemon.state.phase !== "connected") return this.set(EMPTY);
    try {
      const value = await this.daemon.request("goalwright/history/list", { sessionId });
      if (read === this.reads) this.set(value);
    } catch (error) {
      this.log.warn(`file history: ${asProblem(error).message}`);
    }
  }

  private set(value: HistoryResult): void {
    if (value === this.value) return;
    this.value = value;
    this.changed.fire();
  }
}

function concerns(update: Update): boolean {
  if (!("event" in update)) return false;
  const kind = update.event.event;
  return kind === "file_changed" || kind === "files_restored" || kind === "turn_ended";
}
