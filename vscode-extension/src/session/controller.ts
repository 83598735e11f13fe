import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { numbered } from "../../../daemon/api/page/goals.js";
import { asProblem, connectionLost, Problem } from "../daemon/problems";
import type { Daemon } from "../daemon/daemon";
import { childSession } from "../explore/view";
import { type Answer, wordsOf } from "../permission/answers";
import {
  ErrorCode,
  type FileAnswer,
  type FilePart,
  type GoalTree,
  type Message,
  type PermissionRequest,
  type QueuedPrompt,
  type SessionInfo,
  type SessionLoadResult,
} from "../protocol.gen";
import { apply, fromLoad, trim, type SessionState, type Update } from "./state";
import { Observable } from "../observable";
import { t } from "../l10n";
import { notify } from "../notify";

type WhenBusy = "queue" | "steer";

/** A sent prompt that the daemon has not confirmed yet. */
export interface Outgoing {
  promptId: string;
  text: string;
}

/** An empty chat: all its prompts go to one session, which the first of them makes. */
interface EmptyChat {
  /** Agent of the session; undefined for the default agent. */
  agent: string | undefined;
  made?: Promise<string>;
  /** The session, as soon as it exists. */
  sessionId?: string;
}

/** Where a prompt is written. */
export interface Place {
  /** Undefined: in an empty chat. */
  sessionId: string | undefined;
  /** The newest message at that time: older ones with the same text do not count. */
  after: number;
  empty: EmptyChat;
}

/** A prompt of the outbox. */
interface Sent extends Place {
  text: string;
  /** Number of attachments. */
  files: number;
}

/** Words and files that come back to the session they were written in. An empty id: to a new session. */
interface Undelivered {
  sessionId: string;
  text: string;
  attachments: Attachment[];
}

/** A file for a prompt: its contents as base64 in `data`; without data, the daemon reads the path `name`. */
export type Attachment = FilePart;

export type Change = { kind: "reset" } | { kind: "update"; update: Update } | { kind: "outbox" } | { kind: "plan" };

/** Workspace storage key for the session to show. */
export const LAST_SESSION = "goalwright.session";
export const LOADED_MESSAGES = 200;
/** Time that opening a session may take before its newest messages are read from the disk. */
const PREVIEW_AFTER_MS = 50;
/** Largest number of lines that the host keeps; older ones can be loaded again. */
export const MOST_ITEMS = 600;
export const KEPT_ITEMS = 400;
/** Number of newest lines in which to search for a prompt that was just sent. */
const RECENT = 10;

/** The current session, kept in sync with the daemon by events. All views show this state. */
export class SessionController extends Observable<Change> {
  private readonly answered = new vscode.EventEmitter<{ request: PermissionRequest; by: string }>();
  private readonly undelivered = new vscode.EventEmitter<Undelivered>();
  /** Fires when a request was answered, here or elsewhere. */
  readonly onDidAnswer = this.answered.event;
  /** Fires for a prompt that did not reach the daemon or was rejected, and for the words of an answer that came too late. */
  readonly onUndelivered = this.undelivered.event;

  state: SessionState | undefined;
  outbox: readonly Outgoing[] = [];
  /** True while messages from the disk stand for a session that is being opened: its requests are not known yet. */
  previewed = false;

  private loading: { sessionId: string; updates: Update[]; back: string | undefined } | undefined;
  private loads = 0;
  /** True when the user opened the session that is shown or being opened; false when it was opened automatically. */
  private chosen = false;
  private empty: EmptyChat = { agent: undefined };
  private readonly sent = new Map<string, Sent>();
  /** Ids of queued prompts that are being edited. */
  private readonly held = new Set<string>();
  /** Branches whose plans were requested. */
  private readonly planned = new Set<string>();

  constructor(
    private readonly daemon: Daemon,
    private readonly memory: vscode.Memento,
    private readonly log: vscode.LogOutputChannel,
  ) {
    super();
    this.disposables.push(
      this.answered,
      this.undelivered,
      daemon.onUpdate(({ sessionId, event, view }) => this.receive(sessionId, { event, view })),
      daemon.onDelta(({ sessionId, delta }) => this.receive(sessionId, { delta })),
      daemon.onMeter(({ sessionId, meter }) => this.receive(sessionId, { meter })),
      daemon.onDidChangeState((state) => {
        if (state.phase === "connected") void this.resume();
      }),
    );
  }

  /** The agent of the current or next session; undefined for the default agent. */
  get agentName(): string | undefined {
    return this.state ? this.state.session.trace.agent : this.empty.agent;
  }

  get sessionId(): string | undefined {
    return this.state?.session.trace.traceId;
  }

  /** The prompts of the outbox that belong to what is shown. */
  get shownOutbox(): readonly Outgoing[] {
    return this.outbox.filter(({ promptId }) => this.isHere(promptId));
  }

  /** Where the user writes now. */
  get place(): Place {
    return this.placeIn(this.sessionId);
  }

  placeIn(sessionId: string | undefined): Place {
    return { sessionId, after: sessionId === this.sessionId ? newestSequence(this.state) : 0, empty: this.empty };
  }

  /** True if a turn was running when this window was last open, so connect at once. */
  get wasBusy(): boolean {
    return this.memory.get<boolean>(BUSY_KEY, false);
  }

  /** Show an empty chat. The first prompt creates the session, so that no session stays empty. Without a name, it has the default agent. */
  async startNew(agent?: string): Promise<void> {
    this.empty = { agent };
    this.chosen = false;
    this.loads++;
    this.loading = undefined;
    this.state = undefined;
    this.previewed = false;
    this.tellShown();
    await this.memory.update(LAST_SESSION, undefined);
    this.changed.fire({ kind: "reset" });
  }

  /** Open a session. Throws the daemon's error when the session does not exist. */
  async open(sessionId: string): Promise<void> {
    this.chosen = true;
    await this.load(sessionId);
  }

  private async load(sessionId: string): Promise<void> {
    const load = ++this.loads;
    const { state: before, previewed } = this;
    this.loading = { sessionId, updates: [], back: this.sessionId };
    this.tellShown();
    const preview = setTimeout(() => void this.preview(sessionId, load), PREVIEW_AFTER_MS);
    let loaded: SessionLoadResult;
    try {
      loaded = await this.daemon.request("goalwright/session/load", { sessionId, messages: LOADED_MESSAGES });
    } catch (error) {
      if (load === this.loads) {
        this.loading = undefined;
        this.chosen = false;
        if (this.previewed) this.show(before, previewed);
        else this.tellShown();
        // What happened in that session meanwhile was not kept, or a load of it was replaced by this one. After a lost
        // connection, the next one loads it.
        if (before && this.sessionId !== sessionId && !connectionLost(error) && !(error instanceof Problem)) void this.resume();
      }
      throw error;
    } finally {
      clearTimeout(preview);
    }
    if (load !== this.loads) return;
    const early = this.loading.updates;
    this.loading = undefined;
    this.show(early.reduce(apply, fromLoad(loaded)));
    await this.memory.update(LAST_SESSION, sessionId);
  }

  /** Show the newest messages of a session from the disk while it is being opened: that takes seconds for a long one. */
  private async preview(sessionId: string, load: number): Promise<void> {
    if (sessionId === this.sessionId) return;
    try {
      const stored = await this.daemon.request("goalwright/session/preview", { sessionId, messages: LOADED_MESSAGES });
      if (load === this.loads && this.loading) this.show(fromLoad(stored), true);
    } catch (error) {
      this.log.debug(`no preview of ${sessionId}: ${asProblem(error).message}`);
    }
  }

  private show(state: SessionState | undefined, previewed = false): void {
    // The requests of another session still wait there.
    const before = state?.session.trace.traceId === this.sessionId ? (this.state?.pending ?? []) : [];
    this.state = state;
    this.previewed = previewed;
    this.tellShown();
    this.planned.clear();
    this.settleOutbox();
    this.tellAnswered(before, "");
    this.changed.fire({ kind: "reset" });
  }

  private tellShown(): void {
    this.daemon.show(this, [this.sessionId, this.loading?.sessionId, this.loading?.back]);
  }

  /** Return the plan of a branch. If not all events of the branch arrived here, it is loaded first, and `onDidChange` fires then. */
  planOf(branchId: string): GoalTree | undefined {
    const { state, sessionId } = this;
    const plan = state?.branches[branchId]?.goalTree;
    if (!plan && sessionId && !this.planned.has(branchId)) {
      this.planned.add(branchId);
      this.loadPlan(sessionId, branchId).catch((error: unknown) => this.log.debug(`no plan of ${branchId}: ${asProblem(error).message}`));
    }
    return plan;
  }

  private async loadPlan(sessionId: string, branchId: string): Promise<void> {
    const { goalTree, goalNumbers } = await this.daemon.request("goalwright/session/load", { sessionId: childSession(sessionId, branchId), messages: 0 });
    const branch = this.state?.branches[branchId];
    if (!this.state || !branch || sessionId !== this.sessionId) return;
    this.state = { ...this.state, branches: { ...this.state.branches, [branchId]: { ...branch, goalTree: numbered(goalTree, goalNumbers) } } };
    this.changed.fire({ kind: "plan" });
  }

  /** Open a new session with the messages of this one, or of another, up to `messageId` if given; returns its id. That session stays unchanged. */
  async fork(messageId?: string, sessionId = this.required()): Promise<string> {
    const { session } = await this.daemon.request("goalwright/session/fork", { sessionId, messageId: messageId ?? null });
    await this.open(session.trace.traceId);
    return session.trace.traceId;
  }

  list(limit: number, before?: string): Promise<{ sessions: SessionInfo[]; more: boolean }> {
    return this.daemon.request("goalwright/session/list", before ? { limit, before } : { limit });
  }

  /** Return the id of the current session, which is created if there is none. */
  async ensure(): Promise<string> {
    await this.daemon.connect();
    return this.sessionId ?? this.made(this.empty);
  }

  private async made(empty: EmptyChat): Promise<string> {
    empty.made ??= this.make(empty).catch((error: unknown) => {
      delete empty.made;
      throw error;
    });
    const sessionId = await empty.made;
    // Another session was to be shown meanwhile, and could not be opened.
    if (empty === this.empty && !this.state && !this.loading) await this.load(sessionId);
    return sessionId;
  }

  private async make(empty: EmptyChat): Promise<string> {
    const { agent } = empty;
    const { session } = await this.daemon.request("goalwright/session/new", agent === undefined ? {} : { agent });
    empty.sessionId = session.trace.traceId;
    // The user may have left the chat meanwhile.
    if (empty === this.empty && !this.chosen) await this.load(empty.sessionId);
    return empty.sessionId;
  }

  /**
   * Send a prompt to the session in which it was written, whatever is opened meanwhile. During a turn it waits for the
   * end of the turn (`queue`) or for its next step (`steer`). Never throws: a notification reports failures.
   */
  async prompt(text: string, attachments: Attachment[] = [], whenBusy: WhenBusy = "queue", place = this.place): Promise<void> {
    const promptId = randomUUID();
    const sent: Sent = { ...place, text, files: attachments.length };
    this.sent.set(promptId, sent);
    this.setOutbox([...this.outbox, { promptId, text: text || attachments.map(({ name }) => name).join(", ") }]);
    const unsent = (): boolean => this.outbox.some((one) => one.promptId === promptId);
    const prompt = { text, promptId, whenBusy, ...(attachments.length > 0 ? { attachments } : {}) };
    const send = async (): Promise<void> => {
      await this.daemon.connect();
      sent.sessionId ??= await this.made(sent.empty);
      const done = await this.daemon.request("goalwright/session/prompt", { sessionId: sent.sessionId, ...prompt });
      this.log.debug(`prompt ${promptId}: ${done.stopReason} ${done.detail}`);
    };
    try {
      await send().catch(async (error: unknown) => {
        if (!connectionLost(error) || !unsent()) throw error;
        // The connection was lost before the answer. Look for the prompt in the daemon's log, and send it again if it
        // is not there.
        await this.daemon.connect();
        if (sent.sessionId === undefined || sent.sessionId === this.sessionId) {
          await this.resume();
          // The session is gone, so the prompt starts another one.
          if (this.sessionId === undefined) Object.assign(sent, this.place);
        }
        if (unsent() && sent.sessionId !== undefined) await this.lookFor(promptId, sent.sessionId);
        if (unsent()) await send();
      });
    } catch (error) {
      // Without an answer, the prompt may still be running; the next load shows this (see settleOutbox).
      this.log.warn(`prompt ${promptId}: ${asProblem(error).message}`);
      if (unsent()) {
        this.undelivered.fire({ sessionId: homeOf(sent), text, attachments });
        if (this.daemon.state.phase === "connected") void notify("error", asProblem(error).message);
      }
    } finally {
      this.setOutbox(this.outbox.filter((one) => one.promptId !== promptId));
      this.sent.delete(promptId);
    }
  }

  /** Remove a prompt from the outbox if its session has it. The current session may be another one by now. */
  private async lookFor(promptId: string, sessionId: string): Promise<void> {
    const { queue, messages } = await this.daemon.request("goalwright/session/load", { sessionId, messages: RECENT });
    this.setOutbox(this.outbox.filter((one) => one.promptId !== promptId || !this.arrived(one, queue, messages)));
  }

  async cancel(): Promise<void> {
    const sessionId = this.sessionId;
    if (sessionId) await this.daemon.request("goalwright/session/cancel", { sessionId, holdQueue: true });
  }

  /** Send the queued prompts after a stop. */
  async sendQueue(): Promise<void> {
    await this.daemon.request("goalwright/queue/send", { sessionId: this.required() });
  }

  /** Hold a queued prompt back while its text is edited, or release it. A prompt that was sent meanwhile needs neither. */
  async holdQueued(promptId: string, hold: boolean): Promise<void> {
    if (hold) this.held.add(promptId);
    else this.held.delete(promptId);
    if (!this.state?.queue.some((prompt) => prompt.promptId === promptId)) return;
    await this.daemon.request("goalwright/queue/edit", { sessionId: this.required(), promptId, text: null, hold });
  }

  async editQueue(promptId: string, text: string | null): Promise<void> {
    this.held.delete(promptId);
    await this.daemon.request("goalwright/queue/edit", { sessionId: this.required(), promptId, text });
  }

  /**
   * Answer a request of a session; the first answer wins, wherever it was given. `files`: files accepted in part or with edits.
   * Returns false, after notifying the user and returning the words, when this answer came too late. Throws the
   * daemon's error if it rejects the answer.
   */
  async reply(requestId: string, answer: Answer, files: FileAnswer[] = [], sessionId = this.sessionId): Promise<boolean> {
    const { reply, feedback, grants, scope, answers } = answer;
    const remember = reply === "always" && grants ? { grants, scope: scope ?? "session" } : {};
    try {
      const params = { requestId, reply, feedback: feedback?.trim() || null, ...(files.length > 0 ? { files } : {}), ...remember, ...(answers ? { answers } : {}) };
      const { accepted, by } = await this.daemon.request("goalwright/permission/reply", params);
      if (accepted) return true;
      void notify("info", tooLate(by));
      this.giveBack(answer, sessionId);
      return false;
    } catch (error) {
      if ((error as { code?: unknown }).code !== ErrorCode.UNKNOWN_REQUEST) throw error;
      void notify("info", t("This request is no longer open."));
      this.giveBack(answer, sessionId);
      // The answer was dealt with, whether or not the session can be loaded again.
      const { wanted } = this;
      if (wanted) await this.load(wanted).catch((cause: unknown) => this.log.warn(`after an answer: ${asProblem(cause).message}`));
      return false;
    }
  }

  /** Return the words of an answer that was not taken to the user. */
  giveBack(answer: Answer, sessionId = this.sessionId): void {
    const text = wordsOf(answer);
    if (text) this.undelivered.fire({ sessionId: sessionId ?? "", text, attachments: [] });
  }

  /** Return the id of the current session. Throws an error with a message for the user when there is none. */
  required(): string {
    if (!this.sessionId) throw new Error(t("Open a session first."));
    return this.sessionId;
  }

  /** The session that is shown, or the one that is about to be: what loads the session again must not replace the user's choice. */
  private get wanted(): string | undefined {
    return this.loading?.sessionId ?? this.sessionId;
  }

  /** Load the last session again after a connect, to catch up with changes. */
  private async resume(): Promise<void> {
    const sessionId = this.wanted ?? this.memory.get<string>(LAST_SESSION);
    if (!sessionId) return this.changed.fire({ kind: "reset" });
    try {
      await this.load(sessionId);
      // A restarted daemon does not know which prompts to hold back.
      for (const promptId of this.held) await this.holdQueued(promptId, true);
    } catch (error) {
      this.log.warn(`session ${sessionId}: ${asProblem(error).message}`);
      const shown = (this.sessionId ?? sessionId) === sessionId;
      if (shown && (error as { code?: unknown }).code === ErrorCode.UNKNOWN_SESSION) await this.startNew();
    }
  }

  private receive(sessionId: string, update: Update): void {
    if (this.loading?.sessionId === sessionId) {
      // Deltas that come before the answer are in it, and have no id by which to skip them. Events have one.
      if (!("delta" in update)) this.loading.updates.push(update);
      return;
    }
    if (!this.state || sessionId !== this.sessionId) return;
    const before = this.state;
    this.state = trim(apply(before, update), MOST_ITEMS, KEPT_ITEMS);
    if ("event" in update) {
      const { event } = update;
      if (event.event === "turn_started") this.setOutbox(this.outbox.filter((one) => one.promptId !== event.promptId));
      if (event.event === "queue_changed") this.settleOutbox();
      if (event.event === "message_added" && event.message.role === "user") this.settleOutbox();
      if (event.event === "permission_replied") this.tellAnswered(before.pending, event.by);
      this.rememberBusy();
    }
    this.changed.fire({ kind: "update", update });
  }

  /** Remove prompts that the daemon has, in its queue or as messages. */
  private settleOutbox(): void {
    if (!this.state || this.outbox.length === 0) return;
    const { queue, items } = this.state;
    const messages = items.slice(-RECENT).flatMap((item) => (item.kind === "message" ? [item.message] : []));
    this.setOutbox(this.outbox.filter((one) => !this.isHere(one.promptId) || !this.arrived(one, queue, messages)));
  }

  private isHere(promptId: string): boolean {
    const sent = this.sent.get(promptId);
    const home = sent?.sessionId ?? sent?.empty.sessionId;
    return home === undefined ? sent?.empty === this.empty && !this.state : home === this.sessionId;
  }

  /** Return true if the session has a prompt: in its queue, or as a message added since it was sent. */
  private arrived({ promptId }: Outgoing, queue: readonly QueuedPrompt[], messages: readonly Message[]): boolean {
    const sent = this.sent.get(promptId);
    return queue.some((prompt) => prompt.promptId === promptId) || (sent !== undefined && messages.some((message) => madeOf(message, sent)));
  }

  private setOutbox(outbox: readonly Outgoing[]): void {
    if (outbox.length === this.outbox.length) return;
    this.outbox = outbox;
    this.changed.fire({ kind: "outbox" });
  }

  private tellAnswered(before: readonly PermissionRequest[], by: string): void {
    const open = new Set(this.state?.pending.map((request) => request.requestId));
    for (const request of before) if (!open.has(request.requestId)) this.answered.fire({ request, by });
  }

  private rememberBusy(): void {
    const busy = this.state?.session.status !== "idle";
    if (busy !== this.wasBusy) void this.memory.update(BUSY_KEY, busy);
  }
}

/** Return the session to which what is written in a place belongs; empty when it does not exist yet. */
export function homeOf({ sessionId, empty }: Place): string {
  return sessionId ?? empty.sessionId ?? "";
}

/** Return true if a message is what the daemon made of a prompt. Of `@agent text` it keeps the agent and the text apart. */
function madeOf({ role, sequence, content }: Message, sent: Sent): boolean {
  if (role !== "user" || sequence <= sent.after) return false;
  const said = content.flatMap((part) => (part.type === "text" || part.type === "command" ? [part.text] : part.type === "subtask" ? [part.prompt] : []));
  const named = content.some(({ type }) => type === "agent" || type === "subtask");
  if (named && sent.text.trimStart().startsWith("@")) return sent.text.trim().endsWith((said[0] ?? "").trim());
  return sent.text === "" ? said.length === 0 && content.filter(({ type }) => type === "file").length === sent.files : said.includes(sent.text);
}

/** Return the sequence of the newest loaded message; 0 when there is none. */
function newestSequence(state: SessionState | undefined): number {
  const last = state?.items.findLast((item) => item.kind === "message");
  return last?.kind === "message" ? last.message.sequence : 0;
}

/** Return the reason why an answer came too late. */
function tooLate(by: string): string {
  if (by === "timeout") return t("Nobody answered in time, so this was rejected.");
  return by ? t("Already answered by {0}.", by) : t("Already answered.");
}

const BUSY_KEY = "goalwright.busy";
