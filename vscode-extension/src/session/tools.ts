import { duration } from "../amounts";
import type { Mode, PermissionRequest, ToolCallPart, ToolResultPart } from "../protocol.gen";
import { lineCounts } from "../history/format";
import { isOver, type SessionState, type ToolResult } from "./state";
import { modeWords } from "../permission/format";
import { t } from "../l10n";

export type ToolState = "pending" | "running" | "waiting for approval" | "done" | "failed" | "denied" | "canceled";

export type ProblemLine = ReturnType<typeof problemsOf>[number];

/** Data of a tool card. */
export type ToolView = ReturnType<typeof toolView>;

export function toolView(session: SessionState, call: ToolCallPart) {
  const result = session.results[call.id];
  const progress = session.progress[call.id];
  const request = session.pending.find((candidate) => candidate.toolCallId === call.id);
  const metadata = result?.metadata ?? {};
  const input = argumentsOf(call.input);
  const [file] = request?.files ?? [];
  const asked = request && file && lineCounts(request.files);
  const verdict = verdictOf(metadata);
  const job = jobOf(session, call, result);
  const state = job ? jobState(job) : stateOf(result, request !== undefined, progress?.denied ?? false, progress?.started ?? false);
  const isCommand = call.name === "bash" && (metadata["exit_code"] !== undefined || metadata["not_run"] !== true);
  return {
    call,
    result,
    state,
    /** The action in words: the result's title, the request's, or the main argument. A job's title contains its id, for which the row has no space. */
    title: job ? mainArgument(input) : titleOf(result, request, inside(mainArgument(input), session.session.trace.workspace)),
    path: text(metadata["path"]) ?? file?.path ?? text(input["file_path"]) ?? text(input["path"]),
    added: number(metadata["added"]) ?? asked?.added,
    removed: number(metadata["removed"]) ?? asked?.removed,
    diff: text(metadata["diff"]) ?? request?.files.map((one) => one.diff).join("\n"),
    /** True when the user accepted only a part or edited the text; title and diff show what was written. */
    altered: metadata["altered"] === true,
    /** The model's own explanation of a command, which may be wrong. */
    modelSays: call.name === "bash" ? said(text(input["description"]), text(input["reason"])) : "",
    /** The background job of a command that outlives its call. */
    job: job && { id: job.id, sessionId: session.session.trace.traceId, running: job.running },
    /** File with a command's complete output. */
    outputFile: call.name === "bash" ? text(metadata["output_file"]) : undefined,
    /** End of a command: its exit code if not 0, and its duration. */
    ended: job ? jobEnded(job) : result && isCommand ? ended(result) : [],
    /** The reason why a call was rejected, stopped or failed, in words for the user. */
    why: result && !job ? why(result, state) : "",
    /** A command's output; may contain color codes. */
    output: isCommand && result && !job ? outputOf(result) : (progress?.output ?? ""),
    /** Text for the model, where it has more than the output. */
    told: result && !(isCommand && state === "done") ? result.content : "",
    problems: problemsOf(metadata["diagnostics"]),
    /** Summary of the language servers' diagnostics, if any. */
    verdict,
  };
}

type Job = NonNullable<ReturnType<typeof jobOf>>;

/** Return the background job of a call. Its exit code is null if unknown. */
function jobOf(session: SessionState, call: ToolCallPart, result: ToolResultPart | undefined) {
  const id = call.name === "bash" ? text(result?.metadata["job_id"]) : undefined;
  return id === undefined ? undefined : { id, running: !isOver(session, call.id), exitCode: session.jobs[id] ?? null };
}

function jobState({ running, exitCode }: Job): ToolState {
  if (running) return "running";
  return exitCode === null || exitCode < 0 ? "canceled" : exitCode === 0 ? "done" : "failed";
}

const TERMINATED = -15;

function jobEnded({ running, exitCode }: Job): string[] {
  if (running) return [];
  if (exitCode === null) return [t("ended")];
  if (exitCode === TERMINATED) return [t("stopped")];
  return [exitCode < 0 ? t("signal {0}", -exitCode) : exitCode > 0 ? t("exit {0}", exitCode) : t("ended")];
}

function said(description: string | undefined, reason: string | undefined): string {
  return description && reason ? t("{0} Reason: {1}", description, reason) : (description ?? reason ?? "");
}

function stateOf(
  result: ToolResultPart | undefined,
  waiting: boolean,
  denied: boolean,
  started: boolean,
): ToolState {
  if (result) {
    const { metadata } = result;
    // A denied call may still have a successful result: a skipped question, or a call that asked only for a part of its
    // work.
    if (metadata["denied"] === true || (denied && result.isError)) return "denied";
    if (metadata["not_run"] === true || metadata["canceled"] === true) return "canceled";
    return result.isError || exitCode(metadata) !== 0 ? "failed" : "done";
  }
  if (waiting) return "waiting for approval";
  return started ? "running" : "pending";
}

/** Return a command's exit code; 0 for other tools. */
function exitCode(metadata: ToolResultPart["metadata"]): number {
  return number(metadata["exit_code"]) ?? 0;
}

function ended(result: ToolResult): string[] {
  const { metadata, durationMs } = result;
  const code = exitCode(metadata);
  const how = metadata["canceled"] === true ? t("stopped") : metadata["timed_out"] === true ? t("timed out") : code > 0 ? t("exit {0}", code) : code < 0 ? t("signal {0}", -code) : "";
  const ran = metadata["exit_code"] !== undefined && durationMs !== undefined;
  return [how, ran ? duration(durationMs) : ""].filter(Boolean);
}

function why(result: ToolResult, state: ToolState): string {
  if (state === "denied") return rejectionWords(result);
  if (state === "canceled") return result.name === "bash" && result.metadata["exit_code"] !== undefined ? "" : stoppedWords(result);
  return state === "failed" ? failureWords(result.name, result.metadata) : "";
}

/** Extract a command's output; the lines before and after it are for the model. */
function outputOf({ content, metadata }: ToolResult): string {
  const colored = text(metadata["colored"]);
  if (colored !== undefined) return colored;
  if (metadata["exit_code"] === undefined) return metadata["denied"] === true ? "" : content;
  const lines = content.split("\n").slice(1);
  const count = number(metadata["output_lines"]);
  if (count === undefined) return lines.join("\n") === "(no output)" ? "" : lines.join("\n");
  return lines.slice(0, count).join("\n");
}

/** Return the card's title. An error's title describes the error, so the card shows the intended action instead. */
function titleOf(result: ToolResultPart | undefined, request: PermissionRequest | undefined, wanted: string): string {
  if (result?.isError) return text(result.metadata["title"]) ?? (wanted || result.title);
  return result?.title || request?.title || wanted;
}

/** Remove the counts at the end of a title, which are shown beside it, and the remark about user edits. */
export function uncounted(title: string): string {
  return title.replace(/\s+\(?\+\d+\s+[-−–]\d+\)?(?:\s+\([^()]*\))?\s*$/, "");
}

/** Parse arguments; from incomplete JSON, take the strings that are complete. */
export function argumentsOf(input: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(input || "{}");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    const found: Record<string, unknown> = {};
    for (const match of input.matchAll(/"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*")/g)) {
      try {
        found[match[1] ?? ""] = JSON.parse(match[2] ?? '""');
      } catch {
        // An escape sequence is cut in two; the next delta completes it.
      }
    }
    return found;
  }
}

/** Make a path relative to the workspace. */
function inside(path: string, workspace: string): string {
  const root = workspace.replace(/[\\/]+$/, "");
  const rest = path.startsWith(root) ? path.slice(root.length) : "";
  return root && /^[\\/]/.test(rest) ? rest.slice(1) : path;
}

/** Return the most informative argument in one line. The model's description comes last, because it is not a fact. */
export function mainArgument(input: Record<string, unknown>): string {
  const files = [...(text(input["patch_text"]) ?? "").matchAll(/^(?:\*\*\* (?:Add|Update|Delete) File:|\+\+\+ (?:b\/)?) ?(\S+)/gm)].map((match) => match[1] ?? "");
  if (files.length > 0) return files.join(", ");
  for (const name of ["command", "file_path", "path", "pattern", "query", "add", "done", "focus", "prompt", "branches", "select", "description"]) {
    const value = input[name];
    if (typeof value === "string" && value) return value.split("\n", 1)[0] ?? "";
    if (Array.isArray(value) && value.length > 0) return value.map(String).join(", ");
  }
  return "";
}

function verdictOf(metadata: Record<string, unknown>): string | undefined {
  const { diagnostics } = metadata;
  const inside = isRecord(diagnostics) ? text(diagnostics["verdict"]) : undefined;
  return inside ?? text(metadata["verdict"]);
}

/** Read the problems of a result, given as a list or within a report. */
function problemsOf(value: unknown) {
  const list = isRecord(value) ? value["problems"] : value;
  if (!Array.isArray(list)) return [];
  return list.filter(isRecord).map((problem) => ({
    path: text(problem["path"]) ?? "",
    line: number(problem["line"]) ?? 1,
    column: number(problem["column"]) ?? 1,
    severity: text(problem["severity"]) ?? "error",
    message: text(problem["message"]) ?? "",
    source: [text(problem["source"]), text(problem["code"])].filter(Boolean).join(" "),
  }));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value ? value : undefined;
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** Explain why a call was rejected, and by whom. */
function rejectionWords({ metadata, content }: ToolResultPart): string {
  const { by, feedback, mode, hook } = metadata;
  if (metadata["after_rejection"] === true) return t("Not run: you rejected the call before it.");
  if (by === "timeout") return t("Nobody answered in time, so this was rejected.");
  if (typeof hook === "object" && hook !== null) return content.replace(/^Permission denied\.\s*/, "");
  if (typeof mode === "string" && mode === "plan") return t("Not allowed in the mode {0}.", modeWords(mode as Mode).label);
  const words = told(feedback);
  if (words) return t("You rejected this: “{0}”", words);
  if (metadata["rule"] === true || typeof by !== "string") return t("Rejected by a rule.");
  return !by || by === "VS Code" ? t("You rejected this.") : t("You rejected this in {0}.", String(by));
}

/** Explain why a call was interrupted. */
function stoppedWords({ metadata }: ToolResultPart): string {
  if (metadata["not_run"] === true) return metadata["canceled"] === true ? t("Stopped before you approved it: nothing was done.") : "";
  return t("Stopped. Part of it may have been done.");
}

const NOT_CHANGED = new Set(["edit", "write", "patch"]);

/** Explain why a call failed. The agent gets the details and continues. */
function failureWords(name: string, metadata: ToolResultPart["metadata"]): string {
  if (!NOT_CHANGED.has(name) || metadata["diff"] !== undefined) return "";
  return t("Nothing was changed. {0}", told(metadata["told"]) ?? t("The agent sees the reason."));
}

function told(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() ? value.trim() : undefined;
}

export type Listing = NonNullable<ReturnType<typeof listingOf>>;

export interface Hit {
  line: number;
  text: string;
}

/** Files with their matches; a file without matches was found by its name. */
export interface Found {
  files: { path: string; hits: Hit[] }[];
  notes: string[];
}

const NUMBERED = /^(\d+)→(.*)$/;
/** The remark of `grep` after a file's name. */
const REMARK = / \(as (?:in the editor|on disk)[^()]*\)$/;

/** Parse the lines of a file from number `first`, without their numbers, and other notes, such as that it is truncated; undefined for other content. */
export function listingOf(content: string) {
  const lines = content.split("\n");
  const start = lines.findIndex((line) => NUMBERED.test(line));
  const first = Number(NUMBERED.exec(lines[start] ?? "")?.[1]);
  if (start < 0) return undefined;
  const code: string[] = [];
  for (const line of lines.slice(start)) {
    const [, number, text] = NUMBERED.exec(line) ?? [];
    if (text === undefined || Number(number) !== first + code.length) break;
    code.push(text);
  }
  return { first, code: code.join("\n"), notes: notes([...lines.slice(0, start), ...lines.slice(start + code.length)]) };
}

/** Parse the files and lines of a search; undefined when it found nothing. `tool`: `grep`, or `glob`, which finds names. */
export function foundOf(tool: string, content: string): Found | undefined {
  const files: Found["files"] = [];
  const rest: string[] = [];
  const lines = content.split("\n");
  lines.forEach((line, index) => {
    const [, number, text] = NUMBERED.exec(line) ?? [];
    const last = files.at(-1);
    const names = tool === "glob" ? !line.startsWith("(") && line !== "No files match." : NUMBERED.test(lines[index + 1] ?? "");
    if (tool !== "glob" && text !== undefined && last) last.hits.push({ line: Number(number), text });
    else if (names && line.trim()) files.push({ path: line.replace(REMARK, ""), hits: [] });
    else rest.push(line);
  });
  return files.length > 0 ? { files, notes: notes(rest) } : undefined;
}

/** Clean up the other lines: without parentheses and advice for the model. */
function notes(lines: readonly string[]): string[] {
  const advice = / (?:Go on with offset=\d+|Narrow the search|Use a narrower pattern)\.$/;
  return lines.map((line) => line.trim().replace(/^\((.*)\)$/, "$1").replace(advice, "")).filter(Boolean);
}
