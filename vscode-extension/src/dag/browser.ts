import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import type { SessionController } from "../session/controller";
import { t } from "../l10n";

interface Asked {
  daemon: Pick<Daemon, "request">;
  sessions: Pick<SessionController, "sessionId">;
}

/** Opens the web page of the trace API in the browser, at the session on display; the API is opened when it is not. */
export async function openTrace({ daemon, sessions }: Asked): Promise<void> {
  const { page } = await daemon.request("goalwright/api/open", {});
  const address = vscode.Uri.parse(pageOf(page, sessions.sessionId), true);
  // From the desktop VS Code forwards the port of a remote machine.
  if (vscode.env.uiKind === vscode.UIKind.Desktop) {
    await vscode.env.openExternal(address);
    return;
  }
  // VS Code in a browser would lead through its own server's proxy: another host, which the API refuses.
  const where = `${address.scheme}://${address.authority}`;
  // A dialog, for a notification is gone before the address is written down.
  const choice = await vscode.window.showInformationMessage(
    t("The trace is at {0}, on the machine that Goalwright runs on.", where),
    { modal: true, detail: t("Copy the address and open it in a browser on that machine, or forward the port.") },
    t("Copy Address"),
  );
  if (choice) await vscode.env.clipboard.writeText(pageOf(page, sessions.sessionId));
}

/** The page's address with the trace to show. */
export function pageOf(page: string, traceId: string | undefined): string {
  const address = new URL(page);
  if (traceId) address.searchParams.set("trace", traceId);
  return address.href;
}
