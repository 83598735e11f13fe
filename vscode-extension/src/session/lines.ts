/** Lines of the transcript, in which the messages of a compaction form one line. Pure. */
import { short } from "../amounts";
import { type Message, NoticeCode, type Part, type ToolCallPart } from "../protocol.gen";
import { type Item, type SessionState, stopNotice } from "./state";
import { argumentsOf } from "./tools";
import { plural, t } from "../l10n";

export interface CompactionLine {
  kind: "compaction";
  key: string;
  reason: string;
  /** Estimated tokens of the request before the compaction, and after it. */
  before: number;
  after: number;
  /** Summary in Markdown; empty while the model writes it. */
  summary: string;
  /** Text that was kept verbatim. */
  carried: string;
}

export type Line = Item | CompactionLine;

/** Convert items to lines. With `running`, a turn is under way and may still complete a compaction. */
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
      if (item.code === NoticeCode.COMPACTION_BEGINS) open = begin(item.key);
      // The compaction's own line shows that it is done.
      else if (item.code !== NoticeCode.COMPACTION_DONE || !last?.summary) found.push(item);
      continue;
    }
    const { message } = item;
    const part = message.content.find((one) => one.type === "compaction");
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
  // Drop compactions that were interrupted, because they changed nothing.
  return found.filter((line) => line.kind !== "compaction" || line.summary !== "" || (running && line === found.at(-1)));
}

const REASONS: Record<string, string> = {
  threshold: t("it was nearly full"),
  overflow: t("it was too long for the model"),
  manual: t("as you asked"),
};

/** Describe a compaction: `Context compacted (it was nearly full) · 142k → 38k tokens`. */
export function compactionWords({ reason, before, after, summary }: CompactionLine): string {
  if (!summary) return t("Compacting the context…");
  const why = REASONS[reason] ?? reason;
  const counts = after >= before ? "" : t("{0} → {1} tokens", short(before), short(after));
  return [why ? t("Context compacted ({0})", why) : t("Context compacted"), counts].filter(Boolean).join(" · ");
}

function textOf(message: Message): string {
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** Convert the JSON of a summary to headings and lists in Markdown. Text without valid JSON stays as it is. */
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

/** Convert a JSON key to words; other keys, for example paths, stay as they are. */
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
 * Find where work on another goal begins: goal ids by message key or call id. One message may change the focus and
 * continue with the next goal; a running call belongs to the current goal.
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

/** Consecutive reads and searches, of one or several messages, shown as one line. */
export interface Reads {
  type: "reads";
  calls: readonly ToolCallPart[];
}

/** A line with the visible parts of its message. A message that only continues reading is merged into the previous line. */
export type DrawnLine = Exclude<Line, { kind: "message" }> | { kind: "message"; key: string; message: Message; parts: readonly (Part | Reads)[] };

const LOOKS = new Set(["read", "ls", "glob", "grep"]);
/** Smallest number of calls to group. */
const FEWEST = 3;

/** Group reads and searches. `apart` returns true for message keys and call ids before which something else is shown. */
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

/** Return true if nothing of a part is shown. */
function isSilent(part: Part): boolean {
  if (part.type === "text" || part.type === "reasoning") return part.text.trim() === "";
  return part.type === "finish" && stopNotice(part.reason, part.detail) === undefined;
}

/** Count reads and searches: `Read 8 files, listed 1 folder, searched twice`. */
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
