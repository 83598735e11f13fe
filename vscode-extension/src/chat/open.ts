import { stat } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { expand, workspaceFolder } from "../daemon/environment";
import { shellCommand, target } from "./links";
import { t } from "../l10n";
import { notify } from "../notify";

/** Follow a link of an answer. */
export async function openLink(href: string): Promise<void> {
  const where = target(href);
  if (where.kind === "web") await vscode.env.openExternal(vscode.Uri.parse(where.url, true));
  if (where.kind === "file") await openFile(where.path, where.line, where.column);
}

/** Resolve a file name that is relative to Goalwright's folder, absolute, or below the home directory (`~/`). */
export function fileUri(name: string): vscode.Uri | undefined {
  const folder = workspaceFolder()?.uri.fsPath;
  const whole = expand(name, undefined);
  const file = path.isAbsolute(whole) ? whole : folder && path.join(folder, whole);
  return file ? vscode.Uri.file(file) : undefined;
}

/** Open a file, relative to Goalwright's folder. Lines and columns count from 1. */
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

/** Type a command into a new terminal without running it. Text that would run at once goes to the clipboard instead. */
export async function openInTerminal(text: string): Promise<void> {
  const command = shellCommand(text);
  if (!command.text) return;
  const terminal = vscode.window.createTerminal({ name: "Goalwright", ...(workspaceFolder() ? { cwd: workspaceFolder()?.uri.fsPath ?? "" } : {}) });
  terminal.show();
  if (command.typeable) return terminal.sendText(command.text, false);
  await vscode.env.clipboard.writeText(command.text);
  void notify("info", t("This command has several lines, which a terminal would run one by one. It is in the clipboard: paste it when you are ready."));
}

/** Replace the selection in the last used editor with code, indented to fit. */
export async function insertAtCursor(text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor) await vscode.window.showTextDocument(editor.document, { ...(editor.viewColumn ? { viewColumn: editor.viewColumn } : {}) });
  const done = await editor?.insertSnippet(new vscode.SnippetString().appendText(text));
  if (!done) void notify("info", t("Open a file that can be changed, and put the cursor where the code belongs."));
}
