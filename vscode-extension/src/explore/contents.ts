import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import { addressOf, type Address } from "../diff/uris";
import type { FileDiff } from "../protocol.gen";
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

export const BRANCH = "goalwright-branch";

interface BranchSide {
  sessionId: string;
  branchId: string;
  /** Path as in `FileDiff.path`. */
  path: string;
  side: "base" | "branch";
}

export function sideAddress(side: BranchSide): Address {
  return addressOf(BRANCH, side.path, side);
}

export function sideOf(uri: { scheme: string; query: string }): BranchSide | undefined {
  if (uri.scheme !== BRANCH) return undefined;
  try {
    const { sessionId, branchId, path, side } = JSON.parse(uri.query) as Partial<Record<string, unknown>>;
    const known = typeof sessionId === "string" && typeof branchId === "string" && typeof path === "string";
    return known && (side === "base" || side === "branch") ? { sessionId, branchId, path, side } : undefined;
  } catch {
    return undefined;
  }
}

/** Return the tab's title: `cart.py — Branch A`. */
export function sideTitle({ path, branchId }: Pick<BranchSide, "path" | "branchId">): string {
  return t("{0} — Branch {1}", path.split(/[\\/]/).at(-1) || path, branchId);
}
