import * as vscode from "vscode";
import { openFile } from "../chat/open";
import { ErrorCode, type HistoryRestoreParams } from "../protocol.gen";
import type { FileHistory } from "./model";
import { counts, fileLines, headline, named, question } from "./words";

const SHOWN_MS = 5_000;

/** Undoes or redoes a change, the next one without its id, and says what was done. */
export async function step(history: FileHistory, action: "undo" | "redo", changeId?: string): Promise<void> {
  const done = await told(history, () => history.step(action, changeId));
  if (!done) return;
  const verb = action === "undo" ? "undid" : "redid";
  if (done.files.length === 0) {
    void vscode.window.showInformationMessage(`Nothing to ${action}: the files read so already.`);
  } else {
    vscode.window.setStatusBarMessage(`Goalwright: ${verb} ${done.target} ${counts(done.files)}`, SHOWN_MS);
  }
}

/** Takes back all changes since a message or of a goal, after a look at what that changes. */
export async function restore(
  history: FileHistory,
  about: Pick<HistoryRestoreParams, "messageId" | "goalId">,
  words: { what: string; nothing: string },
): Promise<void> {
  const planned = await told(history, () => history.restore(about, true));
  if (!planned) return;
  if (planned.files.length === 0) {
    void vscode.window.showInformationMessage(words.nothing);
    return;
  }
  const { message, detail } = question(planned, words.what);
  if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Restore")) !== "Restore") return;
  const done = await told(history, () => history.restore(about, false));
  if (done) vscode.window.setStatusBarMessage(`Goalwright: restored ${fileLines(done.files).replaceAll("\n", ", ")}`, SHOWN_MS);
}

/** The result, or undefined after a conflict, which is told with a button that opens the file. Other errors are thrown. */
async function told<T>(history: FileHistory, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if ((error as { code?: unknown }).code !== ErrorCode.HISTORY_CONFLICT) throw error;
    const text = (error as Error).message;
    const { message, detail } = headline(text);
    const [path] = named(text, history.value.changes.flatMap((change) => change.files.map((file) => file.path)));
    const choice = await vscode.window.showErrorMessage(message, { modal: true, detail }, ...(path ? ["Open File"] : []));
    if (choice && path) await openFile(path);
    return undefined;
  }
}
