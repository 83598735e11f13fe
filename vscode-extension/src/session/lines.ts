/** The transcript's lines: the messages of a compaction are one of them. Pure. */
import { short } from "../amounts";
import type { CompactionPart, Message, Part, ToolCallPart } from "../protocol.gen";
import { stopNotice } from "./read";
import type { Item, SessionState } from "./state";
import { argumentsOf } from "./tools";
import { plural, t } from "../l10n";

export interface CompactionLine {
  kind: "compaction";
  key: string;
  reason: string;
  /** Estimated tokens of the request before it, and of the one after it. */
  before: number;
  after: number;
  /** Markdown; empty while the model still writes it. */
  summary: string;
  /** What was carried over word for word. */
  carried: string;
}

export type Line = Item | CompactionLine;

export function compactionOf(message: Message): CompactionPart | undefined {
  return message.content.find((part) => part.type === "compaction");
}

/** `running`: a turn is under way, so what has no end yet may still get one. */
export function lines(items: readonly Item[], running: boolean): Line[] {
  const found: Line[] = [];
  let open: CompactionLine | undefined;
  const begin = (key: string): CompactionLine => {
    const line = { kind: "compaction" as const, key, reason: "", before: 0, after: 0, summary: "", carried: "" };
    found.push(line);
    return line;
  };
  for (const item of items) {
    const last = found.at(-1) === open ? open : undefined;
    if (item.kind === "notice") {
      if (item.code === "compaction_begins") open = begin(item.key);
      // That it is done, the line itself says.
      else if (item.code !== "compaction_done" || !last?.summary) found.push(item);
      continue;
    }
    const { message } = item;
    const part = compactionOf(message);
    if (!part) {
      found.push(item);
      continue;
    }
    const begun = last && (part.kind !== "request" || !last.summary) ? last : undefined;
    open = begun ?? begin(item.key);
    Object.assign(open, { reason: part.reason, before: part.before, after: part.after });
    if (part.kind === "summary") open.summary = readableSummary(textOf(message));
    if (part.kind === "carried") open.carried = textOf(message);
  }
  // What was broken off came to nothing.
  return found.filter((line) => line.kind !== "compaction" || line.summary !== "" || (running && line === found.at(-1)));
}

const REASONS: Record<string, string> = {
  threshold: t("it was nearly full"),
  overflow: t("it was too long for the model"),
  manual: t("as you asked"),
};

/** `Context compacted (it was nearly full) · 142k → 38k tokens`. */
export function compactionWords({ reason, before, after, summary }: CompactionLine): string {
  if (!summary) return t("Compacting the context…");
  const why = REASONS[reason] ?? reason;
  const counts = after >= before ? "" : t("{0} → {1} tokens", short(before), short(after));
  return [why ? t("Context compacted ({0})", why) : t("Context compacted"), counts].filter(Boolean).join(" · ");
}

function textOf(message: Message): string {
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** A summary to read: the JSON between the tags as headings and lists, as Markdown. What is no JSON stays as it is. */
export function readableSummary(text: string): string {
  const match = /<compact_summary>([\s\S]*?)(?:<\/compact_summary>|$)/.exec(text);
  const inner = (match?.[1] ?? text).trim().replace(/^```(?:json)?\s*|\s*```$/g, "");
  const outside = match ? text.replace(match[0], "").trim() : "";
  let value: unknown;
  try {
    value = JSON.parse(inner);
  } catch {
    return [outside, inner].filter(Boolean).join("\n\n") || text.trim();
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [outside, list(value, "")].filter(Boolean).join("\n\n");
  const sections = Object.entries(value)
    .filter(([, inside]) => !isEmpty(inside))
    .map(([name, inside]) => `**${words(name)}**\n\n${typeof inside === "object" ? list(inside, "") : String(inside)}`);
  return [outside, ...sections].filter(Boolean).join("\n\n");
}

function list(value: unknown, indent: string): string {
  if (Array.isArray(value)) return value.filter((one) => !isEmpty(one)).map((one) => entry("", one, indent)).join("\n");
  if (typeof value !== "object" || value === null) return `${indent}${String(value)}`;
  return Object.entries(value)
    .filter(([, inside]) => !isEmpty(inside))
    .map(([name, inside]) => entry(`${words(name)}: `, inside, indent))
    .join("\n");
}

function entry(label: string, value: unknown, indent: string): string {
  if (typeof value === "object" && value !== null) {
    const inside = list(value, `${indent}  `);
    return label ? `${indent}- ${label.trim()}\n${inside}` : inside.replace(`${indent}  - `, `${indent}- `);
  }
  return `${indent}- ${label}${String(value).replaceAll("\n", `\n${indent}  `)}`;
}

/** A key of JSON in words; what is no such name, a path for example, stays. */
function words(name: string): string {
  if (!/^[a-z]\w*$/i.test(name)) return name;
  const spaced = name.replace(/_/g, " ").replace(/(?<=[a-z])(?=[A-Z])/g, " ").trim();
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/**
 * Where work on another goal begins: the goal by the key of a message, or by the id of a call within it. A message may
 * set the focus and go on with the next goal; a call under way belongs to the goal that has it now.
 */
export function goalMarks(lines: readonly Line[], { results, progress, pending, goalTree }: Pick<SessionState, "results" | "progress" | "pending" | "goalTree">): Map<string, string> {
  const waiting = new Set(pending.map((request) => request.toolCallId));
  const goalOf = (id: string): string | null | undefined =>
    results[id] ? results[id].goalId : progress[id]?.started || waiting.has(id) ? goalTree.currentId : undefined;
  const marks = new Map<string, string>();
  let current: string | null = null;
  const mark = (key: string, goalId: string | null | undefined): void => {
    if (goalId && goalId !== current) marks.set(key, goalId);
    current = goalId ?? current;
  };
  for (const line of lines) {
    if (line.kind !== "message" || line.message.role !== "assistant") continue;
    mark(line.key, line.message.goalId);
    for (const part of line.message.content) if (part.type === "tool_call") mark(part.id, goalOf(part.id));
  }
  return marks;
}

/** Reads and searches in a row, of one message or of several; shown as one line. */
export interface Reads {
  type: "reads";
  calls: readonly ToolCallPart[];
}

/** A line with what is drawn of its message: a message that only goes on reading is part of the one before it. */
export type DrawnLine = Exclude<Line, { kind: "message" }> | { kind: "message"; key: string; message: Message; parts: readonly (Part | Reads)[] };

const LOOKS = new Set(["read", "ls", "glob", "grep"]);
/** Fewer are as quickly read one by one. */
const FEWEST = 3;

/** Groups reads and searches. `apart`: keys of messages and ids of calls before which something else is drawn. */
export function grouped(lines: readonly Line[], pending: SessionState["pending"], apart: (key: string) => boolean): DrawnLine[] {
  const waiting = new Set(pending.map((request) => request.toolCallId));
  const drawn: DrawnLine[] = [];
  let run: ToolCallPart[] | undefined;
  for (const line of lines) {
    if (line.kind !== "message") {
      drawn.push(line);
      run = undefined;
      continue;
    }
    if (line.message.role !== "assistant" || apart(line.key)) run = undefined;
    const before = run;
    const parts: (Part | Reads)[] = [];
    for (const part of line.message.content) {
      const looks = part.type === "tool_call" && LOOKS.has(part.name) && !waiting.has(part.id);
      if (looks) {
        if (!run || apart(part.id)) parts.push({ type: "reads", calls: (run = []) });
        run.push(part);
      } else {
        parts.push(part);
        if (!isSilent(part)) run = undefined;
      }
    }
    if (!before || run !== before || !parts.every((part) => part.type !== "reads" && isSilent(part))) drawn.push({ kind: "message", key: line.key, message: line.message, parts });
  }
  const few = (part: Part | Reads): readonly (Part | Reads)[] => (part.type === "reads" && part.calls.length < FEWEST ? part.calls : [part]);
  return drawn.map((line) => (line.kind === "message" ? { ...line, parts: line.parts.flatMap(few) } : line));
}

/** Nothing of it is drawn. */
function isSilent(part: Part): boolean {
  if (part.type === "text" || part.type === "reasoning") return part.text.trim() === "";
  return part.type === "finish" && stopNotice(part.reason, part.detail) === undefined;
}

/** `Read 8 files, listed 1 folder, searched twice`. */
export function readsWords(calls: readonly ToolCallPart[]): string {
  const files = new Set(calls.flatMap((call) => (call.name === "read" ? [argumentsOf(call.input)["file_path"]] : []))).size;
  const folders = calls.filter(({ name }) => name === "ls").length;
  const searches = calls.filter(({ name }) => name === "grep" || name === "glob").length;
  const words = [
    files > 0 ? plural(files, "read {0} file", "read {0} files") : "",
    folders > 0 ? plural(folders, "listed {0} folder", "listed {0} folders") : "",
    searches > 0 ? plural(searches, "searched once", "searched {0} times") : "",
  ].filter(Boolean);
  const line = words.join(t(", "));
  return line.charAt(0).toUpperCase() + line.slice(1);
}
