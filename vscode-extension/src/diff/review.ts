import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import type { PermissionContentResult, PermissionRequest } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { address, AFTER, BEFORE, proposedBy, title } from "./uris";

/** For so long after a keystroke in a file the person is taken to be typing there. */
const TYPING_MS = 4_000;
const NOTHING: readonly PermissionRequest[] = [];

/**
 * Shows the files of a pending request in VS Code's own diff editor, and closes them when it was answered, here or
 * elsewhere.
 */
export class Review implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly disposables: vscode.Disposable[];
  private readonly contents = new Map<string, Promise<PermissionContentResult>>();
  /** Requests whose diffs were opened once by themselves; who closes them does not want them back. */
  private readonly opened = new Set<string>();
  private lastKeystroke = 0;
  private seen: readonly PermissionRequest[] | undefined;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.disposables = [
      vscode.workspace.registerTextDocumentContentProvider(BEFORE, this),
      vscode.workspace.registerTextDocumentContentProvider(AFTER, this),
      vscode.window.onDidChangeTextEditorSelection(({ kind, textEditor }) => {
        if (kind === vscode.TextEditorSelectionChangeKind.Keyboard && textEditor.document.uri.scheme === "file") {
          this.lastKeystroke = Date.now();
        }
      }),
      sessions.onDidChange(() => this.sync()),
      sessions.onDidAnswer(({ request }) => void this.close(request.requestId)),
    ];
    this.sync();
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const proposed = proposedBy(uri);
    if (!proposed) return "";
    try {
      const content = await this.content(proposed.requestId, proposed.path);
      if (content.binary) return "(binary file)";
      return (uri.scheme === BEFORE ? content.before : content.after) ?? "";
    } catch (error) {
      this.log.warn(`content of ${proposed.path}: ${asProblem(error).message}`);
      return "";
    }
  }

  /** Opens the diffs of a request: all files, or one of them. */
  async open(request: PermissionRequest, path?: string, byItself = false): Promise<void> {
    const files = request.files.filter((file) => path === undefined || file.path === path);
    // Back to front, so that the first file is the one in view at the end.
    for (const file of [...files].reverse()) {
      const proposed = { requestId: request.requestId, path: file.path };
      await this.content(request.requestId, file.path).catch(() => undefined);
      if (!this.isPending(request.requestId)) return;
      const typing = byItself && Date.now() - this.lastKeystroke < TYPING_MS;
      await vscode.commands.executeCommand(
        "vscode.diff",
        vscode.Uri.from(address(BEFORE, proposed)),
        vscode.Uri.from(address(AFTER, proposed)),
        title(file.path, file.kind),
        // A diff that opens by itself takes neither the caret nor, from somebody who is typing, the editor.
        { preview: false, preserveFocus: byItself, background: typing },
      );
    }
    // It may have been answered while the editors were opening.
    if (!this.isPending(request.requestId)) await this.close(request.requestId);
  }

  /** The request that a command is about: that of the given document or the editor in front, else the oldest. */
  target(uri?: vscode.Uri): PermissionRequest | undefined {
    const pending = this.sessions.state?.pending ?? [];
    const front = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
    const about = uri ?? (front instanceof vscode.TabInputTextDiff ? front.modified : undefined);
    const requestId = about && proposedBy(about)?.requestId;
    return pending.find((request) => request.requestId === requestId) ?? (requestId ? undefined : pending[0]);
  }

  dispose(): void {
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private sync(): void {
    const pending = this.sessions.state?.pending ?? NOTHING;
    // Most changes are text that streams.
    if (pending === this.seen) return;
    this.seen = pending;
    const automatic = vscode.workspace.getConfiguration("goalwright").get<boolean>("openDiffAutomatically", true);
    void this.closeStale(new Set(pending.map((request) => request.requestId)));
    for (const request of pending) {
      if (this.opened.has(request.requestId)) continue;
      this.opened.add(request.requestId);
      if (!automatic || request.files.length === 0 || this.tabs(request.requestId).length > 0) continue;
      this.open(request, undefined, true).catch((error: unknown) => this.log.error(String(error)));
    }
  }

  private content(requestId: string, path: string): Promise<PermissionContentResult> {
    const key = JSON.stringify([requestId, path]);
    let content = this.contents.get(key);
    if (!content) {
      content = this.daemon.request("goalwright/permission/content", { requestId, path });
      content.catch(() => this.contents.delete(key));
      this.contents.set(key, content);
    }
    return content;
  }

  private isPending(requestId: string): boolean {
    return this.sessions.state?.pending.some((request) => request.requestId === requestId) ?? false;
  }

  private tabs(requestId?: string): vscode.Tab[] {
    return vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input }) => {
        if (!(input instanceof vscode.TabInputTextDiff)) return false;
        const proposed = proposedBy(input.modified);
        return proposed !== undefined && (requestId === undefined || proposed.requestId === requestId);
      });
  }

  private async close(requestId: string): Promise<void> {
    for (const key of this.contents.keys()) {
      if ((JSON.parse(key) as string[])[0] === requestId) this.contents.delete(key);
    }
    const tabs = this.tabs(requestId);
    if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
  }

  /** Tabs that VS Code restored after a reload, of requests that were answered in the meantime. */
  private async closeStale(pending: ReadonlySet<string>): Promise<void> {
    if (this.daemon.state.phase !== "connected" || !this.sessions.state) return;
    const stale = this.tabs().filter(({ input }) => {
      const proposed = proposedBy((input as vscode.TabInputTextDiff).modified);
      return proposed !== undefined && !pending.has(proposed.requestId);
    });
    if (stale.length > 0) await vscode.window.tabGroups.close(stale, true);
  }
}
