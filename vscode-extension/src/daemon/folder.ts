import * as vscode from "vscode";
import { t } from "../l10n";

/** Workspace storage key for the URI of the folder that the user chose. */
const CHOSEN = "goalwright.folder";

let memory: vscode.Memento | undefined;

/** Set the storage for the choice. */
export function rememberFolderIn(memento: vscode.Memento): void {
  memory = memento;
}

/** Return the folders of this window that are on disk. */
export function diskFolders(): readonly vscode.WorkspaceFolder[] {
  return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file");
}

/** Return the folder that Goalwright works in: the chosen one, or else the first. */
export function workspaceFolder(): vscode.WorkspaceFolder | undefined {
  const folders = diskFolders();
  const chosen = memory?.get<string>(CHOSEN);
  return folders.find((folder) => folder.uri.toString() === chosen) ?? folders[0];
}

/** Let the user choose the folder to work in. True when it changed. */
export async function chooseFolder(): Promise<boolean> {
  const current = workspaceFolder();
  const picks = diskFolders().map((folder) => ({
    label: folder.name,
    description: folder === current ? t("{0} (now)", folder.uri.fsPath) : folder.uri.fsPath,
    folder,
  }));
  if (picks.length === 0) {
    await vscode.commands.executeCommand("workbench.action.files.openFolder");
    return false;
  }
  const pick = await vscode.window.showQuickPick(picks, {
    title: t("Choose Folder"),
    placeHolder: t("Goalwright works in one folder. Access to the others needs your permission."),
    matchOnDescription: true,
  });
  if (!pick || pick.folder === current) return false;
  await memory?.update(CHOSEN, pick.folder.uri.toString());
  return true;
}
