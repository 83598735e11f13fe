/** Texts about undo, redo and restore, and the changes of the last turn. Pure. */
import { filesWord } from "../amounts";
import type { FileDiff, FilesRestored, HistoryChange, HistoryOutcome, RestoredFile } from "../protocol.gen";
import type { Item } from "../session/state";
import { plural, t } from "../l10n";

type Counted = RestoredFile & Partial<Pick<FileDiff, "movedFrom">>;

/** Longest list of names; further ones are only counted. */
const MOST_NAMES = 15;

/** Count the changed lines of all files. */
export function lineCounts(files: readonly Pick<Counted, "added" | "removed">[]): { added: number; removed: number } {
  return files.reduce((sum, file) => ({ added: sum.added + file.added, removed: sum.removed + file.removed }), { added: 0, removed: 0 });
}

/** Format the changed lines of all files: `+3 −1`. */
export function counts(files: readonly Counted[]): string {
  const { added, removed } = lineCounts(files);
  return `+${added} −${removed}`;
}

const RESTORED: Readonly<Record<FilesRestored["action"], (what: string) => string>> = {
  undo: (what) => t("You undid {0}", what),
  redo: (what) => t("You redid {0}", what),
  restore: (what) => t("Reverted {0}", what),
};

/** Return the line for the transcript: `You undid edit of src/a.py (+1 −2)`. */
export function restoredLine({ action, target, files }: Pick<FilesRestored, "action" | "target" | "files">): string {
  const about = targetWords(target) || t("changes of {0}", filesWord(files.length));
  const what = files.length > 0 ? `${about} (${counts(files)})` : about;
  return RESTORED[action](what);
}

/**
 * Translate the target of an undo, which the daemon stores in English: `edit of src/a.py`, `2 changes since message 7`,
 * `3 changes for the goal x`.
 */
function targetWords(target: string): string {
  const [, count = "", since, goal] = /^(\d+) changes? (?:(since message \d+)|for the goal (.+))$/.exec(target) ?? [];
  // Message numbers mean nothing to users.
  if (since) return plural(Number(count), "{0} change", "{0} changes");
  if (goal) return plural(Number(count), "{0} change for the goal {1}", "{0} changes for the goal {1}", count, goal);
  const [, tool, files] = /^(\w+) of (.+)$/.exec(target) ?? [];
  return tool && files ? changeOf(tool, files) : target;
}

/** Describe the effect on one file: `src/a.py  +1 −2`. */
export function fileLine({ path, kind, added, removed, movedFrom }: Counted): string {
  if (movedFrom) return `${movedFrom} → ${path}`;
  const what = { create: t("will be restored"), update: `+${added} −${removed}`, delete: t("will be deleted") }[kind];
  return `${path}  ${what}`;
}

/** Describe the effect on all files, one per line, for a confirmation. */
export function fileLines(files: readonly Counted[]): string {
  const shown = files.slice(0, MOST_NAMES).map(fileLine);
  const more = files.length - shown.length;
  return [...shown, ...(more > 0 ? [t("… and {0} more", more)] : [])].join("\n");
}

/** Return the details of the confirmation before a restore. */
export function consequences({ files }: Pick<HistoryOutcome, "files">): string {
  return `${fileLines(files)}\n\n${t("Reverts only Goalwright's edits; yours are kept. Each change can be redone.")}`;
}

/** Name a change: `edit of src/a.py`, `patch of 3 files`. */
export function changeLabel({ tool, files }: Pick<HistoryChange, "tool" | "files">): string {
  const [file] = files;
  return changeOf(tool, files.length === 1 && file ? file.path : filesWord(files.length));
}

const CHANGES: Readonly<Record<string, (what: string) => string>> = {
  edit: (what) => t("edit of {0}", what),
  write: (what) => t("write of {0}", what),
  patch: (what) => t("patch of {0}", what),
  bash: (what) => t("bash of {0}", what),
};

function changeOf(tool: string, what: string): string {
  return (Object.hasOwn(CHANGES, tool) && CHANGES[tool]?.(what)) || t("{0}: {1}", tool, what);
}

/** Split a message into its first line and the rest, which a dialog shows differently. */
export function headline(message: string): { message: string; detail: string } {
  const [first = "", ...rest] = message.trim().split("\n");
  return { message: first, detail: rest.join("\n").trim() };
}

/** Find the first of these paths in a message, with the line if it has one (`a.py:12`). */
export function named(message: string, paths: readonly string[]): { path: string; line: number | undefined } | undefined {
  let best: { path: string; at: number } | undefined;
  // Longer paths first, because a path may be the end of a longer one.
  for (const path of [...new Set(paths)].sort((a, b) => b.length - a.length)) {
    const at = message.indexOf(path);
    const inside = best && at >= best.at && at < best.at + best.path.length;
    if (at >= 0 && !inside && (!best || at < best.at)) best = { path, at };
  }
  if (!best) return undefined;
  const line = /^:(\d+)/.exec(message.slice(best.at + best.path.length))?.[1];
  return { path: best.path, line: line === undefined ? undefined : Number(line) };
}

/**
 * Return the message that started the last turn, and each file that the turn changed, with the sum of its changed lines;
 * undefined when it changed nothing or everything is undone.
 */
export function turnChanges(items: readonly Item[], changes: Readonly<Record<string, HistoryChange>>) {
  const files = new Map<string, { path: string; added: number; removed: number }>();
  for (const item of items.toReversed()) {
    if (item.kind !== "message") continue;
    const { message } = item;
    if (message.role === "user" && !message.content.some((part) => part.type === "compaction")) {
      return files.size > 0 ? { messageId: message.messageId, files: [...files.values()] } : undefined;
    }
    const applied = message.content.map((part) => (part.type === "tool_call" ? changes[part.id] : undefined)).filter((change) => change?.state === "applied");
    for (const { path, added, removed } of applied.flatMap((change) => change?.files ?? [])) {
      const known = files.get(path);
      files.set(path, { path, added: added + (known?.added ?? 0), removed: removed + (known?.removed ?? 0) });
    }
  }
  return undefined;
}
