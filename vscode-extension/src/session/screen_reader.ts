/** Text for screen readers: whole paragraphs of an answer, as soon as they are complete. Pure. */
import type { Part } from "../protocol.gen";
import { plannedParts } from "./plan";
import type { SessionState } from "./state";
import { plural, t } from "../l10n";

export interface Line {
  key: string;
  text: string;
}

export interface Spoken {
  sessionId: string;
  /** Id of the newest answer, and how many of its characters were announced. */
  messageId: string;
  said: number;
  /** The lines announced last; older ones are dropped. */
  lines: readonly Line[];
}

export const SILENCE: Spoken = { sessionId: "", messageId: "", said: 0, lines: [] };

const KEPT = 8;

/**
 * Return what is announced after a change of `session`. Opening a session announces nothing of its past; an answer in
 * progress is not past, since a prompt can open its session and be half answered before the page shows either.
 */
export function spoken(before: Spoken, session: SessionState | null): Spoken {
  if (!session) return SILENCE;
  const sessionId = session.session.trace.traceId;
  const opened = before.sessionId !== sessionId;
  const heard = opened ? { ...SILENCE, sessionId } : before;
  const newest = newestAnswer(session);
  if (!newest) return heard;
  const { id, parts, growing } = newest;
  const text = textOf(parts);
  // A plan is shown as a list, so its JSON is not read out. Whether a text is a plan is known only at its end.
  const silent = growing ? /^\s*[{[]/.test(text) : plannedParts(parts) !== undefined;
  const complete = silent ? 0 : growing ? wholeParagraphs(text) : text.length;
  if (opened && !growing) return { ...heard, messageId: id, said: complete };
  const same = heard.messageId === id;
  const rest = same ? [] : restOf(heard, session);
  const from = same ? heard.said : 0;
  if (same && complete <= from) return heard;
  const added = [...rest, ...linesOf(id, text, from, complete)];
  // A long answer that arrives at once is read from its beginning.
  const lines = added.length > 0 ? [...heard.lines, ...added].slice(-Math.max(KEPT, added.length)) : heard.lines;
  return { sessionId, messageId: id, said: Math.max(from, complete), lines };
}

function newestAnswer({ streaming, items }: SessionState) {
  if (streaming) return { id: streaming.messageId, parts: streaming.parts, growing: true };
  const last = items.findLast((item) => item.kind === "message" && item.message.role === "assistant");
  return last?.kind === "message" ? { id: last.key, parts: last.message.content, growing: false } : undefined;
}

/** Return the end of the previous answer, when the next one begins at the same time. */
function restOf({ messageId, said }: Spoken, { items }: SessionState): Line[] {
  const last = messageId ? items.findLast((item) => item.key === messageId) : undefined;
  if (last?.kind !== "message") return [];
  const text = textOf(last.message.content);
  return plannedParts(last.message.content) ? [] : linesOf(messageId, text, said, text.length);
}

function textOf(parts: readonly (Part | undefined)[]): string {
  return parts.flatMap((part) => (part?.type === "text" && part.text.trim() ? [`${part.text.trimEnd()}\n\n`] : [])).join("");
}

/** Return the length of the complete paragraphs at the beginning; a code block counts as one. */
function wholeParagraphs(text: string): number {
  let end = 0;
  let inCode = false;
  let at = 0;
  for (const line of text.trimEnd().split("\n")) {
    if (/^\s*(\x60{3}|~{3})/.test(line)) inCode = !inCode;
    if (!inCode && line.trim() === "") end = at + line.length + 1;
    at += line.length + 1;
  }
  return end;
}

function linesOf(id: string, text: string, from: number, to: number): Line[] {
  return text
    .slice(from, to)
    .replace(/^[ \t]*(\x60{3}|~{3})[^\n]*\n([\s\S]*?)(?:\n[ \t]*\1[ \t]*$|$(?![\s\S]))/gm, (_, __, code: string) => codeWords(code.split("\n").length))
    .split(/\n\s*\n/)
    .map(spokenWords)
    .filter(Boolean)
    .map((line, index) => ({ key: `${id}-${from}-${index}`, text: line }));
}

/** Remove Markdown markup from a paragraph; underscores within names stay. */
function spokenWords(paragraph: string): string {
  return paragraph
    .replace(/^[ \t]*\|?[ \t]*:?-{3,}.*$/gm, " ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^([ \t]*[-*+][ \t]+)\[([ xX])\]/gm, (_, mark: string, done: string) => mark + (done === " " ? t("To do:") : t("Done:")))
    .replace(/^[ \t]*[-*+][ \t]+/, "")
    .replace(/\n[ \t]*[-*+][ \t]+/g, "; ")
    .replace(/\$\$|\\[()[\]]/g, " ")
    .replace(/(?<!\w)_+|_+(?!\w)/g, " ")
    .replace(/[*\x60#|>]+/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

function codeWords(count: number): string {
  return plural(count, "Code, {0} line.", "Code, {0} lines.");
}

/** Describe what the session is doing. */
export function stateWords(session: SessionState | null): string {
  if (!session || session.pending.length > 0) return "";
  if (session.awaits.length > 0) return t("Choose a branch");
  if (session.compacting) return t("Compacting the context…");
  if (session.session.status === "running") return t("Goalwright is working");
  return session.items.length > 0 ? t("Goalwright is ready") : "";
}
