import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import type { SessionController } from "../session/controller";

interface Asked {
  daemon: Pick<Daemon, "request">;
  sessions: Pick<SessionController, "sessionId">;
}

/** Opens the web page of the trace API in the browser, at the session on display; the API is opened when it is not. */
export async function openTrace({ daemon, sessions }: Asked): Promise<void> {
  const { page } = await daemon.request("goalwright/api/open", {});
  await vscode.env.openExternal(vscode.Uri.parse(pageOf(page, sessions.sessionId), true));
}

/** The page's address with the trace to show. */
export function pageOf(page: string, traceId: string | undefined): string {
  const address = new URL(page);
  if (traceId) address.searchParams.set("trace", traceId);
  return address.href;
}
