import type { Chip, Draft, FromWebview, QueueEdit, Written } from "../messages";
import { wordsOf } from "../../permission/answers";
import type { PermissionRequest, QueuedPrompt } from "../../protocol.gen";
import type { SessionState, Update } from "../../session/state";

export type { Chip, Draft };

interface Api {
  postMessage(message: FromWebview): void;
}

declare function acquireVsCodeApi(): Api;

const api = acquireVsCodeApi();

export function post(message: FromWebview): void {
  api.postMessage(message);
}

/** Number of drafts to keep; those of older sessions are dropped. */
const MOST = 50;
/** Shortest time between two messages with unsent text to the host, in milliseconds. */
const PAUSE_MS = 200;

/** The user's unsent text. The host stores it and put it into the page. */
let written = read();
/** The files that the host has. */
let stored = written.files;
// biome-ignore lint/correctness/noUnusedVariables: `??=` reads it.
let timer: ReturnType<typeof setTimeout> | undefined;

function read(): Written {
  const block = typeof document === "undefined" ? null : document.getElementById("written");
  return { drafts: {}, files: {}, answers: {}, edits: {}, unfolded: [], ...(JSON.parse(block?.textContent ?? "{}") as Partial<Written>) };
}

function keep(now: Written): void {
  written = now;
  timer ??= setTimeout(() => {
    timer = undefined;
    const { files, ...texts } = written;
    post({ type: "written", written: texts, ...(files === stored ? {} : { files }) });
    stored = files;
  }, PAUSE_MS);
}

/** Return `record` with the value for a key as its newest entry; undefined removes the key. */
function withNewest<T>(record: Readonly<Record<string, T>>, key: string, value: T | undefined): Record<string, T> {
  const { [key]: _, ...others } = record;
  const kept = Object.entries(others).slice(-MOST);
  return Object.fromEntries(value === undefined ? kept : [...kept, [key, value]]);
}

export function draftOf(sessionId: string): Draft {
  // A draft that an older version stored has its files in it.
  return { text: "", files: written.files[sessionId] ?? [], ...written.drafts[sessionId] };
}

export function saveDraft(sessionId: string, { files, ...draft }: Draft): void {
  const before = written.files[sessionId] ?? [];
  const same = files.length === before.length && files.every((file, index) => file === before[index]);
  keep({
    ...written,
    drafts: withNewest(written.drafts, sessionId, draft.text === "" && files.length === 0 && draft.instead === undefined ? undefined : draft),
    files: same ? written.files : withNewest(written.files, sessionId, files.length > 0 ? files : undefined),
  });
}

const NOTHING: Draft = { text: "", files: [] };

/** Return the key of the draft that waits while an earlier message is edited in its place. */
function asideOf(sessionId: string): string {
  return `aside:${sessionId}`;
}

/** Return the key of the draft for what is given back: an edit of an earlier message is replaced or canceled as a whole. */
export function keptDraft(sessionId: string): string {
  return draftOf(sessionId).instead === undefined ? sessionId : asideOf(sessionId);
}

/** Put the draft aside, because an earlier message is about to be edited in its place. */
export function setAside(sessionId: string): void {
  saveDraft(asideOf(sessionId), draftOf(sessionId));
  saveDraft(sessionId, NOTHING);
}

/** Return the draft that was put aside, if any, which is no longer kept there. */
export function takeBack(sessionId: string): Draft {
  const draft = draftOf(asideOf(sessionId));
  saveDraft(asideOf(sessionId), NOTHING);
  return draft;
}

/** A restarted daemon asks again with a new request id, but the call stays the same. */
function keyOf({ traceId, branchId, toolCallId, permission }: PermissionRequest): string {
  return [traceId, branchId ?? "", toolCallId, permission].join(" ");
}

/** Return the user's unsent answer to a request: feedback, or answers to questions. */
export function answerOf(request: PermissionRequest): Written["answers"][string] {
  return written.answers[keyOf(request)] ?? {};
}

export function saveAnswer(request: PermissionRequest, answer: Written["answers"][string] | undefined): void {
  keep({ ...written, answers: withNewest(written.answers, keyOf(request), answer) });
}

/** Answers that were taken to be sent, by request id. */
const sent = new Map<string, [key: string, begun: Written["answers"][string]]>();

/** Return the user's unsent answer to a request, which is about to be sent; it is kept again only if the daemon rejects that. An answer that is not sent stays: see `takeBegun`. */
export function takeAnswer(request: PermissionRequest): Written["answers"][string] {
  const begun = answerOf(request);
  sent.set(request.requestId, [keyOf(request), begun]);
  saveAnswer(request, undefined);
  return begun;
}

/** Keep an answer again that the daemon rejected, because its card still shows it. */
export function keepRefused(requestId: string): void {
  const [key, begun] = sent.get(requestId) ?? [];
  // The user may have gone on writing meanwhile.
  if (key !== undefined && !written.answers[key]) keep({ ...written, answers: withNewest(written.answers, key, begun) });
}

/** Return what the user had begun to write for requests that were answered elsewhere; it is no longer kept with them. */
export function takeBegun(session: SessionState | null, updates: readonly Update[]): string[] {
  return updates.flatMap((update) => {
    // Without a name, the request ended with its turn (see `takeEnded`), or with its daemon, and the next one asks again.
    if (!("event" in update) || update.event.event !== "permission_replied" || update.event.by === "") return [];
    const { requestId } = update.event;
    const request = session?.pending.find((one) => one.requestId === requestId);
    const words = request ? wordsOf(answerOf(request)) : "";
    if (!request || !words) return [];
    saveAnswer(request, undefined);
    return [words];
  });
}

/** Return what the user had begun to write for requests of a session at rest that are no longer open; it is no longer kept with them. */
export function takeEnded({ session, pending }: SessionState): string[] {
  const open = new Set(pending.map(keyOf));
  const isEnded = ([key]: [string, unknown]): boolean => key.startsWith(`${session.trace.traceId} `) && !open.has(key);
  const all = Object.entries(written.answers);
  const ended = all.filter(isEnded);
  if (ended.length > 0) keep({ ...written, answers: Object.fromEntries(all.filter((one) => !isEnded(one))) });
  return ended.map(([, answer]) => wordsOf(answer)).filter(Boolean);
}

/** Return the edited text of a queued prompt; null when it is not being edited. */
export function editOf(promptId: string): string | null {
  return written.edits[promptId]?.text ?? null;
}

export function saveEdit(promptId: string, edit: QueueEdit | null): void {
  keep({ ...written, edits: withNewest(written.edits, promptId, edit ?? undefined) });
}

/** Return the edits of prompts that are no longer in their session's queue, except those that changed nothing; they are no longer kept. */
export function takeGone(sessionId: string, queue: readonly QueuedPrompt[]): string[] {
  const waiting = new Set(queue.map(({ promptId }) => promptId));
  const gone = Object.entries(written.edits).filter(([promptId, edit]) => edit.sessionId === sessionId && !waiting.has(promptId));
  for (const [promptId] of gone) saveEdit(promptId, null);
  return gone.flatMap(([, { text, original }]) => (text === original ? [] : [text]));
}

export function isUnfolded(part: string): boolean {
  return written.unfolded.includes(part);
}

export function saveUnfolded(part: string, unfolded: boolean): void {
  const others = written.unfolded.filter((one) => one !== part);
  keep({ ...written, unfolded: unfolded ? [...others, part] : others });
}
