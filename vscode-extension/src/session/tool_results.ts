/** Results of `read`, `grep` and `glob` for display, parsed from the text for the model. Pure. */

export interface Listing {
  /** Number of the first line. */
  first: number;
  code: string;
  /** Other notes of the result, such as that the file is truncated. */
  notes: string[];
}

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

/** Parse the lines of a file, without their numbers; undefined for other content. */
export function listingOf(content: string): Listing | undefined {
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
