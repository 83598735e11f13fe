import * as vscode from "vscode";
import type { Parts } from "../extension";
import { ComposerHost, Told } from "../composer/composer";
import { placeOf } from "../composer/context";
import { lastPrompt, OPEN_FILE } from "../composer/text";
import { ACTIONS, type ActionId, asProblem, connectionLost } from "../daemon/problems";
import { offerReload } from "../daemon/watch";
import { restore, revertOrKeep, reviewSince, step } from "../history/commands";
import type { Proposed } from "../diff/uris";
import type { Answer } from "../permission/answers";
import type { BranchParams, JobKillParams, SessionMessagesResult } from "../protocol.gen";
import { type Attachment, homeOf } from "../session/controller";
import { addUpdate, type Update } from "../session/state";
import { page } from "./html";
import { ASKING_COMMANDS, OTHER_COMMANDS, type FromWebview, type PageCommand, type Shown, type ToWebview, type Written } from "./messages";
import { insertAtCursor, openFile, openInTerminal, openLink } from "./open";
import { t } from "../l10n";
import { notify } from "../notify";

/** Key of the unsent text in the workspace's storage. VS Code saves the page's own state only now and then. */
const WRITTEN = "goalwright.written";
/** Key of the files of unsent drafts, in a storage of their own. */
const UNSENT = "goalwright.unsent";
/** Shortest time between two posts of streaming text to the webview. */
const FRAME_MS = 16;
/** Number of older messages that the page loads at once. They are for display only: the host does not keep them. */
const EARLIER = 100;
const ASKS: ReadonlySet<PageCommand> = new Set(ASKING_COMMANDS);
const KNOWN: ReadonlySet<PageCommand> = new Set([...ASKING_COMMANDS, ...OTHER_COMMANDS]);

type Prompt = { text: string; attachments: Attachment[] };
type Restored = Extract<ToWebview, { type: "restore" }>;
type ToComposer = Restored | Extract<ToWebview, { type: "attach" | "unattached" }>;
type Started = { sessionId: string; exploreStartId: string };
/** A request of the composer for completions. */
type Completing = { id: number; sign: "@" | "/"; query: string; begins: boolean };

/** Thrown when a mention cannot be resolved. */
class Unattached extends Error {
  constructor(
    readonly mention: string,
    message: string,
  ) {
    super(message);
  }
}

type ChatParts = Pick<Parts, "daemon" | "sessions" | "review" | "history" | "explorations" | "records" | "surrounding" | "attention" | "active" | "memory" | "unsent" | "log">;

/** A page that takes longer has not been loaded. */
const OVERDUE_MS = 20_000;

/** The chat in the side bar. All state lives in the host, because VS Code can discard the page at any time. */
export class ChatView implements vscode.WebviewViewProvider, vscode.Disposable {
  static readonly id = "goalwright.chat";
  private readonly disposables: vscode.Disposable[];
  private view: vscode.WebviewView | undefined;
  private readonly composer: ComposerHost;
  private readonly handlers: ReturnType<ChatView["handlersOf"]>;
  private completing: Completing | undefined;
  /** The completions that were sent last. */
  private told = "";
  /** Number of commands that the page has asked for. */
  private commanded = 0;
  /** Ends with the last focus after such a command. */
  private focused: Promise<unknown> = Promise.resolve();
  /** Attachments that are being read for mentions in the composer, by mention. */
  private readonly mentioned = new Map<string, Promise<Attachment[]>>();
  private ready = false;
  private overdue: NodeJS.Timeout | undefined;
  private focusWanted = false;
  /** Text for the composer until the page is ready. */
  private toInsert = "";
  /** Unsent texts and files for the composer until the page is ready. */
  private kept: ToComposer[] = [];
  private waiting: Update[] = [];
  private timer: NodeJS.Timeout | undefined;
  private flushedAt = 0;

  constructor(
    private readonly extension: vscode.Uri,
    private readonly parts: ChatParts,
  ) {
    const { sessions, review, history, surrounding, explorations, records } = parts;
    this.composer = new ComposerHost(parts.daemon, sessions);
    this.handlers = this.handlersOf(parts);
    this.disposables = [
      vscode.window.registerWebviewViewProvider(ChatView.id, this, {
        // Keeps scroll position, selection and unsent feedback while the panel is hidden.
        webviewOptions: { retainContextWhenHidden: true },
      }),
      sessions.onDidChange((change) => {
        if (change.kind === "reset") this.postAll();
        else if (change.kind === "outbox") this.show({ outbox: sessions.shownOutbox });
        else if (change.kind === "update") this.enqueue(change.update);
        this.showBadge();
      }),
      parts.attention.onDidChange(() => this.showBadge()),
      sessions.onUndelivered(({ sessionId, text, attachments }) => this.giveBack(text, attachments, { sessionId })),
      surrounding.onDidChange((value) => this.show({ surrounding: value })),
      review.onDidChange(() => this.show({ choices: review.choices })),
      explorations.onDidChange(() => this.show({ explored: explorations.shown })),
      records.onDidChange((update) => {
        if (update) this.post({ type: "updates", of: "record", updates: [update] });
        else this.show({ record: records.state ?? null });
      }),
      history.onDidChange(() => this.show({ changes: history.byCall() })),
    ];
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    view.webview.options = {
      enableScripts: true,
      localResourceRoots: [vscode.Uri.joinPath(this.extension, "dist")],
    };
    const received = view.webview.onDidReceiveMessage((message: FromWebview) => void this.receive(message));
    const visibility = view.onDidChangeVisibility(() => {
      if (view.visible) this.connectQuietly();
    });
    view.onDidDispose(() => {
      received.dispose();
      visibility.dispose();
      clearTimeout(this.overdue);
      if (this.view !== view) return;
      this.view = undefined;
      this.ready = false;
    });
    const { memory, unsent } = this.parts;
    view.webview.html = page(view.webview, this.extension, "chat", { ...memory.get(WRITTEN, {}), files: unsent.get(UNSENT, {}) });
    // In a browser, VS Code can leave one of two pages empty that it loads at once for the first time.
    this.overdue = setTimeout(() => {
      if (view.visible) void offerReload(t("VS Code did not load the chat. Reload the window to see it."));
    }, OVERDUE_MS);
    this.showBadge();
    this.connectQuietly();
  }

  get visible(): boolean {
    return this.view?.visible ?? false;
  }

  /** Open the chat and leave the focus where it is. */
  async reveal(): Promise<void> {
    await vscode.commands.executeCommand(`${ChatView.id}.focus`, { preserveFocus: true });
  }

  /** Open the chat and focus the composer. */
  async focus(): Promise<void> {
    this.focusWanted = true;
    await vscode.commands.executeCommand(`${ChatView.id}.focus`);
    this.giveFocus();
  }

  /** Focus what had the focus last in the chat. */
  async refocus(): Promise<void> {
    await vscode.commands.executeCommand(`${ChatView.id}.focus`);
    // An editor that has just opened may still take it from the command.
    this.post({ type: "focus", last: true });
  }

  /** Append text to the draft and put the caret behind it. */
  async insert(text: string): Promise<void> {
    this.toInsert += text;
    await this.focus();
    const place = /^@([^\n]+:\d+(?:-\d+)?)\s*$/.exec(text)?.[1];
    if (place) await this.attach(`@${place}`, this.composer.mention(`lines:${place}`));
  }

  /** Add a mention to the composer and attach its contents. `key`: as in a completion. */
  async mention(key: string, text: string): Promise<void> {
    this.toInsert += `${text} `;
    await this.focus();
    await this.attach(text, this.composer.mention(key));
  }

  /** Scroll to the start of the work on a goal. */
  async showGoal(goalId: string): Promise<void> {
    await this.reveal();
    this.post({ type: "showGoal", goalId });
  }

  dispose(): void {
    clearTimeout(this.timer);
    clearTimeout(this.overdue);
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private async receive(message: FromWebview): Promise<void> {
    try {
      await (this.handlers[message.type] as (message: FromWebview) => unknown)(message);
    } catch (error) {
      const problem = asProblem(error);
      this.parts.log.error(`${message.type}: ${problem.message}`);
      // Without a connection, the panel itself shows the error.
      if (this.parts.daemon.state.phase === "connected") void notify("error", problem.message);
    }
  }

  /** Return what each message of the page does. */
  handlersOf({ daemon, sessions, review, history, explorations, records, active, memory, unsent }: ChatParts) {
    return {
      ready: () => {
        this.ready = true;
        clearTimeout(this.overdue);
        // A new page shows the oldest request, so the keys must not answer another one.
        void review.bringForward("");
        this.postAll();
        this.giveFocus();
        for (const message of this.kept.splice(0)) this.post(message);
      },
      written: async ({ written, files }: { written: Omit<Written, "files">; files?: Written["files"] }) => {
        await Promise.all([memory.update(WRITTEN, written), files && unsent.update(UNSENT, files)]);
      },
      prompt: ({ text, attachments, instead, steer }: Prompt & { steer?: boolean; instead?: string }) =>
        instead === undefined ? this.prompt(text, attachments, steer ? "steer" : "queue") : this.resend(instead, text, attachments),
      complete: (asked: Completing) => this.complete(asked),
      mention: ({ key, text, written }: { key: string; text: string; written?: boolean }) => this.attach(text, written ? this.composer.named(key) : this.composer.mention(key)),
      includeActive: ({ on }: { on: boolean }) => active.include(on),
      openChip: ({ name }: { name: string }) => {
        const place = placeOf(name);
        return place && openFile(place.path, place.line);
      },
      pickFiles: () => this.pickFiles(),
      cancel: () => sessions.cancel(),
      sendQueue: () => sessions.sendQueue(),
      holdQueue: ({ promptId, held }: { promptId: string; held: boolean }) => sessions.holdQueued(promptId, held),
      editQueue: async ({ promptId, text }: { promptId: string; text: string | null }) => {
        const { sessionId = "" } = sessions;
        try {
          await sessions.editQueue(promptId, text);
        } catch (error) {
          if (text !== null) this.restore({ sessionId, text, attachments: [] });
          throw error;
        }
      },
      reply: ({ requestId, answer, typed }: { requestId: string; answer: Answer; typed?: string }) => this.answer(requestId, answer, typed),
      openDiff: ({ requestId, path, quietly }: { requestId: string; path?: string; quietly?: boolean }) =>
        quietly ? review.bringForward(requestId) : review.show(requestId, path),
      choose: ({ requestId, path, hunk, accepted }: Proposed & { hunk?: number; accepted: boolean }) => review.choose(requestId, path, hunk, accepted),
      decideFile: ({ requestId, path, accepted }: Proposed & { accepted: boolean }) => review.decide(requestId, path, undefined, accepted),
      answerAll: ({ requestIds, accepted }: { requestIds: readonly string[]; accepted: boolean }) => {
        const request = requestIds.map((requestId) => review.pending(requestId)).find(Boolean);
        return request && review.answerAll(request, accepted, requestIds);
      },
      discardEdits: ({ requestId, path }: Proposed) => review.discardEdits(requestId, path),
      step: ({ action, changeId }: { action: "undo" | "redo"; changeId: string }) => step(history, action, changeId),
      restoreBefore: ({ messageId }: { messageId: string }) =>
        restore(
          history,
          { messageId },
          {
            question: t("Revert files to before this message?"),
            button: t("Revert"),
            nothing: t("Nothing to revert: no file was changed since this message, or all of it is undone already."),
          },
        ),
      reviewSince: ({ messageId }: { messageId: string }) => reviewSince(history, { messageId }),
      resend: ({ messageId, text, attachments }: Prompt & { messageId: string }) => this.editAgain(messageId, text, attachments),
      fork: ({ messageId, text, attachments }: Prompt & { messageId: string }) => this.forkBefore(messageId, text, attachments),
      retry: () => {
        // A second click may arrive before the page has handled the first.
        const last = this.atRest ? lastPrompt(sessions.state?.items ?? []) : undefined;
        return last && sessions.prompt(last.text, last.attachments);
      },
      continue: () => (this.atRest ? sessions.prompt(t("Continue where you stopped.")) : undefined),
      earlier: async ({ sessionId, before }: { sessionId: string; before: number }) => {
        if (sessionId !== sessions.sessionId && sessionId !== records.sessionId) return;
        // After an error the button is there again.
        let earlier: SessionMessagesResult = { messages: [], notices: [], hasEarlier: true };
        try {
          earlier = await daemon.request("goalwright/session/messages", { sessionId, before, limit: EARLIER });
        } finally {
          this.post({ type: "earlier", sessionId, before, earlier });
        }
      },
      openSession: ({ sessionId }: { sessionId: string }) => sessions.open(sessionId),
      branchFiles: ({ sessionId, branchId }: BranchParams) => explorations.list(sessionId, branchId),
      showBranch: ({ sessionId, branchId, path }: BranchParams & { path?: string }) => explorations.open(sessionId, branchId, path),
      useBranch: ({ sessionId, exploreStartId, choice }: Started & { choice: readonly string[] }) => explorations.use(sessionId, exploreStartId, choice),
      leaveChoice: ({ sessionId, exploreStartId, none }: Started & { none: boolean }) => explorations.leave(sessionId, exploreStartId, none),
      removeBranch: ({ sessionId, branchId }: BranchParams) => explorations.remove(sessionId, branchId),
      openRecord: ({ sessionId }: { sessionId: string }) => records.open(sessionId),
      closeRecord: () => records.close(),
      action: ({ id }: { id: ActionId }) => {
        const action = Object.hasOwn(ACTIONS, id) ? ACTIONS[id] : undefined;
        return action && vscode.commands.executeCommand(action.command, ...action.args);
      },
      command: async ({ command, args = [] }: { command: PageCommand; args?: readonly unknown[] }) => {
        if (!KNOWN.has(command)) return;
        const number = ++this.commanded;
        // A focus under way would close the list that this command opens.
        await this.focused;
        await vscode.commands.executeCommand(`goalwright.${command}`, ...args);
        // VS Code's lists do not return the focus to a webview, but the page remembers the focused element. A list that was
        // opened meanwhile would close.
        if (!ASKS.has(command) || number !== this.commanded) return;
        const focus = vscode.commands.executeCommand(`${ChatView.id}.focus`);
        this.focused = Promise.allSettled([focus]);
        await focus;
      },
      openLink: ({ href }: { href: string }) => openLink(href),
      openFile: ({ path, line, column }: { path: string; line?: number; column?: number }) => openFile(path, line, column),
      copy: ({ text }: { text: string }) => vscode.env.clipboard.writeText(text),
      insertCode: ({ text }: { text: string }) => insertAtCursor(text),
      terminal: ({ text }: { text: string }) => openInTerminal(text),
      stopCommand: ({ callId }: { callId: string }) => daemon.request("goalwright/command/stop", { sessionId: sessions.sessionId ?? "", toolCallId: callId }),
      stopJob: ({ sessionId, jobId }: JobKillParams) => daemon.request("goalwright/job/kill", { sessionId, jobId }),
    };
  }

  /** Send a prompt together with the active file, or run the command it contains. */
  private async prompt(text: string, attachments: Attachment[], whenBusy: "queue" | "steer", place = this.parts.sessions.place): Promise<void> {
    // The user may open another session while mentions are read.
    let meant: Awaited<ReturnType<typeof this.composer.expand>>;
    try {
      const read = [...attachments, ...(await this.stillRead(text))];
      meant = await this.composer.expand(text, [...read, ...(await this.composer.stillNamed(text, read))]);
    } catch (error) {
      this.restore({ sessionId: homeOf(place), text, attachments });
      if (error instanceof Unattached) this.toComposer({ type: "unattached", sessionId: homeOf(place), mention: error.mention, reason: error.message });
      else if (!(error instanceof Told)) void notify("warning", asProblem(error).message);
      return;
    }
    if (!meant) {
      // A command takes no files, so they wait for the next prompt.
      if (attachments.length > 0) this.restore({ text: "", attachments });
      return;
    }
    const attached = new Set(meant.attachments.map(({ name }) => name));
    const open = this.parts.active.attachments.filter(({ name }) => !attached.has(name));
    await this.parts.sessions.prompt(meant.text, [...meant.attachments, ...open], whenBusy, meant.place ?? place);
  }

  private get atRest(): boolean {
    const { state, outbox } = this.parts.sessions;
    return state?.session.status === "idle" && outbox.length === 0;
  }

  /** Put an earlier message into the composer, where it replaces the original when sent. */
  private async editAgain(messageId: string, text: string, attachments: Attachment[]): Promise<void> {
    // Sessions that came with the folder cannot be forked, so the message is sent again.
    this.giveBack(text, attachments, this.parts.sessions.state?.session.foreign ? {} : { instead: messageId });
    await this.focus();
  }

  /** Fork before an earlier message and send a new one. The session keeps what followed; the user decides whether to revert the files. */
  private async resend(messageId: string, text: string, attachments: Attachment[]): Promise<void> {
    const { sessions, history } = this.parts;
    const { sessionId } = sessions;
    let forked: string | undefined;
    try {
      if (sessions.state && sessions.state.session.status !== "idle") await sessions.cancel();
      if (!(await revertOrKeep(history, messageId, sessionId))) return;
      forked = await sessions.fork(messageId, sessionId);
    } finally {
      if (forked === undefined) this.giveBack(text, attachments, { sessionId: sessionId ?? "", instead: messageId });
    }
    await this.prompt(text, attachments, "queue", sessions.placeIn(forked));
  }

  /** Put a message back into the composer. `instead`: the earlier message that it replaces. */
  private giveBack(text: string, attachments: readonly Attachment[], about: Pick<Restored, "instead" | "sessionId"> = {}): void {
    // The active file is attached again when the prompt is sent.
    const own = attachments.filter(({ mediaType }) => mediaType !== OPEN_FILE);
    this.restore({ text, attachments: own, ...about });
  }

  private restore(what: Omit<Restored, "type">): void {
    this.toComposer({ type: "restore", ...what });
  }

  /** Put something into the composer. What comes while there is no page waits for it. */
  private toComposer(message: ToComposer): void {
    if (this.ready) this.post(message);
    else this.kept.push(message);
  }

  /** Fork the session before a message and put that message into the composer. */
  private async forkBefore(messageId: string, text: string, attachments: Attachment[]): Promise<void> {
    const { sessions, history } = this.parts;
    const sessionId = sessions.required();
    if (!(await revertOrKeep(history, messageId, sessionId))) return;
    this.giveBack(text, attachments, { sessionId: await sessions.fork(messageId, sessionId) });
    await this.focus();
  }

  /** Answer what the composer asks for, and what it asked for last again when MCP servers have been started. */
  private async complete(asked: Completing): Promise<void> {
    this.completing = asked;
    this.told = "";
    await this.tellCompletions(asked);
    if (await this.composer.startServers(asked.query)) await this.tellCompletions(this.completing);
  }

  private async tellCompletions({ id, sign, query, begins }: Completing): Promise<void> {
    const message: ToWebview = { type: "completions", id, ...(await this.composer.complete(sign, query, begins)) };
    const told = JSON.stringify(message);
    if (told === this.told) return; // the same rows again would undo a choice by arrow keys
    this.told = told;
    this.post(message);
  }

  /** Attach the contents of a mention. The user may send the text before they are read. */
  private async attach(mention: string, reading: Promise<Attachment[]>): Promise<void> {
    this.mentioned.set(mention, reading);
    // The user may open another session before they are read. A draft of an empty chat moves to the session that it makes.
    const { sessionId } = this.parts.sessions;
    const about = { mention, ...(sessionId === undefined ? {} : { sessionId }) };
    try {
      const attachments = await reading;
      if (this.mentioned.delete(mention) && attachments.length > 0) this.toComposer({ type: "attach", attachments, ...about });
    } catch (error) {
      // The composer shows the reason. If the text was sent meanwhile, it is returned with the reason.
      if (this.mentioned.delete(mention)) this.toComposer({ type: "unattached", reason: asProblem(error).message, ...about });
    }
  }

  private async stillRead(text: string): Promise<Attachment[]> {
    const waited = [...this.mentioned].filter(([mention]) => text.includes(mention));
    for (const [mention] of waited) this.mentioned.delete(mention);
    const read = waited.map(([mention, reading]) =>
      reading.catch((error: unknown) => {
        throw new Unattached(mention, asProblem(error).message);
      }),
    );
    return (await Promise.all(read)).flat();
  }

  /** Let the user choose files to attach. */
  private async pickFiles(): Promise<void> {
    const picked = await vscode.window.showOpenDialog({ canSelectMany: true, openLabel: t("Attach"), title: t("Attach Files") });
    if (!picked || picked.length === 0) return;
    this.post({ type: "attach", attachments: picked.map((uri) => ({ type: "file" as const, name: uri.fsPath, mediaType: "", data: null })) });
    this.post({ type: "focus" });
  }

  /** Send an answer. `typed`: the words of it that the composer had, and that are in no field of the card. */
  private async answer(requestId: string, answer: Answer, typed?: string): Promise<void> {
    const { review, sessions, daemon, log } = this.parts;
    const request = review.pending(requestId);
    const sessionId = request?.traceId ?? sessions.sessionId ?? "";
    try {
      await (request ? review.answer(request, answer) : sessions.reply(requestId, answer));
    } catch (error) {
      // The card shows the error and keeps its fields. Without a daemon, a new card replaces it when the daemon asks again.
      log.warn(`answer: ${asProblem(error).message}`);
      if (!request || connectionLost(error) || daemon.state.phase !== "connected") sessions.giveBack(answer, sessionId);
      else {
        this.post({ type: "refused", requestId });
        if (typed) this.restore({ sessionId, text: typed, attachments: [] });
      }
      if (!request) throw error;
    }
  }

  private enqueue(update: Update): void {
    addUpdate(this.waiting, update);
    // Post the first text after a pause at once and batch only what follows quickly.
    this.timer ??= setTimeout(() => this.flush(), Math.max(0, this.flushedAt + FRAME_MS - performance.now()));
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.flushedAt = performance.now();
    const updates = this.waiting;
    this.waiting = [];
    if (updates.length > 0) this.post({ type: "updates", of: "session", updates });
  }

  private postAll(): void {
    // The full state already contains the waiting updates.
    this.waiting = [];
    const { surrounding, sessions, review, history, explorations, records } = this.parts;
    this.show({
      surrounding: surrounding.value,
      session: sessions.state ?? null,
      previewed: sessions.previewed,
      outbox: sessions.shownOutbox,
      choices: review.choices,
      changes: history.byCall(),
      explored: explorations.shown,
      record: records.state ?? null,
    });
  }

  private show(state: Partial<Shown>): void {
    this.post({ type: "state", state });
  }

  private post(message: ToWebview): void {
    if (this.ready) void this.view?.webview.postMessage(message);
  }

  private giveFocus(): void {
    if (!this.focusWanted || !this.ready) return;
    this.focusWanted = false;
    if (this.toInsert) this.post({ type: "insert", text: this.toInsert });
    this.toInsert = "";
    this.post({ type: "focus" });
  }

  private connectQuietly(): void {
    const { daemon } = this.parts;
    const { phase } = daemon.state;
    // The panel shows a failure with its buttons, so retrying is the user's decision.
    if (phase === "idle") daemon.connect().catch(() => undefined);
  }

  private showBadge(): void {
    if (!this.view) return;
    const { count } = this.parts.attention;
    this.view.badge = count > 0 ? { value: count, tooltip: t("Waiting for your approval: {0}", count) } : undefined;
  }
}
