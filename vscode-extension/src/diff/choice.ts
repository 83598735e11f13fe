/**
 * What of a proposal the person accepts: hunks, whole files, a text of their own. Pure: the host decides by it, the
 * webview shows it.
 */
import type { FileAnswer, FileDiff, PermissionRequest } from "../protocol.gen";
import { t } from "../l10n";

export interface FileChoice {
  /** Numbers of the hunks left out, rising. A file without hunks of its own is one unit, number 0. */
  left: readonly number[];
  /** The person edited the proposed text. `nothing`: what they left is what the file says already. */
  edited: "no" | "text" | "nothing";
  /** An edited file that is left out all the same; without edits, `left` says it. */
  out: boolean;
  /** What an edited text makes of the file; missing when the daemon could not say. */
  own?: FileDiff | undefined;
  /** The user has accepted or rejected this file by itself, while others of the request are open. */
  decided?: boolean;
}

export interface Choice {
  /** By path; files that are not here are accepted as they are. */
  files: Readonly<Record<string, FileChoice>>;
  /** Why the daemon did not take the last answer. */
  error: string;
}

export const ALL: Choice = { files: {}, error: "" };
const WHOLE: FileChoice = { left: [], edited: "no", out: false };

/** Where a hunk is, in lines from 1. An empty side names the line before it, as in POSIX. */
export interface Hunk {
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
}

const HEAD = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/gm;

export function hunksOf(diff: string): Hunk[] {
  return [...diff.matchAll(HEAD)].map(([, oldStart, oldLines, newStart, newLines]) => ({
    oldStart: Number(oldStart),
    oldLines: Number(oldLines ?? 1),
    newStart: Number(newStart),
    newLines: Number(newLines ?? 1),
  }));
}

/** How many parts of a file can be accepted one by one; 1: only the whole file, for example when its diff was cut off. */
export function units(file: FileDiff): number {
  return file.hunks > 1 && hunksOf(file.diff).length === file.hunks ? file.hunks : 1;
}

export function fileChoice(choice: Choice, path: string): FileChoice {
  return choice.files[path] ?? WHOLE;
}

/** The requests that are reviewed as one change: the edits that one session asks about in one step. */
export function together(request: PermissionRequest, pending: readonly PermissionRequest[]): readonly PermissionRequest[] {
  if (request.files.length === 0) return [request];
  return pending.filter(({ branchId, files, permission }) => files.length > 0 && branchId === request.branchId && permission === request.permission);
}

/** How many units of a file would be written. */
export function chosen(file: FileDiff, choice: Choice): number {
  const { left, edited, out } = fileChoice(choice, file.path);
  if (edited === "no") return units(file) - left.length;
  return out || edited === "nothing" ? 0 : units(file);
}

/** What is written on the button that lets a request happen. */
export function acceptLabel({ files, permission }: Pick<PermissionRequest, "files" | "permission">, choice: Choice): string {
  const [first] = files;
  if (!first) return Object.hasOwn(VERBS, permission) ? (VERBS[permission] ?? "") : t("Allow");
  const total = sum(files.map(units));
  const taken = sum(files.map((file) => chosen(file, choice)));
  if (taken < total) return total === files.length ? t("Apply {0} of {1} files", taken, total) : t("Apply {0} of {1} hunks", taken, total);
  if (files.some((file) => fileChoice(choice, file.path).edited !== "no")) return t("Apply as edited");
  if (files.length > 1) return t("Accept all");
  if (first.movedFrom) return t("Move file");
  return { create: t("Create file"), update: t("Apply"), delete: t("Delete file") }[first.kind];
}

const VERBS: Readonly<Record<string, string>> = { bash: t("Run"), webfetch: t("Fetch"), task: t("Start"), doom_loop: t("Let it continue") };

/** What is written on the button that rejects. */
export function rejectLabel({ permission }: Pick<PermissionRequest, "permission">): string {
  return permission === "doom_loop" ? t("Stop") : t("Reject");
}

/** Nothing is left to write: that is what Reject is for. */
export function isEmpty(files: readonly FileDiff[], choice: Choice): boolean {
  return files.length > 0 && files.every((file) => chosen(file, choice) === 0);
}

/** Accepts or leaves out one hunk, or with `hunk` undefined the whole file. */
export function choose(choice: Choice, file: FileDiff, hunk: number | undefined, accepted: boolean): Choice {
  const before = fileChoice(choice, file.path);
  if (hunk !== undefined && (before.edited !== "no" || hunk < 0 || hunk >= units(file))) return choice;
  if (hunk === undefined && before.edited !== "no") return withFile(choice, file.path, { ...before, out: !accepted });
  const numbers = hunk === undefined ? [...Array(units(file)).keys()] : [hunk];
  const others = before.left.filter((one) => !numbers.includes(one));
  const left = accepted ? others : [...others, ...numbers].sort((a, b) => a - b);
  return withFile(choice, file.path, { ...before, left });
}

/** Takes note of what the person did to the text. Who begins to edit a file wants it. */
export function edit(choice: Choice, path: string, edited: FileChoice["edited"], own?: FileDiff): Choice {
  const before = fileChoice(choice, path);
  if (before.edited === edited && before.own?.diff === own?.diff) return choice;
  return withFile(choice, path, { ...before, edited, own, out: before.edited !== "no" && edited !== "no" && before.out });
}

function withFile(choice: Choice, path: string, file: FileChoice): Choice {
  return { files: { ...choice.files, [path]: file }, error: "" };
}

/** The answers to send with an acceptance: only for files that are not accepted as they are. */
export function answers(files: readonly FileDiff[], choice: Choice, texts: ReadonlyMap<string, string>): FileAnswer[] {
  return files.flatMap((file): FileAnswer[] => {
    const { path } = file;
    const { left } = fileChoice(choice, path);
    const count = chosen(file, choice);
    const text = texts.get(path);
    if (count === 0) return [{ path, hunks: [] }];
    if (text !== undefined) return [{ path, text }];
    if (left.length === 0) return [];
    return [{ path, hunks: [...Array(units(file)).keys()].filter((hunk) => !left.includes(hunk)) }];
  });
}

/** `before` with the hunks that are not left out: what would be written. Line ends stay those of the two texts. */
export function selected(before: string, after: string, hunks: readonly Hunk[], left: readonly number[]): string {
  if (left.length === 0) return after;
  if (left.length >= Math.max(hunks.length, 1)) return before;
  const [old, fresh] = [lines(before), lines(after)];
  let out = "";
  let at = 0;
  hunks.forEach((hunk, number) => {
    const start = hunk.oldLines === 0 ? hunk.oldStart : hunk.oldStart - 1;
    const from = hunk.newLines === 0 ? hunk.newStart : hunk.newStart - 1;
    const end = start + hunk.oldLines;
    out += old.slice(at, start).join("");
    out += (left.includes(number) ? old.slice(start, end) : fresh.slice(from, from + hunk.newLines)).join("");
    at = end;
  });
  return out + old.slice(at).join("");
}

function lines(text: string): string[] {
  return text.match(/[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$/g) ?? [];
}

/** The two are the same but for line ends and a byte order mark, which the daemon keeps as they are in the file. */
export function sameText(a: string, b: string): boolean {
  return bare(a) === bare(b);
}

function bare(text: string): string {
  return text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n");
}

/** A file's name as shown: where it is, and where it was. */
export function fileLabel({ path, movedFrom }: FileDiff): string {
  return movedFrom ? `${movedFrom} → ${path}` : path;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}
