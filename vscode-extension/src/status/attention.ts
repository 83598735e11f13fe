import { execFile } from "node:child_process";
import * as vscode from "vscode";
import type { ChatView } from "../chat/view";
import type { Daemon } from "../daemon/daemon";
import type { ActiveSession, SessionsActivity } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { Observable } from "../observable";
import { t } from "../l10n";
import { notify } from "../notify";

/**
 * Track what sessions need from the user: a count for the badge and the status bar, and notifications for sessions that
 * are not visible or while the window is in the background.
 */
export class Attention extends Observable {
  private readonly told = new Set<string>();
  /** Sessions with a running turn or a pending request, including the current one. */
  active: readonly ActiveSession[] = [];

  constructor(
    daemon: Daemon,
    private readonly shown: SessionController,
    private readonly sight: () => Pick<ChatView, "visible">,
  ) {
    super();
    this.disposables.push(
      daemon.onActivity((activity) => this.take(activity)),
      daemon.onDidChangeState((state) => {
        // Requests that are already pending are counted without a notification; the session about to be shown may have
        // one.
        const active = state.phase === "connected" ? state.status.active : [];
        for (const { sessionId, waits } of active) if (waits) this.told.add(sessionId);
        this.take({ active, ended: null, title: "", stopReason: null });
      }),
      shown.onDidChange((change) => {
        if (change.kind === "reset") this.changed.fire();
      }),
    );
  }

  /** Other sessions that need the user. */
  get others(): readonly ActiveSession[] {
    return this.active.filter(({ waits, sessionId }) => waits && sessionId !== this.shown.sessionId);
  }

  /** Number of pending requests and choices among branches in all sessions. */
  get count(): number {
    const { state } = this.shown;
    const own = (state?.pending.length ?? 0) + (state?.awaits.length ?? 0);
    return this.others.reduce((sum, { asked }) => sum + Math.max(1, asked.length), own);
  }

  private take({ active, ended, title, stopReason }: SessionsActivity): void {
    this.active = active;
    for (const session of active) {
      // Notify once each time a session starts to wait.
      if (!session.waits) this.told.delete(session.sessionId);
      else if (!this.told.has(session.sessionId)) {
        this.told.add(session.sessionId);
        this.tell(session.sessionId, needsApproval(session.title), "approvals");
      }
    }
    for (const id of this.told) if (!active.some(({ sessionId }) => sessionId === id)) this.told.delete(id);
    // A user who stops a turn needs no notification.
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
    void notify("info", text, open).then((picked) => {
      if (picked) void vscode.commands.executeCommand("goalwright.showSession", sessionId);
    });
  }
}

export function needsApproval(title: string): string {
  return t("“{0}” needs your approval", name(title));
}

function name(title: string): string {
  return title || t("Untitled session");
}

/**
 * Notify through the operating system's programs, because VS Code has no API for it; only where the window is on this
 * machine. On Windows, and in remote and browser windows, the notification stays in VS Code.
 */
function notifyDesktop(text: string): void {
  if (vscode.env.remoteName !== undefined || vscode.env.uiKind !== vscode.UIKind.Desktop) return;
  const command = desktopNotification(process.platform, text);
  // Without such a program, only the notification in VS Code is shown.
  if (command) execFile(command[0], command[1], { timeout: 5_000 }, () => undefined);
}

/** Return the notification program with its arguments. The text is a separate argument, never part of a script. */
export function desktopNotification(platform: NodeJS.Platform, text: string): [string, string[]] | undefined {
  if (platform === "linux") return ["notify-send", ["--app-name=Goalwright", "--", "Goalwright", text]];
  const script = ["on run argv", 'display notification (item 1 of argv) with title "Goalwright"', "end run"];
  return platform === "darwin" ? ["osascript", [...script.flatMap((line) => ["-e", line]), text]] : undefined;
}
