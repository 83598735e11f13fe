/** What the person has decided by code lenses, put onto the lenses that the daemon sends. Pure: no part of VS Code in here. */
import type { FileDiff } from "../protocol.gen";
import { fileChoice, units, type Choice } from "../diff/choice";
import { plural, t } from "../l10n";

export const ACCEPT_HUNK = "goalwright.acceptHunk";
export const REJECT_HUNK = "goalwright.rejectHunk";
export const ACCEPT_CHANGES = "goalwright.acceptChanges";
export const REJECT_CHANGES = "goalwright.rejectChanges";
export const SHOW_CHANGES = "goalwright.showChanges";

/** What a lens is about; without a path: all files of the request. */
export interface Target {
  requestId: string;
  path?: string;
  hunk?: number;
}

/** By request: the parts that were decided, as `part` names them. */
export type Decided = ReadonlySet<string>;

export function part(path: string, hunk: number): string {
  return `${hunk} ${path}`;
}

/** Whether a part is accepted; undefined: not decided. What is left out on the card is decided, what is not is not. */
export function decision(choice: Choice, decided: Decided, path: string, hunk: number): boolean | undefined {
  const { left, out } = fileChoice(choice, path);
  if (out || left.includes(hunk)) return false;
  return decided.has(part(path, hunk)) ? true : undefined;
}

/** The parts of these files that are still to be decided. */
export function undecided(files: readonly FileDiff[], choice: Choice, decided: Decided): { path: string; hunk: number }[] {
  return files.flatMap((file) =>
    [...Array(units(file)).keys()]
      .filter((hunk) => decision(choice, decided, file.path, hunk) === undefined)
      .map((hunk) => ({ path: file.path, hunk })),
  );
}

function hunkTitle(command: string, title: string, accepted: boolean | undefined): string | undefined {
  if (accepted === undefined) return title;
  if (accepted) return command === REJECT_HUNK ? t("Accepted (reject instead)") : undefined;
  return command === ACCEPT_HUNK ? t("Rejected (accept instead)") : undefined;
}

/** The title of a lens after what was decided, or undefined when it is not to be shown. */
export function lensTitle(command: string, title: string, target: Target, files: readonly FileDiff[], choice: Choice, decided: Decided): string | undefined {
  const { path, hunk } = target;
  if (path !== undefined && hunk !== undefined) return hunkTitle(command, title, decision(choice, decided, path, hunk));
  if (command !== ACCEPT_CHANGES && command !== REJECT_CHANGES) return title;
  const about = path === undefined ? files : files.filter((file) => file.path === path);
  const left = undecided(about, choice, decided).length;
  if (left === about.reduce((sum, file) => sum + units(file), 0)) return title;
  if (left === 0) return undefined;
  return command === ACCEPT_CHANGES
    ? plural(left, "Accept the other change", "Accept the other {0} changes")
    : plural(left, "Reject the other change", "Reject the other {0} changes");
}
