import * as vscode from "vscode";
import { short } from "../amounts";
import type { Parts } from "../extension";
import { changed, choices, complaint } from "../meter/model";
import type { CompactResult } from "../protocol.gen";
import { NO_GOALS } from "../goals/tree";
import { contextDocument } from "./document";
import { Observable } from "../observable";
import { t } from "../l10n";
import { notify } from "../notify";

export const SCHEME = "goalwright-context";

/** Commands for the session's context: show it, compact it, set budgets. */
export class ContextCommands extends Observable<vscode.Uri> implements vscode.TextDocumentContentProvider {
  constructor(private readonly parts: Pick<Parts, "daemon" | "sessions">) {
    super();
    this.disposables.push(vscode.workspace.registerTextDocumentContentProvider(SCHEME, this));
  }

  async provideTextDocumentContent({ query: sessionId }: vscode.Uri): Promise<string> {
    const context = await this.parts.daemon.request("goalwright/session/context", { sessionId });
    const { state } = this.parts.sessions;
    const ours = state?.session.trace.traceId === sessionId;
    const tree = ours ? state.goalTree : NO_GOALS;
    return contextDocument(context, tree, ours ? this.title() : t("another session"));
  }

  /** Open or update the document with the next model request. */
  async show(): Promise<void> {
    const sessionId = this.session();
    // Characters that are invalid in a path, or look odd before the file extension, are removed from the tab's name.
    const name = this.title().replace(/[\\/:?#]/g, " ").replace(/[\s.]+$/, "");
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${t("Context of {0}", name)}.md`, query: sessionId });
    // VS Code does not read an open document again unless it is reported as changed.
    this.changed.fire(uri);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { preview: false });
  }

  /** Read the document again. */
  refresh(uri: unknown): void {
    if (uri instanceof vscode.Uri && uri.scheme === SCHEME) this.changed.fire(uri);
  }

  /** Compact the context now. `keep`: ask what to keep in the summary, unless the user has said it in `words`. */
  async compact(keep: boolean, words = ""): Promise<void> {
    const sessionId = this.session();
    const instructions = keep && !words
      ? await vscode.window.showInputBox({
          title: t("Compact the context"),
          prompt: t("Anything to keep? (optional)"),
          placeHolder: t("For example: the numbers of the failed runs"),
        })
      : words;
    if (instructions === undefined) return;
    const { daemon } = this.parts;
    const options = { location: vscode.ProgressLocation.Notification, title: t("Compacting the context…"), cancellable: true };
    const done = await vscode.window.withProgress(options, (_, token) => {
      token.onCancellationRequested(() => void daemon.request("goalwright/session/cancel", { sessionId }));
      return daemon.request("goalwright/session/compact", { sessionId, instructions: instructions.trim() });
    });
    void notify("info", compacted(done));
  }

  async setBudget(): Promise<void> {
    const { state } = this.parts.sessions;
    const sessionId = await this.parts.sessions.ensure();
    const now = this.parts.sessions.state ?? state;
    const meter = now?.meter ?? null;
    const tree = now?.goalTree ?? NO_GOALS;
    const picked = await vscode.window.showQuickPick(choices(meter, tree), {
      title: t("Set a budget"),
      placeHolder: t("Pause when the budget is reached"),
    });
    if (!picked) return;
    const value = await vscode.window.showInputBox({
      title: picked.label,
      prompt: picked.key.endsWith("Usd") ? t("US dollars. Leave it empty for no limit.") : t("Tokens, sent and received. Leave it empty for no limit."),
      value: picked.value,
      validateInput: (text) => complaint(picked.key, text),
    });
    if (value === undefined) return;
    // Another window may have set a budget meanwhile, and another session may be shown.
    const latest = this.parts.sessions;
    const before = (latest.sessionId === sessionId ? latest.state?.meter : meter)?.budget;
    const { key } = picked;
    await this.parts.daemon.request("goalwright/session/set", { sessionId, budget: changed(before, key, value) });
    vscode.window.setStatusBarMessage(t("Goalwright: {0}: {1}", picked.label.toLowerCase(), value.trim() || t("no limit")), 4_000);
  }

  private title(): string {
    return this.parts.sessions.state?.session.trace.title || t("this session");
  }

  private session(): string {
    const { sessionId } = this.parts.sessions;
    if (!sessionId) throw new Error(t("Open a session first: there is no context yet."));
    return sessionId;
  }
}

/** Describe the result of a compaction; the daemon's own text takes precedence. */
function compacted({ before, after, detail }: CompactResult): string {
  if (detail) return detail;
  return after < before ? t("The context was compacted: {0} → {1} tokens.", short(before), short(after)) : t("There was nothing to compact.");
}
