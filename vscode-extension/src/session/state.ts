/**
 * The state of the current session, and how stored events and deltas change it. Pure: the extension host and the
 * webview both hold a copy and apply the same updates.
 */
import {
  type BranchMeta,
  type Budget,
  type Delta,
  type Event,
  type FinishPart,
  type GoalTree,
  type Message,
  type Meter,
  NoticeCode,
  type Part,
  type PermissionRequest,
  type QueuedPrompt,
  type SessionInfo,
  type SessionLoadResult,
  type SessionMessagesResult,
  type StopReason,
  type SubagentMeta,
  type ToolResultPart,
  type TranscriptNotice,
  type ViewUpdate,
} from "../protocol.gen";
import { numbered } from "../../../daemon/api/page/goals.js";
import { camelKeys } from "../../../daemon/api/page/keys.js";
import { applyEvent as applyToView } from "../../../daemon/api/page/session.js";
import type { SessionView } from "../../../daemon/api/page/shapes";
import { goalLine } from "../goals/model";
import { restoredLine } from "../history/format";
import { forgottenLine, rememberedLine } from "../permission/format";
import { merged } from "../meter/model";
import { t } from "../l10n";

export type Level = "info" | "warning" | "error";

/** A line of the transcript. Tool messages have no line of their own, because they complete the card of their call. */
export type Item =
  | { kind: "message"; key: string; message: Message }
  | Notice;

export interface Notice {
  kind: "notice";
  key: string;
  level: Level;
  text: string;
  code: string;
}

/** The result of a call, how long it took, and the goal that had the focus. */
export type ToolResult = ToolResultPart & { durationMs?: number; goalId?: string };

export interface StreamingMessage {
  messageId: string;
  /** Sparse: a delta of a later part may come before an earlier one. */
  parts: (Part | undefined)[];
  /** True for parts that have been stored; a late delta does not change them. */
  complete: boolean[];
}

export interface ToolProgress {
  started: boolean;
  /** The end of the output so far. */
  output: string;
  denied: boolean;
}

/** Branches of the session. The plan of a branch is known if all its events were received here; otherwise it is loaded on demand. */
export type Branches = Readonly<Record<string, BranchMeta & { goalTree?: GoalTree }>>;

export interface SessionState extends SessionView {
  session: SessionInfo;
  items: readonly Item[];
  hasEarlier: boolean;
  streaming: StreamingMessage | null;
  /** Results by tool call. */
  results: Readonly<Record<string, ToolResult>>;
  progress: Readonly<Record<string, ToolProgress>>;
  /** Background jobs that have ended: exit codes by job id, null if unknown. */
  jobs: Readonly<Record<string, number | null>>;
  /** True while a compaction that the user started is running. */
  compacting: boolean;
  pending: readonly PermissionRequest[];
  queue: readonly QueuedPrompt[];
  /** The pending retry of a model call. */
  retry: { attempt: number; attempts: number; delayS: number; reason: string } | null;
  goalTree: GoalTree;
  branches: Branches;
  subagents: Readonly<Record<string, SubagentMeta>>;
  /** Kind of the provider error that ended the last turn; empty without one. */
  errorKind: string;
  /** Context size and cost of the session; null when the daemon sent none. */
  meter: Meter | null;
}

/** `view`: the changes of status and totals by the event, ready to show. */
export type Update = { event: Event; view?: ViewUpdate | null } | { delta: Delta } | { meter: Meter };

const OUTPUT_KEPT = 20_000;

export function fromLoad(loaded: SessionLoadResult): SessionState {
  const { streaming } = loaded;
  const placed = place(loaded.messages, loaded.notices, loaded.goalTree);
  const progress = Object.fromEntries(loaded.underWay.map(({ toolCallId, output }) => [toolCallId, { started: true, output, denied: false }]));
  return {
    session: loaded.session,
    ...placed,
    hasEarlier: loaded.hasEarlier,
    streaming: streaming && {
      messageId: streaming.messageId,
      parts: [...streaming.parts],
      // The last part may still be streaming; all others are stored.
      complete: streaming.parts.map((_, index) => index < streaming.parts.length - 1),
    },
    progress,
    jobs: { ...goneJobs(placed.results, progress), ...endedJobs(loaded.notices) },
    compacting: loaded.compacting,
    pending: loaded.pending,
    queue: loaded.queue,
    retry: null,
    trace: headOf(loaded),
    goalTree: numbered(loaded.goalTree, loaded.goalNumbers),
    branches: loaded.branches,
    subagents: loaded.subagents,
    awaits: loaded.awaitsChoice,
    errorKind: loaded.session.status === "idle" ? errorOf(loaded.notices) : "",
    meter: loaded.meter,
    lastEventId: loaded.lastEventId,
  };
}

function headOf({ session: { trace, model, status }, view }: SessionLoadResult): SessionView["trace"] {
  const { traceId, title, agent } = trace;
  return {
    traceId,
    title,
    agent,
    model,
    status: view?.status ?? status,
    totalMessages: view?.totalMessages ?? 0,
    totalTokens: view?.totalTokens ?? 0,
    totalCost: view?.totalCost ?? 0,
    unpricedTokens: view?.unpricedTokens ?? 0,
  };
}

/** Return the kind of error that ended the last turn. */
function errorOf(notices: SessionLoadResult["notices"]): string {
  const last = notices.map(({ event }) => event).findLast((event) => event.event === "turn_ended");
  return last?.errorKind ?? "";
}

/** Convert stored messages, and the events between them, to lines and tool results. */
function place(messages: readonly Message[], notices: readonly TranscriptNotice[], tree: GoalTree): Pick<SessionState, "items" | "results"> {
  const items: Item[] = [];
  const results: Record<string, ToolResult> = {};
  let told = 0;
  const tell = (before: number): void => {
    for (let one = notices[told]; one && one.after < before; one = notices[++told]) {
      const line = noticeOf(one.event, items, tree, tree);
      if (line) items.push(line);
    }
  };
  for (const message of messages) {
    tell(message.sequence);
    const ran = { ...(message.durationMs === null ? {} : { durationMs: message.durationMs }), ...(message.goalId === null ? {} : { goalId: message.goalId }) };
    if (message.role !== "tool") items.push({ kind: "message", key: message.messageId, message });
    for (const part of message.content) if (part.type === "tool_result") results[part.toolCallId] = { ...part, ...ran };
  }
  tell(Infinity);
  return { items, results };
}

function endedJobs(notices: readonly TranscriptNotice[]): SessionState["jobs"] {
  return Object.fromEntries(notices.flatMap(({ event }) => (event.event === "notice" && isJobEnd(event.code) ? [[event.about, event.exitCode]] : [])));
}

/** Return jobs without an end event, as in a sub-agent's record and in sessions that came with the folder. */
function goneJobs(results: SessionState["results"], progress: SessionState["progress"]): SessionState["jobs"] {
  const gone = Object.values(results).filter(({ name, toolCallId }) => name === "bash" && !progress[toolCallId]);
  return Object.fromEntries(gone.flatMap(({ metadata }) => (typeof metadata["job_id"] === "string" ? [[metadata["job_id"], null]] : [])));
}

/** Return true for the notice that a background job has ended or was killed. */
function isJobEnd(code: string): boolean {
  return code === NoticeCode.JOB_ENDED || code === NoticeCode.JOB_KILLED;
}

/** Return true if a call has its result and no background job of it is running. */
export function isOver({ results, jobs }: SessionState, callId: string): boolean {
  const result = results[callId];
  const jobId = result?.metadata["job_id"];
  return result !== undefined && !(result.name === "bash" && typeof jobId === "string" && !Object.hasOwn(jobs, jobId));
}

/** Add older messages before the present ones. */
export function prepend(state: SessionState, earlier: SessionMessagesResult): SessionState {
  const { items, results } = place(earlier.messages, earlier.notices, state.goalTree);
  const known = new Set(state.items.map((item) => item.key));
  return {
    ...state,
    items: [...items.filter((item) => !known.has(item.key)), ...state.items],
    results: { ...results, ...state.results },
    jobs: { ...endedJobs(earlier.notices), ...state.jobs },
    hasEarlier: earlier.hasEarlier,
  };
}

/** Drop the oldest lines when there are more than `most`, down to `keep`; they can be loaded again. */
export function trim(state: SessionState, most: number, keep: number): SessionState {
  if (state.items.length <= most) return state;
  const items = state.items.slice(-keep);
  const calls = new Set<string>();
  for (const item of items) {
    if (item.kind !== "message") continue;
    for (const part of item.message.content) if (part.type === "tool_call") calls.add(part.id);
  }
  for (const part of state.streaming?.parts ?? []) if (part?.type === "tool_call") calls.add(part.id);
  const only = <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(record).filter(([id]) => calls.has(id)));
  return { ...state, items, results: only(state.results), progress: only(state.progress), hasEarlier: true };
}

/** Return the `sequence` before which older messages begin. */
export function firstSequence(state: SessionState): number | undefined {
  for (const item of state.items) if (item.kind === "message") return item.message.sequence;
  return undefined;
}

export function apply(state: SessionState, update: Update): SessionState {
  if ("event" in update) return applyEvent(state, update.event, update.view);
  return "delta" in update ? applyDelta(state, update.delta) : { ...state, meter: merged(state.meter, update.meter) };
}

function applyEvent(state: SessionState, event: Event, view: ViewUpdate | null | undefined): SessionState {
  // Updates sent before a load may repeat its content.
  if (event.eventId !== 0 && event.eventId <= state.lastEventId) return state;
  const next = changed(withStatus(applyToView(state, { ...event, view }), view), event);
  const notice = noticeOf(event, next.items, state.goalTree, next.goalTree);
  return notice ? { ...next, items: [...next.items, notice] } : next;
}

/** Return the session after an event. `next` already has its effects on the plan, the branches, the status and the totals. */
function changed(next: SessionState, event: Event): SessionState {
  switch (event.event) {
    case "session_created":
      return { ...next, session: { ...next.session, trace: event.trace } };
    case "session_updated": {
      const { budget, ...updates } = camelKeys(event.updates);
      return withBudget(withTrace(next, updates), budget as Budget | null | undefined);
    }
    case "message_added":
      return messageAdded(next, event.message);
    case "message_part_added":
      return partAdded(next, event.messageId, event.index, event.part);
    case "message_discarded":
      return next.streaming?.messageId === event.messageId ? { ...next, streaming: null } : next;
    case "turn_started":
      return { ...next, retry: null, errorKind: "" };
    case "turn_ended": {
      const done = withTrace(next, { lastStopReason: event.stopReason });
      return { ...done, streaming: null, retry: null, errorKind: event.errorKind };
    }
    case "queue_changed":
      return { ...next, queue: event.queue };
    case "tool_started":
      return withProgress(next, event.toolCallId, { started: true });
    case "permission_asked":
      return { ...next, pending: [...without(next.pending, event.request.requestId), event.request] };
    case "permission_replied":
      return replied(next, event.requestId, event.reply === "reject");
    case "model_retry":
      return { ...next, retry: { attempt: event.attempt, attempts: event.attempts, delayS: event.delayS, reason: event.reason } };
    case "notice":
      return noticed(next, event);
    default:
      return next;
  }
}

function noticed(next: SessionState, { code, about, exitCode }: Event & { event: "notice" }): SessionState {
  if (code === NoticeCode.COMPACTION_BEGINS) return { ...next, compacting: next.session.status === "idle" };
  if (code === NoticeCode.COMPACTION_DONE || code === NoticeCode.COMPACTION) return { ...next, compacting: false };
  return isJobEnd(code) ? { ...next, jobs: { ...next.jobs, [about]: exitCode } } : next;
}

/** Return the line for an event after `items`, for live and stored events; undefined when it needs none. */
function noticeOf(event: Event, items: readonly Item[], before: GoalTree, after: GoalTree): Notice | undefined {
  const line = (level: Level, text: string, code: string): Notice => ({ kind: "notice", key: `notice-${event.eventId || `live-${items.length}`}`, level, text, code });
  switch (event.event) {
    case "turn_ended": {
      const stop = lastFinish(items) === event.stopReason ? undefined : stopNotice(event.stopReason, event.detail);
      return stop && line(stop.level, stop.text, event.stopReason);
    }
    case "notice":
      // The exploration's card shows the question.
      return event.code === NoticeCode.CHOICE_AWAITED ? undefined : line(event.level, event.text, event.code);
    case "permission_replied":
      return event.reply === "always" && event.remembered?.length ? line("info", rememberedLine(event.remembered, event.scope), "granted") : undefined;
    case "permission_forgotten":
      return line("info", forgottenLine(event.grants), "granted");
    case "files_restored":
      return line("info", restoredLine(event), "files_restored");
    case "goal_added":
    case "goal_updated":
    case "goal_moved":
    case "goal_removed": {
      const said = goalLine(event, before, after);
      return said ? line("info", said, "goal_changed") : undefined;
    }
    default:
      return undefined;
  }
}

function messageAdded(state: SessionState, message: Message): SessionState {
  const placed = place([message], [], state.goalTree);
  const known = state.items.some((item) => item.key === message.messageId);
  return {
    ...state,
    items: known ? state.items : [...state.items, ...placed.items],
    results: message.role === "tool" ? { ...state.results, ...placed.results } : state.results,
    streaming: state.streaming?.messageId === message.messageId ? null : state.streaming,
    retry: message.role === "assistant" ? null : state.retry,
  };
}

function partAdded(state: SessionState, messageId: string, index: number, part: Part): SessionState {
  const streaming = streamingOf(state, messageId);
  if (!streaming) return state;
  const parts = [...streaming.parts];
  const complete = [...streaming.complete];
  parts[index] = part;
  complete[index] = true;
  return { ...state, streaming: { messageId, parts, complete }, retry: null };
}

function applyDelta(state: SessionState, delta: Delta): SessionState {
  if (delta.kind === "tool_output") {
    const id = delta.toolCallId;
    if (!id || isOver(state, id)) return state;
    const output = ((state.progress[id]?.output ?? "") + delta.text).slice(-OUTPUT_KEPT);
    return withProgress(state, id, { started: true, output });
  }
  const streaming = streamingOf(state, delta.messageId);
  if (!streaming || streaming.complete[delta.index]) return state;
  const parts = [...streaming.parts];
  parts[delta.index] = grown(parts[delta.index], delta);
  return { ...state, streaming: { ...streaming, parts }, retry: null };
}

function grown(part: Part | undefined, delta: Delta): Part {
  if (delta.kind === "tool_input") {
    const call = part?.type === "tool_call" ? part : undefined;
    const id = delta.toolCallId ?? call?.id ?? `${delta.messageId}:${delta.index}`;
    const name = delta.name ?? call?.name ?? "tool";
    return { type: "tool_call", id, name, input: (call?.input ?? "") + delta.text, finished: false };
  }
  if (delta.kind === "reasoning") {
    const text = (part?.type === "reasoning" ? part.text : "") + delta.text;
    return { type: "reasoning", text, signature: null, redacted: null };
  }
  return { type: "text", text: (part?.type === "text" ? part.text : "") + delta.text };
}

/** Return the streaming message, created if it is new; null when that message is complete already. */
function streamingOf(state: SessionState, messageId: string): StreamingMessage | null {
  if (state.streaming?.messageId === messageId) return state.streaming;
  // Only one of the newest lines can be the message that just ended.
  if (state.items.slice(-3).some((item) => item.key === messageId)) return null;
  return { messageId, parts: [], complete: [] };
}

function replied(state: SessionState, requestId: string, rejected: boolean): SessionState {
  const request = state.pending.find((candidate) => candidate.requestId === requestId);
  if (!request) return state;
  const next = { ...state, pending: without(state.pending, requestId) };
  return rejected ? withProgress(next, request.toolCallId, { denied: true }) : next;
}

function without(pending: readonly PermissionRequest[], requestId: string): PermissionRequest[] {
  return pending.filter((request) => request.requestId !== requestId);
}

function withProgress(state: SessionState, id: string, change: Partial<ToolProgress>): SessionState {
  const before = state.progress[id] ?? { started: false, output: "", denied: false };
  return { ...state, progress: { ...state.progress, [id]: { ...before, ...change } } };
}

/** Take over the status that came with an event. For the chat, a session whose turn has ended is idle, however it ended. */
function withStatus(state: SessionState, view: ViewUpdate | null | undefined): SessionState {
  const status = view?.status;
  return status ? { ...state, session: { ...state.session, status: status === "running" || status === "waiting" ? status : "idle" } } : state;
}

function withTrace(state: SessionState, updates: Record<string, unknown>): SessionState {
  const { demo, ...rest } = updates;
  const trace = { ...state.session.trace, ...rest };
  const { model, mode } = state.session;
  const session = { ...state.session, trace, model: trace.model ?? model, mode: trace.mode ?? mode };
  return { ...state, session: typeof demo === "boolean" ? { ...session, demo } : session };
}

/** Show new budgets at once; the next meter update contains them, too. */
function withBudget(state: SessionState, budget: Budget | null | undefined): SessionState {
  return budget && state.meter ? { ...state, meter: { ...state.meter, budget } } : state;
}

function lastFinish(items: readonly Item[]): string | undefined {
  for (const item of [...items].reverse()) {
    // Messages of a compaction are neither answers nor prompts.
    if (item.kind === "message" && item.message.content.some((part) => part.type === "compaction")) continue;
    if (item.kind === "message" && item.message.role === "assistant") {
      const finish = finishOf(item.message);
      // Without text, the message does not explain why it ended.
      return finish && stopNotice(finish.reason, finish.detail) ? finish.reason : undefined;
    }
    if (item.kind === "message" && item.message.role === "user") return undefined;
  }
  return undefined;
}

/** Append an update to `updates`. Consecutive deltas of the same part are joined, and so are consecutive meter updates. */
export function addUpdate(updates: Update[], update: Update): void {
  const last = updates.at(-1);
  if (last && "delta" in last && "delta" in update) {
    const [a, b] = [last.delta, update.delta];
    if (a.kind === b.kind && a.messageId === b.messageId && a.index === b.index && a.toolCallId === b.toolCallId) {
      updates[updates.length - 1] = { delta: { ...b, name: b.name ?? a.name, text: a.text + b.text } };
      return;
    }
  }
  if (last && "meter" in last && "meter" in update) {
    updates[updates.length - 1] = { meter: merged(last.meter, update.meter) };
    return;
  }
  updates.push(update);
}

function finishOf(message: Message): FinishPart | undefined {
  return message.content.find((part) => part.type === "finish");
}

/** Return a notice about the end of a turn; undefined for ordinary ends. */
export function stopNotice(
  reason: StopReason,
  detail: string,
): { level: "info" | "warning" | "error"; text: string } | undefined {
  switch (reason) {
    case "end_turn":
    case "tool_use":
      return undefined;
    case "canceled":
      // The daemon's text says the same in more words.
      return { level: "info", text: detail.startsWith("Canceled") ? t("Stopped.") : detail || t("Stopped.") };
    case "permission_denied":
      return { level: "info", text: detail || t("Stopped: you rejected the request.") };
    case "max_tokens":
      return { level: "warning", text: detail || t("The answer was cut off at the model's output limit.") };
    case "error":
      return { level: "error", text: detail || t("The turn ended with an error. The log has more.") };
  }
}
