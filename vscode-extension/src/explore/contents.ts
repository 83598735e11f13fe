import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import type { FileDiff } from "../protocol.gen";
import { BRANCH, sideAddress, sideOf, sideTitle, type BranchSide } from "./uris";
import { t } from "../l10n";

/** The files of branches as read-only documents in VS Code's diff editors. */
export class BranchContents implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly disposable: vscode.Disposable;

  constructor(private readonly daemon: Pick<Daemon, "request">) {
    this.disposable = vscode.workspace.registerTextDocumentContentProvider(BRANCH, this);
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const about = sideOf(uri);
    if (!about) return "";
    const { sessionId, branchId, path, side } = about;
    try {
      const { base, branch, binary } = await this.daemon.request("goalwright/explore/content", { sessionId, branchId, path });
      return binary ? t("(binary file)") : ((side === "base" ? base : branch) ?? "");
    } catch (error) {
      return asProblem(error).message;
    }
  }

  /** Show all files of a branch in one diff editor, or a single file in its own. The caret stays where it is. */
  async show(sessionId: string, branchId: string, title: string, files: readonly FileDiff[]): Promise<void> {
    const uri = (path: string, side: BranchSide["side"]): vscode.Uri => vscode.Uri.from(sideAddress({ sessionId, branchId, path, side }));
    const [first] = files;
    if (!first) {
      void vscode.window.showInformationMessage(t("Branch {0} changed no file.", branchId));
      return;
    }
    if (files.length === 1) {
      await vscode.commands.executeCommand("vscode.diff", uri(first.movedFrom ?? first.path, "base"), uri(first.path, "branch"), sideTitle({ path: first.path, branchId }), {
        preview: true,
        preserveFocus: true,
      });
      return;
    }
    const changes = files.map(({ path, kind, movedFrom }) => [
      uri(path, "branch"),
      kind === "create" ? undefined : uri(movedFrom ?? path, "base"),
      kind === "delete" ? undefined : uri(path, "branch"),
    ]);
    await vscode.commands.executeCommand("vscode.changes", title, changes);
  }

  dispose(): void {
    this.disposable.dispose();
  }
}
