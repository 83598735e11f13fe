import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { diskFolders, workspaceFolder } from "../daemon/folder";
import type { SessionController } from "../session/controller";
import type { Attention } from "./attention";
import { IDLE, statusWords } from "./format";
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
