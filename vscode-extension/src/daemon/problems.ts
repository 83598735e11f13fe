/** Problems with the daemon: a message for the user, and actions to fix them. */

import { t } from "../l10n";

export type ActionId =
  | "install"
  | "choosePython"
  | "downloadPython"
  | "openSettings"
  | "openFolder"
  | "tryAgain"
  | "restartDaemon"
  | "showLog";

/** Buttons: their labels and commands. */
export const ACTIONS: Record<ActionId, { label: string; command: string; args?: unknown[] }> = {
  install: { label: t("Install Goalwright"), command: "goalwright.install" },
  choosePython: { label: t("Choose Python…"), command: "goalwright.choosePython" },
  downloadPython: { label: t("Download Python"), command: "goalwright.downloadPython" },
  openSettings: { label: t("Open Settings"), command: "workbench.action.openSettings", args: ["goalwright.python"] },
  openFolder: { label: t("Open Folder"), command: "workbench.action.files.openFolder" },
  tryAgain: { label: t("Try Again"), command: "goalwright.connect" },
  restartDaemon: { label: t("Restart Daemon"), command: "goalwright.restartDaemon" },
  showLog: { label: t("Show Log"), command: "goalwright.showLog" },
};

export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly actions: readonly ActionId[] = ["tryAgain", "showLog"],
    /** True when the problem may disappear, so a retry makes sense. */
    readonly passing = false,
  ) {
    super(message);
    this.name = "Problem";
  }
}

/** Error codes of vscode-jsonrpc: write failed, read failed, rejected because the connection closed, not open; closed, disposed. */
const LOST = new Set<unknown>([-32099, -32098, -32097, -32096, 1, 2]);

/** Return true if a request got no answer because the connection broke or was replaced. */
export function connectionLost(error: unknown): boolean {
  if (error instanceof Problem) return error.code === "canceled";
  return error instanceof Error && LOST.has((error as { code?: unknown }).code);
}

/** Convert any thrown value to a Problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem("unexpected", error instanceof Error ? error.message : String(error), undefined, true);
}
