import { execFile } from "node:child_process";
import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import type { ActiveSession, SessionsActivity } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { t } from "../l10n";

/** What of the chat can be seen now. */
export interface Sight {
  readonly visible: boolean;
}

/**
 * What sessions need of the user that nobody sees: a count for the badge and the status bar, and notifications for
 * those that are not shown, or while the window is not in front.
 */
export class Attention implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  private readonly disposables: vscode.Disposable[];
  private readonly told = new Set<string>();
  private sessions: readonly ActiveSession[] = [];

  constructor(
    daemon: Daemon,
    private readonly shown: SessionController,
    private readonly sight: () => Sight,
  ) {
    this.disposables = [
      this.changed,
      daemon.onActivity((activity) => this.take(activity)),
      daemon.onDidChangeState((state) => {
        // What waits already is counted; the session that is about to be shown may be among it.
        const active = state.phase === "connected" ? state.status.active : [];
        for (const { sessionId, waits } of active) if (waits) this.told.add(sessionId);
        this.take({ active, ended: null, title: "", stopReason: null });
      }),
      shown.onDidChange((change) => {
        if (change.kind === "reset") this.changed.fire();
      }),
    ];
  }

  /** Sessions with a turn under way or a question, the one on display among them. */
  get active(): readonly ActiveSession[] {
    return this.sessions;
  }

  /** Sessions that need the user, and are not the one on display. */
  get others(): readonly ActiveSession[] {
    return this.sessions.filter(({ waits, sessionId }) => waits && sessionId !== this.shown.sessionId);
  }

  /** Questions that wait in all sessions; a choice among branches is one. */
  get count(): number {
    const { state } = this.shown;
    const own = (state?.pending.length ?? 0) + (state?.awaits.length ?? 0);
    return this.others.reduce((sum, { asked }) => sum + Math.max(1, asked.length), own);
  }

  dispose(): void {
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private take({ active, ended, title, stopReason }: SessionsActivity): void {
    this.sessions = active;
    for (const session of active) {
      // A session that waits is told once for each time that it begins to wait.
      if (!session.waits) this.told.delete(session.sessionId);
      else if (!this.told.has(session.sessionId)) {
        this.told.add(session.sessionId);
        this.tell(session.sessionId, t("“{0}” needs your approval", name(session.title)), "approvals");
      }
    }
    for (const id of this.told) if (!active.some(({ sessionId }) => sessionId === id)) this.told.delete(id);
    // Who stops a turn knows that it has ended.
    if (ended && stopReason !== "canceled" && stopReason !== "permission_denied") {
      this.tell(ended, stopReason === "error" ? t("“{0}” stopped with an error", name(title)) : t("“{0}” is done", name(title)), "all");
    }
    this.changed.fire();
  }

  private tell(sessionId: string, text: string, level: "approvals" | "all"): void {
    const wanted = vscode.workspace.getConfiguration("goalwright").get<string>("notifications", "all");
    const seen = sessionId === this.shown.sessionId && this.sight().visible;
    const inFront = vscode.window.state.focused;
    if (wanted === "off" || (level === "all" && wanted !== "all") || (seen && inFront)) return;
    if (!inFront) notifyDesktop(text);
    const open = t("Open");
    void vscode.window.showInformationMessage(text, open).then((picked) => {
      if (picked) void vscode.commands.executeCommand("goalwright.showSession", sessionId);
    });
  }
}

function name(title: string): string {
  return title || t("Untitled session");
}

/**
 * VS Code lets no extension notify through the operating system, so its own programs do, where the window is on this
 * machine. On Windows, and in remote and browser windows, the notification waits in VS Code.
 */
function notifyDesktop(text: string): void {
  if (vscode.env.remoteName !== undefined || vscode.env.uiKind !== vscode.UIKind.Desktop) return;
  const command = desktopNotification(process.platform, text);
  // Without such a program the notification in VS Code is all there is.
  if (command) execFile(command[0], command[1], { timeout: 5_000 }, () => undefined);
}

/** The program that notifies, and its arguments; the text is an argument of its own and never a part of a script. */
export function desktopNotification(platform: NodeJS.Platform, text: string): [string, string[]] | undefined {
  if (platform === "linux") return ["notify-send", ["--app-name=Goalwright", "--", "Goalwright", text]];
  const script = ["on run argv", 'display notification (item 1 of argv) with title "Goalwright"', "end run"];
  return platform === "darwin" ? ["osascript", [...script.flatMap((line) => ["-e", line]), text]] : undefined;
}
