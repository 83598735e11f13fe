/** Problems and states of the daemon: a message for the user, and actions to fix them. */

import { t } from "../l10n";
import type { DaemonState } from "./daemon";

function action(label: string, command: string, ...args: unknown[]) {
  return { label, command, args };
}

/** Buttons: their labels and commands. */
export const ACTIONS = {
  install: action(t("Install Goalwright"), "goalwright.install"),
  choosePython: action(t("Choose Python…"), "goalwright.choosePython"),
  downloadPython: action(t("Download Python"), "goalwright.downloadPython"),
  openSettings: action(t("Open Settings"), "workbench.action.openSettings", "goalwright.python"),
  openFolder: action(t("Open Folder"), "workbench.action.files.openFolder"),
  tryAgain: action(t("Try Again"), "goalwright.connect"),
  restartDaemon: action(t("Restart Daemon"), "goalwright.restartDaemon"),
  showLog: action(t("Show Log"), "goalwright.showLog"),
};
export type ActionId = keyof typeof ACTIONS;

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

/**
 * Error codes of vscode-jsonrpc: write failed, read failed, rejected because the connection closed, not open; closed,
 * disposed. The last is LSP's RequestCancelled: the daemon's answer to what is open when a connection is shut down.
 */
const LOST = new Set<unknown>([-32099, -32098, -32097, -32096, 1, 2, -32800]);

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

const PHASES: Partial<Record<DaemonState["phase"], string>> = {
  noFolder: t("Open a folder to let Goalwright work in it."),
  starting: t("Starting Goalwright…"),
  reconnecting: t("Reconnecting…"),
  stopped: t("The daemon was stopped."),
};

/** Describe a state in a sentence; empty while there is nothing to say. */
export function stateText(state: DaemonState): string {
  return state.phase === "failed" ? state.problem.message : (PHASES[state.phase] ?? "");
}
