import * as vscode from "vscode";

/**
 * Show a notification without links. Resolves with the button that the user chose, undefined when it was closed. Modal
 * dialogs show no links, so they do not need this.
 */
export function notify<B extends string | vscode.MessageItem>(level: "info" | "warning" | "error", text: string, ...buttons: B[]): Thenable<B | undefined> {
  const { showInformationMessage: info, showWarningMessage: warning, showErrorMessage: error } = vscode.window;
  const show = { info, warning, error }[level] as (text: string, ...buttons: B[]) => Thenable<B | undefined>;
  return show(unlinked(text), ...buttons);
}

/**
 * Return a text for a notification or the message of an input box without links. VS Code makes links of `[text](address)`
 * there, and a click on one can run a command: titles, file names and errors could bring their own.
 */
export function unlinked(text: string): string {
  return text.replaceAll("](", "] (");
}
