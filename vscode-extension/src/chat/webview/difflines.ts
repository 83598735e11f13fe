/** A unified diff as lines to show. Pure. */

export interface DiffLine {
  kind: "add" | "remove" | "same" | "gap" | "note";
  /** Number of its hunk, from 0. */
  hunk: number;
  oldLine: number | undefined;
  newLine: number | undefined;
  text: string;
  /** The part that differs from the replaced line: start and end in `text`. */
  changed?: readonly [number, number];
}

/** The next line numbers, and how many lines of the hunk remain. */
interface Position {
  oldLine: number;
  newLine: number;
  oldLeft: number;
  newLeft: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*?)\r?$/;

/** Split a diff into lines. With `heads`, each hunk begins with a `gap` line, even if no lines are omitted before it. */
export function diffLines(diff: string, heads = false): DiffLine[] {
  const lines: DiffLine[] = [];
  const at: Position = { oldLine: 0, newLine: 0, oldLeft: 0, newLeft: 0 };
  let hunks = 0;
  for (const line of rowsOf(diff)) {
    const between = at.oldLeft <= 0 && at.newLeft <= 0;
    const hunk = between ? HUNK.exec(line) : null;
    if (hunk) {
      begin(hunk, at);
      if (hunks++ > 0 || at.oldLine > 1 || heads) lines.push(plain("gap", hunks - 1, hunk[5] ?? ""));
    } else if (line.startsWith("\\")) {
      lines.push(plain("note", hunks - 1, line.slice(1).trim()));
    } else if (!between) {
      // Skip the headers between hunks: the file name is above the diff.
      lines.push(content(line, hunks - 1, at));
    }
  }
  markChanges(lines);
  return lines;
}

/** Split a diff into rows. A uniform CRLF is removed; mixed line endings are kept, because they may be the change. */
function rowsOf(diff: string): string[] {
  const rows = diff.split("\n");
  const usual = rows.filter((row) => /^[-+ ](?!-- |\+\+ )/.test(row)).every((row) => row.endsWith("\r"));
  return usual ? rows.map((row) => row.replace(/\r$/, "")) : rows;
}

function begin(hunk: RegExpExecArray, at: Position): void {
  [at.oldLine, at.newLine] = [Number(hunk[1]), Number(hunk[3])];
  [at.oldLeft, at.newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
}

/** Parse a line of a hunk and advance `at`. */
function content(line: string, hunk: number, at: Position): DiffLine {
  const text = line.slice(1);
  if (line.startsWith("+")) {
    at.newLeft--;
    return { kind: "add", hunk, oldLine: undefined, newLine: at.newLine++, text };
  }
  at.oldLeft--;
  if (line.startsWith("-")) return { kind: "remove", hunk, oldLine: at.oldLine++, newLine: undefined, text };
  at.newLeft--;
  return { kind: "same", hunk, oldLine: at.oldLine++, newLine: at.newLine++, text };
}

function plain(kind: "gap" | "note", hunk: number, text: string): DiffLine {
  return { kind, hunk, oldLine: undefined, newLine: undefined, text };
}

/** Mark the changed middle of lines that replace each other one by one. */
function markChanges(lines: DiffLine[]): void {
  for (let at = 0; at < lines.length; ) {
    const removed = run(lines, at, "remove");
    const added = run(lines, at + removed, "add");
    if (removed > 0 && removed === added) {
      for (let n = 0; n < removed; n++) markPair(lines[at + n], lines[at + removed + n]);
    }
    at += removed + added || 1;
  }
}

function run(lines: DiffLine[], from: number, kind: DiffLine["kind"]): number {
  let count = 0;
  while (lines[from + count]?.kind === kind) count++;
  return count;
}

function markPair(before: DiffLine | undefined, after: DiffLine | undefined): void {
  if (!before || !after) return;
  const [a, b] = [before.text, after.text];
  const most = Math.min(a.length, b.length);
  let head = 0;
  while (head < most && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  // Lines with little in common are not worth marking.
  if (head + tail < most * 0.4) return;
  if (a.length - tail > head) before.changed = [head, a.length - tail];
  if (b.length - tail > head) after.changed = [head, b.length - tail];
}

/** Count the added and removed lines of the hunks that are not left out. */
export function kept({ diff }: { diff: string }, out: readonly number[]): { added: number; removed: number } {
  const lines = diffLines(diff, true).filter(({ hunk }) => hunk === undefined || !out.includes(hunk));
  return { added: lines.filter(({ kind }) => kind === "add").length, removed: lines.filter(({ kind }) => kind === "remove").length };
}
