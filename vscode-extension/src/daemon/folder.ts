import * as vscode from "vscode";
import { t } from "../l10n";

/** The uri of the folder the person chose, remembered with the workspace. */
const CHOSEN = "goalwright.folder";

let memory: vscode.Memento | undefined;

/** Where the choice is remembered. */
export function rememberFolderIn(memento: vscode.Memento): void {
  memory = memento;
}

/** The folders of this window that lie on disk. */
export function diskFolders(): readonly vscode.WorkspaceFolder[] {
  return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file");
}

/** The folder Goalwright works in: the one that was chosen, else the first. */
export function workspaceFolder(): vscode.WorkspaceFolder | undefined {
  const folders = diskFolders();
  const chosen = memory?.get<string>(CHOSEN);
  return folders.find((folder) => folder.uri.toString() === chosen) ?? folders[0];
}

/** Asks which folder to work in. True when it is another one now. */
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
