/** Update the daemon's code lenses with the user's decisions. Pure: independent of VS Code. */
import type { FileDiff } from "../protocol.gen";
import { decision, undecided, units, type Choice } from "../diff/choice";
import { plural, t } from "../l10n";

export const ACCEPT_HUNK = "goalwright.acceptHunk";
export const REJECT_HUNK = "goalwright.rejectHunk";
export const ACCEPT_CHANGES = "goalwright.acceptChanges";
export const REJECT_CHANGES = "goalwright.rejectChanges";
export const SHOW_CHANGES = "goalwright.showChanges";

/** The subject of a lens; without a path: all files of the request. */
export interface Target {
  requestId: string;
  path?: string;
  hunk?: number;
}

function hunkTitle(command: string, title: string, accepted: boolean | undefined): string | undefined {
  if (accepted === undefined) return title;
  if (accepted) return command === REJECT_HUNK ? t("Accepted (reject instead)") : undefined;
  return command === ACCEPT_HUNK ? t("Rejected (accept instead)") : undefined;
}

/** Return the lens title after the decisions, or undefined to hide the lens. */
export function lensTitle(command: string, title: string, target: Target, files: readonly FileDiff[], choice: Choice): string | undefined {
  const { path, hunk } = target;
  if (path !== undefined && hunk !== undefined) return hunkTitle(command, title, decision(choice, path, hunk));
  if (command !== ACCEPT_CHANGES && command !== REJECT_CHANGES) return title;
  const about = path === undefined ? files : files.filter((file) => file.path === path);
  const left = undecided(about, choice).length;
  if (left === about.reduce((sum, file) => sum + units(file), 0)) return title;
  if (left === 0) return undefined;
  return command === ACCEPT_CHANGES
    ? plural(left, "Accept the other change", "Accept the other {0} changes")
    : plural(left, "Reject the other change", "Reject the other {0} changes");
}
