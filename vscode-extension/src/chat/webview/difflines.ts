/** A unified diff as lines to show. Pure. */

export interface DiffLine {
  kind: "add" | "remove" | "same" | "gap" | "note";
  /** Number of the hunk it belongs to, from 0. */
  hunk: number;
  oldLine: number | undefined;
  newLine: number | undefined;
  text: string;
  /** What differs from the line it replaces: start and end in `text`. */
  changed?: readonly [number, number];
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

/** `heads`: each hunk begins with a line of its own (a `gap`), also where nothing is left out before it. */
export function diffLines(diff: string, heads = false): DiffLine[] {
  const lines: DiffLine[] = [];
  let [oldLine, newLine, oldLeft, newLeft] = [0, 0, 0, 0];
  let hunks = 0;
  const rows = diff.split("\n");
  // The usual line ends of a file are no news, but where they differ they may be the change itself.
  const content = rows.filter((row) => /^[-+ ](?!-- |\+\+ )/.test(row));
  const usual = content.every((row) => row.endsWith("\r"));
  for (const raw of rows) {
    const bare = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
    const line = usual ? bare : raw;
    const hunk = oldLeft <= 0 && newLeft <= 0 ? HUNK.exec(bare) : null;
    if (hunk) {
      [oldLine, newLine] = [Number(hunk[1]), Number(hunk[3])];
      [oldLeft, newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      if (hunks++ > 0 || oldLine > 1 || heads) lines.push(plain("gap", hunks - 1, hunk[5] ?? ""));
    } else if (line.startsWith("\\")) {
      lines.push(plain("note", hunks - 1, line.slice(1).trim()));
    } else if (oldLeft <= 0 && newLeft <= 0) {
      // Headers: the file's name stands above the diff.
    } else if (line.startsWith("+")) {
      lines.push({ kind: "add", hunk: hunks - 1, oldLine: undefined, newLine: newLine++, text: line.slice(1) });
      newLeft--;
    } else if (line.startsWith("-")) {
      lines.push({ kind: "remove", hunk: hunks - 1, oldLine: oldLine++, newLine: undefined, text: line.slice(1) });
      oldLeft--;
    } else {
      lines.push({ kind: "same", hunk: hunks - 1, oldLine: oldLine++, newLine: newLine++, text: line.slice(1) });
      oldLeft--;
      newLeft--;
    }
  }
  markChanges(lines);
  return lines;
}

function plain(kind: "gap" | "note", hunk: number, text: string): DiffLine {
  return { kind, hunk, oldLine: undefined, newLine: undefined, text };
}

/** Marks the changed middle of lines that replace each other one for one. */
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
  // Lines with little in common are simply two lines.
  if (head + tail < most * 0.4) return;
  if (a.length - tail > head) before.changed = [head, a.length - tail];
  if (b.length - tail > head) after.changed = [head, b.length - tail];
}

/** Lines added and removed by the hunks of a diff that are not left out. */
export function kept({ diff }: { diff: string }, out: readonly number[]): { added: number; removed: number } {
  const lines = diffLines(diff, true).filter(({ hunk }) => hunk === undefined || !out.includes(hunk));
  return { added: lines.filter(({ kind }) => kind === "add").length, removed: lines.filter(({ kind }) => kind === "remove").length };
}
