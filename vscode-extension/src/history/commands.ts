import * as vscode from "vscode";
import { fileUri, openFile } from "../chat/open";
import { ErrorCode } from "../protocol.gen";
import type { About, FileHistory } from "./model";
import { consequences, counts, headline, named, restoredLine } from "./format";
import { t } from "../l10n";
import { notify } from "../notify";

const SHOWN_MS = 5_000;
const OPEN = t("Open File");
const SAVE = t("Save and Try Again");

/** Undo or redo a change, or the next one without an id, and report the result. */
export async function step(history: FileHistory, action: "undo" | "redo", changeId?: string): Promise<void> {
  const done = await told(history, () => history.step(action, changeId));
  if (!done) return;
  if (done.files.length === 0) void notify("info", action === "undo" ? t("Nothing to undo: the files already match.") : t("Nothing to redo: the files already match."));
  else vscode.window.setStatusBarMessage(`Goalwright: ${restoredLine({ action, ...done })}`, SHOWN_MS);
}

/** Revert all changes since a message or of a goal, after the user has confirmed the list. */
export async function restore(
  history: FileHistory,
  wanted: About,
  words: { question: string; button: string; nothing: string },
): Promise<void> {
  // Another session may be shown by the time the user has confirmed.
  const about = { sessionId: history.sessionId, ...wanted };
  const planned = await told(history, () => history.restore(about, true), words.nothing);
  if (!planned) return;
  if (planned.files.length === 0) {
    void notify("info", words.nothing);
    return;
  }
  const detail = consequences(planned);
  if ((await vscode.window.showWarningMessage(words.question, { modal: true, detail }, words.button)) !== words.button) return;
  const done = await told(history, () => history.restore(about, false), words.nothing);
  if (done) vscode.window.setStatusBarMessage(t("Goalwright: reverted {0}", counts(done.files)), SHOWN_MS);
}

/** Ask whether to revert the files changed since a message, before it is sent again. False: cancel. */
export async function revertOrKeep(history: FileHistory, messageId: string, sessionId = history.sessionId): Promise<boolean> {
  const about = { sessionId, messageId };
  const planned = await history.restore(about, true).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === ErrorCode.UNKNOWN_REQUEST) return undefined;
    throw error;
  });
  if (!planned || planned.files.length === 0) return true;
  const [revert, keep] = [t("Revert Files"), t("Keep Files")];
  const question = t("Revert the files that changed since this message?");
  const choice = await vscode.window.showWarningMessage(question, { modal: true, detail: consequences(planned) }, revert, keep);
  if (choice !== revert) return choice === keep;
  return (await told(history, () => history.restore(about, false), t("Nothing to undo: the files already match."))) !== undefined;
}

/**
 * Run `work` and return its result. Returns undefined after it reported a conflict, or showed `nothing` (or the
 * daemon's message) because there is nothing to do. Throws other errors.
 */
async function told<T>(history: FileHistory, work: () => Promise<T>, nothing?: string): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const { code } = error as { code?: unknown };
    const text = (error as Error).message;
    if (code === ErrorCode.UNKNOWN_REQUEST) void notify("info", nothing ?? text);
    else if (code !== ErrorCode.HISTORY_CONFLICT) throw error;
    else if (await conflict(history, text)) return told(history, work, nothing);
    return undefined;
  }
}

/** Report a conflict. True when the user has saved the file that caused it. */
async function conflict(history: FileHistory, text: string): Promise<boolean> {
  const { message, detail } = headline(text);
  const place = named(text, history.value.changes.flatMap((change) => change.files.map((file) => file.path)));
  const uri = place && fileUri(place.path)?.toString();
  const unsaved = vscode.workspace.textDocuments.find((document) => document.isDirty && document.uri.toString() === uri);
  const buttons = [...(unsaved ? [SAVE] : []), ...(place ? [OPEN] : [])];
  const choice = await vscode.window.showErrorMessage(message, { modal: true, detail }, ...buttons);
  if (choice === SAVE) return (await unsaved?.save()) ?? false;
  if (choice === OPEN && place) await openFile(place.path, place.line);
  return false;
}

/** URI scheme of files as they were before the agent's changes. */
const BEFORE = "goalwright-earlier";
/** Texts of the last opened review, by URI. */
const texts = new Map<string, string>();
let reviews = 0;

/** Register the earlier texts for VS Code's diff editors. */
export function earlierTexts(): vscode.Disposable {
  return vscode.workspace.registerTextDocumentContentProvider(BEFORE, {
    provideTextDocumentContent: (uri) => texts.get(uri.toString()) ?? t("The texts of this review are no longer kept. Open the review again."),
  });
}

/** Open all changes since a message, or of a goal, in one diff editor: before and now. */
export async function reviewSince(history: FileHistory, about: About): Promise<void> {
  const { files, texts: before } = await history.restore(about, true, true);
  const number = ++reviews;
  texts.clear();
  const changes = files.flatMap((file, index): [vscode.Uri, vscode.Uri | undefined, vscode.Uri | undefined][] => {
    const now = fileUri(file.path);
    if (!now) return [];
    const then = vscode.Uri.from({ scheme: BEFORE, path: now.path, query: String(number) });
    texts.set(then.toString(), before[index] ?? "");
    // `kind` describes the restoration: a file that it would delete was created, and vice versa.
    return [[now, file.kind === "delete" ? undefined : then, file.kind === "create" ? undefined : now]];
  });
  if (changes.length === 0) void notify("info", t("The contents of all files are the same as before."));
  else await vscode.commands.executeCommand("vscode.changes", t("Changes by Goalwright"), changes);
}
