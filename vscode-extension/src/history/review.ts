import * as vscode from "vscode";
import { fileUri } from "../chat/open";
import type { HistoryRestoreParams } from "../protocol.gen";
import type { FileHistory } from "./model";
import { t } from "../l10n";

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
export async function reviewSince(history: FileHistory, about: Pick<HistoryRestoreParams, "messageId" | "goalId">): Promise<void> {
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
  if (changes.length === 0) void vscode.window.showInformationMessage(t("The contents of all files are the same as before."));
  else await vscode.commands.executeCommand("vscode.changes", t("Changes by Goalwright"), changes);
}
