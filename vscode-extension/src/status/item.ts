import * as vscode from "vscode";
import type { Daemon, DaemonState } from "../daemon/daemon";
import { diskFolders, workspaceFolder } from "../daemon/environment";
import { stateText } from "../daemon/problems";
import type { SessionController } from "../session/controller";
import { type Attention, needsApproval } from "./attention";
import { requestTitle } from "../explore/format";
import { modeWords } from "../permission/format";
import type { DaemonStatus } from "../protocol.gen";
import type { SessionState } from "../session/state";
import { t } from "../l10n";

/** The status bar item; a click opens the chat. */
export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("goalwright.status", vscode.StatusBarAlignment.Right, 90);
  private readonly disposables: vscode.Disposable[];
  private shown = "";

  constructor(daemon: Daemon, sessions: SessionController, attention: Attention) {
    this.item.name = "Goalwright";
    this.item.command = "goalwright.focusChat";
    const update = (): void => this.update(daemon, sessions, attention);
    this.disposables = [
      this.item,
      daemon.onDidChangeState(update),
      sessions.onDidChange(update),
      attention.onDidChange(update),
      vscode.workspace.onDidChangeWorkspaceFolders(update),
    ];
    update();
    this.item.show();
  }

  dispose(): void {
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private update(daemon: Daemon, sessions: SessionController, attention: Attention): void {
    const folder = diskFolders().length > 1 ? workspaceFolder()?.name : undefined;
    const words = statusWords(daemon.state, sessions.state, folder, attention);
    // Deltas come many times a second and change nothing here.
    const key = JSON.stringify(words);
    if (key === this.shown) return;
    this.shown = key;
    this.item.text = `$(${words.icon}) Goalwright`;
    if (words.state !== IDLE) this.item.text += `: ${words.state}`;
    if (words.folder) this.item.text += ` · ${words.folder}`;
    if (words.mode) this.item.text += ` · ${words.mode}`;
    this.item.command = words.other ? { command: "goalwright.showSession", title: "", arguments: [words.other] } : "goalwright.focusChat";
    this.item.tooltip = words.mode ? `${words.tooltip}\n${t("Mode: {0}", words.mode)}` : words.tooltip;
    this.item.accessibilityInformation = { label: words.mode ? t("Goalwright: {0}, mode {1}", words.state, words.mode) : t("Goalwright: {0}", words.state) };
    this.item.backgroundColor = words.alarm ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}

export interface StatusWords {
  icon: string;
  state: string;
  tooltip: string;
  /** Given for a colored background. */
  alarm?: true;
  /** Name of the mode, unless it is the default. */
  mode?: string;
  /** Goalwright's folder, if the window has several. */
  folder?: string;
  /** Another session that needs the user; a click opens it. */
  other?: string;
}

type Needs = Pick<Attention, "others" | "count">;

/** The state that the status bar does not spell out. */
const IDLE = t("idle");

/** Return the texts of the status bar. Pure. */
export function statusWords(daemon: DaemonState, session: SessionState | undefined, folder?: string, needs: Needs = { others: [], count: 0 }): StatusWords {
  const known = stateWords(daemon, session, needs);
  const words = folder ? { ...known, folder, tooltip: `${known.tooltip}\n${t("Folder: {0}", folder)}` } : known;
  const mode = session?.session.mode ?? "ask";
  return daemon.phase === "connected" && mode !== "ask" ? { ...words, mode: modeWords(mode).label } : words;
}

/** Icons and words of the states without a connection. */
const APART: Readonly<Record<Exclude<DaemonState["phase"], "connected">, Omit<StatusWords, "tooltip">>> = {
  idle: { icon: "circle-outline", state: t("not started") },
  noFolder: { icon: "folder", state: t("no folder") },
  starting: { icon: "loading~spin", state: t("starting") },
  reconnecting: { icon: "debug-disconnect", state: t("disconnected"), alarm: true },
  stopped: { icon: "circle-slash", state: t("stopped") },
  failed: { icon: "warning", state: t("disconnected"), alarm: true },
};

function stateWords(daemon: DaemonState, session: SessionState | undefined, needs: Needs): StatusWords {
  if (daemon.phase === "connected") return connectedWords(daemon.status, session, needs);
  const absent = daemon.phase === "failed" && (daemon.problem.code === "notInstalled" || daemon.problem.code === "outdated");
  const words = absent ? { icon: "cloud-download", state: t("not installed") } : APART[daemon.phase];
  return { ...words, tooltip: stateText(daemon) || t("Open the chat to start Goalwright.") };
}

function connectedWords(status: DaemonStatus, session: SessionState | undefined, { others, count }: Needs): StatusWords {
  const asks = { icon: "bell-dot", state: count > 1 ? t("{0} approvals needed", count) : t("approval needed"), alarm: true } as const;
  const elsewhere = others.map(({ title }) => needsApproval(title));
  if (session && session.pending.length > 0) return { ...asks, tooltip: [...session.pending.map(requestTitle), ...elsewhere].join("\n") };
  if (session && session.awaits.length > 0) return { ...asks, tooltip: t("Which branch should be used?") };
  const [other] = others;
  if (other) return { ...asks, tooltip: elsewhere.join("\n"), other: other.sessionId };
  const demo = session?.session.demo ?? status.demo;
  const model = session?.session.model ?? status.model;
  const about = demo ? `${t("DEMO: a scripted model answers.")} ${status.modelNotice}` : t("Model: {0}", model);
  const tooltip = status.sandbox ? `${about}\n${t("Commands: {0}", status.sandbox)}` : about;
  if (session && session.session.status !== "idle") return { icon: "loading~spin", state: t("working"), tooltip };
  return demo ? { icon: "beaker", state: t("demo"), tooltip } : { icon: "check", state: IDLE, tooltip };
}
