import { stat } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { expand, workspaceFolder } from "../daemon/environment";
import { target } from "./links";
import { t } from "../l10n";

/** Follows a link of an answer. */
export async function openLink(href: string): Promise<void> {
  const where = target(href);
  if (where.kind === "web") await vscode.env.openExternal(vscode.Uri.parse(where.url, true));
  if (where.kind === "file") await openFile(where.path, where.line, where.column);
}

/** A file by its name, which is relative to the folder Goalwright works in, absolute, or below the home (`~/`). */
export function fileUri(name: string): vscode.Uri | undefined {
  const folder = workspaceFolder()?.uri.fsPath;
  const whole = expand(name, undefined);
  const file = path.isAbsolute(whole) ? whole : folder && path.join(folder, whole);
  return file ? vscode.Uri.file(file) : undefined;
}

/** Opens a file, relative to the folder Goalwright works in. Lines and columns count from 1. */
export async function openFile(name: string, line?: number, column?: number): Promise<void> {
  const uri = fileUri(name);
  const found = uri && (await stat(uri.fsPath).catch(() => undefined));
  if (!uri || !found) {
    vscode.window.setStatusBarMessage(t("Goalwright: there is no file {0}", name), 4_000);
    return;
  }
  if (found.isDirectory()) {
    await vscode.commands.executeCommand("revealInExplorer", uri);
    return;
  }
  const position = line === undefined ? undefined : new vscode.Position(Math.max(0, line - 1), Math.max(0, (column ?? 1) - 1));
  await vscode.commands.executeCommand("vscode.open", uri, {
    preview: true,
    ...(position ? { selection: new vscode.Range(position, position) } : {}),
  });
}
