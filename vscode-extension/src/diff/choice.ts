/** The user's choices in a proposal: hunks, whole files, edited text. Pure: the host uses them to answer, the webview to show them. */
import type { FileAnswer, FileDiff, PermissionRequest, ShownHunk } from "../protocol.gen";
import { t } from "../l10n";

export interface FileChoice {
  /** Numbers of the rejected hunks, ascending. A file without separate hunks is one unit with number 0. */
  left: readonly number[];
  /** State of the user's edits of the proposed text. `nothing`: the edited text equals the current file. */
  edited: "no" | "text" | "nothing";
  /** True when an edited file is left out; without edits, see `left`. */
  out: boolean;
  /** The file's diff with the edited text; missing when the daemon could not compute it. */
  own?: FileDiff | undefined;
  /** Numbers of the hunks that the user decided separately, while others of the request are open. */
  decided?: readonly number[];
}

export interface Choice {
  /** Choices by path; files without one are accepted as proposed. */
  files: Readonly<Record<string, FileChoice>>;
  /** The error if the daemon rejected the last answer. */
  error: string;
}

export const ALL: Choice = { files: {}, error: "" };
const WHOLE: FileChoice = { left: [], edited: "no", out: false };

/** Return the number of separately acceptable parts of a file; 1: only the whole file, for example when its diff was truncated. */
export function units(file: FileDiff): number {
  // Older daemons do not send `shownHunks`.
  return file.hunks > 1 && file.shownHunks?.length === file.hunks ? file.hunks : 1;
}

export function fileChoice(choice: Choice, path: string): FileChoice {
  return choice.files[path] ?? WHOLE;
}

/** Return the requests that are reviewed as one change: all edits of one session in one step. */
export function together(request: PermissionRequest, pending: readonly PermissionRequest[]): readonly PermissionRequest[] {
  if (request.files.length === 0) return [request];
  return pending.filter(({ branchId, files, permission }) => files.length > 0 && branchId === request.branchId && permission === request.permission);
}

/** Return the number of units of a file that would be written. */
export function chosen(file: FileDiff, choice: Choice): number {
  const { left, edited, out } = fileChoice(choice, file.path);
  if (edited === "no") return units(file) - left.length;
  return out || edited === "nothing" ? 0 : units(file);
}

/** Return the label of the button that approves a request. */
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

/** Return the label of the button that rejects a request. */
export function rejectLabel({ permission }: Pick<PermissionRequest, "permission">): string {
  return permission === "doom_loop" ? t("Stop") : t("Reject");
}

/** Return true if nothing would be written, so that only Reject makes sense. */
export function isEmpty(files: readonly FileDiff[], choice: Choice): boolean {
  return files.length > 0 && files.every((file) => chosen(file, choice) === 0);
}

/** Accept or leave out one hunk, or the whole file with `hunk` undefined. */
export function choose(choice: Choice, file: FileDiff, hunk: number | undefined, accepted: boolean): Choice {
  const before = fileChoice(choice, file.path);
  if (hunk !== undefined && (before.edited !== "no" || hunk < 0 || hunk >= units(file))) return choice;
  if (hunk === undefined && before.edited !== "no") return withFile(choice, file.path, { ...before, out: !accepted });
  const numbers = hunk === undefined ? [...Array(units(file)).keys()] : [hunk];
  const others = before.left.filter((one) => !numbers.includes(one));
  const left = accepted ? others : [...others, ...numbers].sort((a, b) => a - b);
  return withFile(choice, file.path, { ...before, left });
}

/** Record that the user decided a hunk separately; `choose` has recorded how. */
export function decide(choice: Choice, path: string, hunk: number): Choice {
  const before = fileChoice(choice, path);
  return withFile(choice, path, { ...before, decided: [...new Set([...(before.decided ?? []), hunk])] });
}

/**
 * Return whether a hunk is accepted; undefined when it is undecided. Hunks left out on the card count as rejected, all
 * others as undecided.
 */
export function decision(choice: Choice, path: string, hunk: number): boolean | undefined {
  const { left, out, decided } = fileChoice(choice, path);
  if (out || left.includes(hunk)) return false;
  return decided?.includes(hunk) ? true : undefined;
}

/** Return the undecided hunks of these files. */
export function undecided(files: readonly FileDiff[], choice: Choice): { path: string; hunk: number }[] {
  return files.flatMap((file) =>
    [...Array(units(file)).keys()]
      .filter((hunk) => decision(choice, file.path, hunk) === undefined)
      .map((hunk) => ({ path: file.path, hunk })),
  );
}

/** Return true if the user decides parts of the request separately, and has decided all of this file. */
export function isDecided(file: FileDiff, choice: Choice): boolean {
  return Object.values(choice.files).some(({ decided }) => decided !== undefined) && undecided([file], choice).length === 0;
}

/** Record the user's edits. Starting to edit a file that was left out includes it again. */
export function edit(choice: Choice, path: string, edited: FileChoice["edited"], own?: FileDiff): Choice {
  const before = fileChoice(choice, path);
  if (before.edited === edited && before.own?.diff === own?.diff) return choice;
  return withFile(choice, path, { ...before, edited, own, out: before.edited !== "no" && edited !== "no" && before.out });
}

function withFile(choice: Choice, path: string, file: FileChoice): Choice {
  return { files: { ...choice.files, [path]: file }, error: "" };
}

/** Build the answers for an approval; files accepted as proposed need none. */
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

/** Return `before` with the accepted hunks applied, as it would be written. Line endings stay those of the two texts. */
export function selected(before: string, after: string, hunks: readonly ShownHunk[], left: readonly number[]): string {
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

/** Return true if two texts differ at most in line endings and byte order mark, which the daemon keeps as in the file. */
export function sameText(a: string, b: string): boolean {
  return bare(a) === bare(b);
}

function bare(text: string): string {
  return text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n");
}

/** Format a file's name: its path, and its old path if it moved. */
export function fileLabel({ path, movedFrom }: FileDiff): string {
  return movedFrom ? `${movedFrom} → ${path}` : path;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}
