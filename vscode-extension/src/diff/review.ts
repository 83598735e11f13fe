import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import type { Answer } from "../permission/answers";
import type { FileAnswer, FileDiff, PermissionContentResult, PermissionRequest } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { askerName } from "../explore/format";
import { answers, choose, decide, edit, fileChoice, isEmpty, selected, together, undecided, units, type Choice } from "./choice";
import { Drafts } from "./drafts";
import { Proposals } from "./proposals";
import { address, AFTER, BEFORE, proposedBy, title, type Proposed } from "./uris";
import { Observable } from "../observable";
import { t } from "../l10n";
import { notify } from "../notify";

/** Time after a keystroke during which the user counts as typing, in milliseconds. */
const TYPING_MS = 4_000;
/** Time in which the edits of one step arrive, in milliseconds; they open as one review. */
const TOGETHER_MS = 150;
const NOTHING: readonly PermissionRequest[] = [];

/**
 * The user's review of pending requests: accepted hunks and files, the proposed text in VS Code's diff editor with the
 * user's edits, and the answer. Editors close when a request is answered, here or elsewhere. `onDidChange` fires when
 * `choices` changes.
 */
export class Review extends Observable {
  private readonly drafts: Drafts;
  private readonly proposals: Proposals;
  /** Requests whose diffs were opened automatically once; a diff that the user closed is not reopened. */
  private readonly opened = new Set<string>();
  /** Requests that this window answers, so that their edits are sent, not lost. */
  private readonly ours = new Set<string>();
  /** Answered requests whose edits were not used and are offered to the user. */
  private readonly offered = new Set<string>();
  /** The request whose card is in front in the chat, once the user has chosen one. */
  private front: string | undefined;
  /** Requests whose diffs are about to open. */
  private readonly opening = new Set<string>();
  private caret: Proposed | undefined;
  private timer: NodeJS.Timeout | undefined;
  private closing = Promise.resolve();
  private doing = Promise.resolve();
  private lastKeystroke = 0;
  private seen: readonly PermissionRequest[] | undefined;
  private went = true;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
    memory: vscode.Memento,
    private readonly log: vscode.LogOutputChannel,
    /** Return the focus to the chat if it is visible. */
    private readonly backToChat: () => Promise<void>,
  ) {
    super();
    this.drafts = new Drafts(memory);
    const draft = ({ requestId, path }: Proposed): string | undefined => this.drafts.texts(requestId)[path];
    this.proposals = new Proposals(daemon, (...about) => this.proposedText(...about), draft, log);
    this.disposables.push(
      this.proposals,
      this.proposals.onDidEdit((proposed) => this.quietly(this.note(proposed))),
      vscode.window.onDidChangeTextEditorSelection(({ kind, textEditor }) => {
        if (kind === vscode.TextEditorSelectionChangeKind.Keyboard && textEditor.document.uri.scheme === "file") {
          this.lastKeystroke = Date.now();
        }
        // For an editor of several files, VS Code does not report which file has the caret.
        if (kind !== undefined && kind !== vscode.TextEditorSelectionChangeKind.Command) this.caret = proposedBy(textEditor.document.uri) ?? this.caret;
      }),
      vscode.window.tabGroups.onDidChangeTabs(() => this.noteFront()),
      vscode.window.tabGroups.onDidChangeTabGroups(() => this.noteFront()),
      sessions.onDidChange(() => this.sync()),
      sessions.onDidAnswer(({ request, by }) => this.quietly(this.settle(request.requestId, by))),
    );
    this.sync();
  }

  /** The user's choices by request. */
  get choices(): Record<string, Choice> {
    return this.drafts.choices();
  }

  /** Return the requests that are reviewed as one change: all edits of one session in one step. */
  together(request: PermissionRequest): readonly PermissionRequest[] {
    return together(request, this.sessions.state?.pending ?? NOTHING);
  }

  /** Open the diffs of a request and of those reviewed together with it, or one of its files alone. */
  async open(request: PermissionRequest, path?: string, byItself = false): Promise<void> {
    const requests = this.together(request);
    const several = path === undefined && requests.flatMap(({ files }) => files).length > 1;
    if (several) return this.openAll(requests, byItself);
    const files = request.files.filter((file) => path === undefined || file.path === path);
    for (const file of files) {
      const proposed = { requestId: request.requestId, path: file.path };
      await this.proposals.content(proposed).catch(() => undefined);
      if (!this.pending(request.requestId)) return;
      const typing = byItself && Date.now() - this.lastKeystroke < TYPING_MS;
      await vscode.commands.executeCommand(
        "vscode.diff",
        vscode.Uri.from(address(BEFORE, proposed)),
        vscode.Uri.from(address(AFTER, proposed)),
        title(file, request.branchId),
        // An automatically opened diff takes neither the focus nor, while the user is typing, the active editor.
        { preview: false, preserveFocus: byItself, background: typing },
      );
    }
    // The request may have been answered while the editors were opening.
    if (!this.pending(request.requestId)) await this.close(() => this.tabs(request.requestId));
    // After a reload, VS Code restores unsaved edits as a plain editor; the diff replaces it.
    else if (byItself) await this.close(() => this.tabs(request.requestId).filter(({ input }) => input instanceof vscode.TabInputText));
  }

  /** Open all files of some requests in one diff editor. */
  private async openAll(requests: readonly PermissionRequest[], byItself: boolean): Promise<void> {
    // VS Code's editor of several files takes the focus, so do not open it while the user is typing. The card can open
    // it.
    if (byItself && Date.now() - this.lastKeystroke < TYPING_MS) return;
    const proposals = requests.flatMap(({ requestId, files }) => files.map(({ path }) => ({ requestId, path })));
    await Promise.all(proposals.map((proposed) => this.proposals.content(proposed).catch(() => undefined)));
    if (!requests.every(({ requestId }) => this.pending(requestId))) return;
    const ids = new Set(requests.map(({ requestId }) => requestId));
    const before = this.tabs().filter((tab) => sides(tab).some(({ requestId }) => ids.has(requestId)));
    const asker = requests[0]?.branchId;
    await vscode.commands.executeCommand(
      "vscode.changes",
      asker ? t("Proposed by {0}", askerName(asker)) : t("Proposed by Goalwright"),
      proposals.map((proposed) => {
        const after = vscode.Uri.from(address(AFTER, proposed));
        return [after, vscode.Uri.from(address(BEFORE, proposed)), after];
      }),
    );
    const gone = [...ids].filter((requestId) => !this.pending(requestId));
    await this.close(() => [...before, ...gone.flatMap((requestId) => this.tabs(requestId))].filter((tab) => this.tabs().includes(tab)));
    if (byItself) await this.backToChat();
  }

  /** Note whose card is in front, empty for the oldest one's, and bring its open diffs to the front; the caret stays where it is. */
  async bringForward(requestId: string): Promise<void> {
    this.front = requestId;
    const request = this.pending(requestId);
    if (!request) return;
    const open = this.tabs(request.requestId);
    // A review of several files already shows all of them.
    if (open.length > 0 && !open.some(isMulti)) await this.open(request, undefined, true);
  }

  /** Return the file of a pending proposal that had the caret last. */
  file(): Proposed | undefined {
    return this.caret && this.pending(this.caret.requestId) ? this.caret : undefined;
  }

  /**
   * Accept or reject everything that is reviewed together with a request, or those of it that the user has seen. Throws
   * the daemon's error if it rejects the answer.
   */
  async answerAll(request: PermissionRequest, accepted: boolean, seen?: readonly string[]): Promise<void> {
    for (const one of this.together(request)) {
      if (seen && !seen.includes(one.requestId)) continue;
      // Rejecting one request rejects the others, too.
      if (this.pending(one.requestId)) await this.answer(one, { reply: accepted && !isEmpty(one.files, this.drafts.choice(one.requestId)) ? "once" : "reject" });
    }
  }

  /** Return the request for a command: that of the given document or the active editor, else the one whose card is in front. */
  target(uri?: vscode.Uri): PermissionRequest | undefined {
    const pending = this.sessions.state?.pending ?? [];
    const front = vscode.window.tabGroups.activeTabGroup.activeTab;
    const requestId = uri ? proposedBy(uri)?.requestId : ((front && isMulti(front) ? this.file() : undefined) ?? (front && sides(front)[0]))?.requestId;
    const wanted = requestId ?? this.front;
    return pending.find((request) => request.requestId === wanted) ?? (requestId ? undefined : pending[0]);
  }

  /** Return true if a diff of the request is visible in an editor. */
  inView({ requestId }: PermissionRequest): boolean {
    const shown = vscode.window.tabGroups.all.flatMap(({ activeTab }) => (activeTab ? sides(activeTab) : []));
    return shown.some((proposed) => proposed.requestId === requestId);
  }

  /** Accept or leave out a hunk, or the whole file without a number. */
  choose(requestId: string, path: string, hunk: number | undefined, accepted: boolean): Promise<void> {
    return this.inOrder(async () => {
      const proposed = { requestId, path };
      await this.note(proposed);
      const request = this.pending(requestId);
      const file = request?.files.find((one) => one.path === path);
      if (!request || !file) return;
      this.setChoice(request, choose(this.drafts.choice(requestId), file, hunk, accepted));
      // The diff editor shows what would be written, unless the user has edited the text.
      if (fileChoice(this.drafts.choice(requestId), path).edited !== "no") return;
      this.proposals.refresh(proposed);
      // VS Code does not reload an editor in which somebody typed, even if the text is unchanged.
      if (this.proposals.document(proposed)?.isDirty) await this.revert(request, path);
    });
  }

  /** Open the diffs of a request by its id. */
  async show(requestId: string, path?: string): Promise<void> {
    const request = this.pending(requestId);
    if (request) await this.open(request, path);
  }

  /**
   * Decide a hunk, all undecided hunks of a file, or, without a path, of the request. When everything is decided the
   * answer is sent. Throws the daemon's error if it rejects the answer.
   */
  async decide(requestId: string, path: string | undefined, hunk: number | undefined, accepted: boolean): Promise<void> {
    this.mustBeConnected();
    const request = this.pending(requestId);
    if (!request) return;
    const files = request.files.filter((file) => path === undefined || file.path === path);
    const parts = path !== undefined && hunk !== undefined ? [{ path, hunk }] : undecided(files, this.drafts.choice(requestId));
    for (const one of parts) {
      // A text that the user edited is one unit.
      const edited = fileChoice(this.drafts.choice(requestId), one.path).edited !== "no";
      await this.choose(requestId, one.path, edited ? undefined : one.hunk, accepted);
      if (this.pending(requestId)) this.setChoice(request, decide(this.drafts.choice(requestId), one.path, one.hunk));
    }
    const choice = this.drafts.choice(requestId);
    if (!this.pending(requestId) || undecided(request.files, choice).length > 0) return;
    await this.answer(request, { reply: isEmpty(request.files, choice) ? "reject" : "once" });
  }

  /** Discard the user's edits of a file. */
  discardEdits(requestId: string, path: string): Promise<void> {
    return this.inOrder(() => this.discard({ requestId, path }));
  }

  private async discard(proposed: Proposed): Promise<void> {
    const { requestId, path } = proposed;
    const request = this.pending(requestId);
    if (!request) return;
    this.drafts.setText(request, path, undefined);
    this.proposals.discard(proposed);
    if (this.proposals.document(proposed)?.isDirty) await this.revert(request, path);
    await this.note(proposed);
  }

  /** Reload the proposed text into its editor; only the active editor can be reverted. */
  private async revert(request: PermissionRequest, path: string): Promise<void> {
    const alone = this.tabs(request.requestId).some((tab) => !isMulti(tab));
    await this.open(request, path);
    // Once the request is answered, another editor is active: the user's, with changes that are not saved.
    if (!this.pending(request.requestId)) return;
    await vscode.commands.executeCommand("workbench.action.files.revert");
    if (!alone && this.tabs(request.requestId).some(isMulti)) await this.close(() => this.tabs(request.requestId).filter((tab) => !isMulti(tab)));
  }

  /**
   * Send the answer with the user's choices and edits. Throws the daemon's error if it rejects the answer; the choices
   * stay, and the card shows the error.
   */
  async answer(request: PermissionRequest, answer: Answer): Promise<void> {
    this.mustBeConnected();
    return this.inOrder(() => this.send(request, answer));
  }

  /** Throw without a connection: the next daemon may ask again with another id, and would not know an answer to this one. */
  private mustBeConnected(): void {
    if (this.daemon.state.phase !== "connected") throw new Error(t("Not connected: answer when Goalwright is connected again"));
  }

  private async send(request: PermissionRequest, answer: Answer): Promise<void> {
    const { requestId } = request;
    try {
      this.setError(request, "");
      const files = answer.reply === "reject" ? [] : await this.files(request);
      this.ours.add(requestId);
      const first = await this.sessions.reply(requestId, answer, files, request.traceId);
      if (first) this.drafts.drop(requestId);
      else {
        // After a restart of the daemon the next request for the call has them.
        const texts = Object.entries(answer.reply === "reject" ? {} : this.drafts.texts(requestId));
        if (texts.length > 0) this.offered.add(requestId);
        this.quietly(this.offer(new Map(texts), "").finally(() => this.drafts.drop(requestId)));
      }
    } catch (error) {
      this.ours.delete(requestId);
      this.setError(request, asProblem(error).message);
      throw error;
    }
  }

  override dispose(): void {
    clearTimeout(this.timer);
    super.dispose();
  }

  /** Return the answers for the files of a request, after reading the editors again. */
  private async files(request: PermissionRequest): Promise<FileAnswer[]> {
    const texts = new Map<string, string>();
    for (const { path } of request.files) {
      const proposed = { requestId: request.requestId, path };
      const text = await this.proposals.text(proposed);
      if (text !== undefined) texts.set(path, text);
      await this.note(proposed);
    }
    const choice = this.drafts.choice(request.requestId);
    if (isEmpty(request.files, choice)) throw new Error(t("No part of this change is chosen. Choose a part of it, or reject it."));
    return answers(request.files, choice, texts);
  }

  /** Record the user's edits of a file. */
  private async note(proposed: Proposed): Promise<void> {
    const { requestId, path } = proposed;
    const request = this.pending(requestId);
    if (!request) return;
    const text = await this.proposals.text(proposed);
    const edited = await this.proposals.verdict(proposed);
    // The request may have been answered meanwhile, so do not store anything for it.
    if (!this.pending(requestId)) return;
    this.drafts.setText(request, path, text);
    const own = text !== undefined && edited === "text" ? await this.preview(proposed, text) : undefined;
    // The user may have typed more or discarded the edits, which is noted by itself.
    if (!this.pending(requestId) || (await this.proposals.text(proposed)) !== text) return;
    this.setChoice(request, edit(this.drafts.choice(requestId), path, edited, own));
  }

  /** Return the diff of a file with the user's text; undefined where the file cannot hold it. */
  private async preview({ requestId, path }: Proposed, text: string): Promise<FileDiff | undefined> {
    try {
      const { files } = await this.daemon.request("goalwright/permission/preview", { requestId, files: [{ path, text }] });
      return files.find((file) => file.path === path);
    } catch (error) {
      this.log.info(`preview of ${path}: ${asProblem(error).message}`);
      return undefined;
    }
  }

  private setError(request: PermissionRequest, error: string): void {
    const choice = this.drafts.choice(request.requestId);
    if (choice.error !== error && this.pending(request.requestId)) this.setChoice(request, { ...choice, error });
  }

  private setChoice(request: PermissionRequest, choice: Choice): void {
    if (choice === this.drafts.choice(request.requestId)) return;
    this.drafts.setChoice(request, choice);
    this.changed.fire();
  }

  private proposedText({ requestId, path }: Proposed, { before, after }: PermissionContentResult): string {
    const file: FileDiff | undefined = this.pending(requestId)?.files.find((one) => one.path === path);
    const { left } = fileChoice(this.drafts.choice(requestId), path);
    const hunks = file && units(file) > 1 ? file.shownHunks : [];
    return selected(before ?? "", after ?? "", hunks, left);
  }

  private sync(): void {
    if (this.sessions.previewed) return;
    const pending = this.sessions.state?.pending ?? NOTHING;
    // Most changes are streaming text, which does not matter here.
    if (pending === this.seen && this.goesOn === this.went) return;
    this.seen = pending;
    this.went = this.goesOn;
    const ids = new Set(pending.map((request) => request.requestId));
    const adopted = pending.filter((request) => this.drafts.adopt(request, ids));
    // The card may have been rendered already.
    if (adopted.length > 0) this.changed.fire();
    const automatic = vscode.workspace.getConfiguration("goalwright").get<boolean>("openDiffAutomatically", true);
    this.quietly(this.settleStale(ids));
    for (const request of pending) {
      if (this.opened.has(request.requestId)) continue;
      this.opened.add(request.requestId);
      // After a reload VS Code restores an editor of several files, but without content.
      const open = this.tabs(request.requestId).some((tab) => !(tab.input instanceof vscode.TabInputText) && !isMulti(tab));
      if (automatic && request.files.length > 0 && !open) this.openSoon(request.requestId);
    }
  }

  /** True while the turn may continue: a restarted daemon can then ask again for a request without an answer. */
  private get goesOn(): boolean {
    return this.sessions.state?.session.status !== "idle";
  }

  /** Open a request automatically, as soon as those reviewed together with it have arrived. */
  private openSoon(requestId: string): void {
    this.opening.add(requestId);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const waiting = [...this.opening];
      this.opening.clear();
      const done = new Set<string>();
      for (const request of waiting.flatMap((id) => this.pending(id) ?? [])) {
        if (done.has(request.requestId)) continue;
        for (const one of this.together(request)) done.add(one.requestId);
        this.quietly(this.open(request, undefined, true));
      }
    }, TOGETHER_MS);
  }

  /** Set the context key for title bar buttons that fit a review of several files. */
  private noteFront(): void {
    const front = vscode.window.tabGroups.activeTabGroup.activeTab;
    const several = front !== undefined && isMulti(front) && sides(front).some(({ requestId }) => this.pending(requestId));
    void vscode.commands.executeCommand("setContext", "goalwright.reviewing", several);
  }

  /** Return a pending request of the current session. */
  pending(requestId: string): PermissionRequest | undefined {
    return this.sessions.state?.pending.find((request) => request.requestId === requestId);
  }

  private tabs(requestId?: string): vscode.Tab[] {
    return vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter((tab) => sides(tab).some((proposed) => requestId === undefined || proposed.requestId === requestId));
  }

  /** Clean up after an answered request; edits that were not used are offered to the user. */
  private async settle(requestId: string, by: string): Promise<void> {
    // The edits go with our own answer or into the next request for the call, or they are on offer.
    const kept = this.ours.delete(requestId) || this.offered.has(requestId) || (by === "" && this.goesOn);
    const texts = kept ? {} : this.drafts.texts(requestId);
    const unused = Object.keys(texts).length > 0;
    if (unused) this.offered.add(requestId);
    else if (!kept) this.drafts.drop(requestId);
    this.changed.fire();
    // The rest of a review of several files opens again.
    const rest = this.tabs(requestId).filter(isMulti).flatMap(sides).find((other) => this.pending(other.requestId));
    await this.close(() => this.tabs(requestId));
    this.proposals.release(requestId);
    if (rest) this.openSoon(rest.requestId);
    // The offer may stay open for long, so do not wait for it. After a reload of the window it is made again.
    if (unused) this.quietly(this.offer(new Map(Object.entries(texts)), by).finally(() => this.drafts.drop(requestId)));
  }

  /**
   * Close editors without the prompt to save, because saving only writes to memory. One at a time, because VS Code
   * prompts for an editor that is still saving.
   */
  private close(which: () => vscode.Tab[]): Promise<void> {
    const close = async (): Promise<void> => {
      for (const proposed of which().flatMap(sides)) {
        const document = this.proposals.document(proposed);
        if (document?.isDirty) await document.save();
      }
      const tabs = which();
      if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
    };
    this.closing = this.closing.then(close, close);
    return this.closing;
  }

  /** Remove tabs and drafts that VS Code kept over a reload, if their requests were answered meanwhile. */
  private async settleStale(pending: ReadonlySet<string>): Promise<void> {
    const traceId = this.sessions.sessionId;
    if (!traceId) return;
    // Earlier editors may take a while to close. Another request may be open by then, or another session.
    const stale = ({ requestId }: Proposed): boolean => this.sessions.sessionId === traceId && !this.sessions.previewed && !this.pending(requestId);
    for (const requestId of this.goesOn ? [] : this.drafts.of(traceId)) if (!pending.has(requestId)) await this.settle(requestId, "");
    await this.close(() => this.tabs().filter((tab) => sides(tab).every(stale)));
  }

  /** Offer edits that were not used to the user, instead of discarding them. */
  private async offer(texts: ReadonlyMap<string, string>, by: string): Promise<void> {
    for (const [path, content] of texts) {
      const name = path.split(/[\\/]/).at(-1) ?? path;
      const why = by ? t("{0} answered the request", by) : t("the request is no longer open");
      const choice = await notify("info", t("Your edits of {0} were not used: {1}.", name, why), t("Open My Text"));
      if (choice) await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content }));
    }
  }

  /** Run the user's actions one after the other. */
  private inOrder(work: () => Promise<void>): Promise<void> {
    const done = this.doing.then(work);
    this.doing = done.catch(() => undefined);
    return done;
  }

  private quietly(work: Promise<void>): void {
    work.catch((error: unknown) => this.log.warn(`review: ${asProblem(error).message}`));
  }
}

/** Return the proposed files that a tab shows. VS Code passes its editor of several files to extensions, but its types omit it. */
function sides({ input }: vscode.Tab): Proposed[] {
  const { textDiffs } = (input ?? {}) as { textDiffs?: readonly { modified?: vscode.Uri }[] };
  const uris = input instanceof vscode.TabInputTextDiff ? [input.modified] : input instanceof vscode.TabInputText ? [input.uri] : (textDiffs ?? []).map(({ modified }) => modified);
  return uris.flatMap((uri) => (uri && proposedBy(uri)) ?? []);
}

function isMulti({ input }: vscode.Tab): boolean {
  return Array.isArray((input as { textDiffs?: unknown } | undefined)?.textDiffs);
}
