import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import { aboutOf, addressOf, type Address } from "../diff/uris";
import type { BranchContentParams, FileDiff } from "../protocol.gen";
import { t } from "../l10n";

const BRANCH = "goalwright-branch";

type BranchSide = BranchContentParams & { side: "base" | "branch" };

/** Register the files of branches as read-only documents for VS Code's diff editors. */
export function branchContents(daemon: Pick<Daemon, "request">): vscode.Disposable {
  return vscode.workspace.registerTextDocumentContentProvider(BRANCH, {
    provideTextDocumentContent: async (uri) => {
      const about = sideOf(uri);
      if (!about) return "";
      const { side, ...file } = about;
      try {
        const { base, branch, binary } = await daemon.request("goalwright/explore/content", file);
        return binary ? t("(binary file)") : ((side === "base" ? base : branch) ?? "");
      } catch (error) {
        return asProblem(error).message;
      }
    },
  });
}

/** Show all files of a branch in one diff editor, or a single file in its own. The caret stays where it is. */
export async function showContents(sessionId: string, branchId: string, title: string, files: readonly FileDiff[]): Promise<void> {
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

export function sideAddress(side: BranchSide): Address {
  return addressOf(BRANCH, side.path, side);
}

export function sideOf(uri: Omit<Address, "path">): Record<keyof BranchSide, string> | undefined {
  return aboutOf(uri, [BRANCH], ["sessionId", "branchId", "path", "side"]);
}

/** Return the tab's title: `cart.py — Branch A`. */
export function sideTitle({ path, branchId }: Pick<BranchSide, "path" | "branchId">): string {
  return t("{0} — Branch {1}", path.split(/[\\/]/).at(-1) || path, branchId);
}
