import * as vscode from "vscode";
import type { Parts } from "../commands";
import { t } from "../l10n";

/** Open the trace API's web page in the browser, at the current session. Starts the API if necessary. */
export async function openTrace({ daemon, sessions }: Pick<Parts, "daemon" | "sessions">): Promise<void> {
  const { page } = await daemon.request("goalwright/api/open", {});
  const address = vscode.Uri.parse(pageOf(page, sessions.sessionId), true);
  // Desktop VS Code forwards the port of a remote machine.
  if (vscode.env.uiKind === vscode.UIKind.Desktop) {
    await vscode.env.openExternal(address);
    return;
  }
  // VS Code in a browser would use its server's proxy, whose host the API rejects.
  const where = `${address.scheme}://${address.authority}`;
  // A dialog stays open until the user has noted the address; a notification would disappear.
  const choice = await vscode.window.showInformationMessage(
    t("The trace is at {0}, on the machine that Goalwright runs on.", where),
    { modal: true, detail: t("Copy the address and open it in a browser on that machine, or forward the port.") },
    t("Copy Address"),
  );
  if (choice) await vscode.env.clipboard.writeText(pageOf(page, sessions.sessionId));
}

/** Return the page's address with the trace to show. */
export function pageOf(page: string, traceId: string | undefined): string {
  const address = new URL(page);
  if (traceId) address.searchParams.set("trace", traceId);
  return address.href;
}
