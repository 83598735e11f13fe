/** What `read`, `grep` and `glob` found, for a person: their results are written for the model. Pure. */

export interface Listing {
  /** Number of the first line. */
  first: number;
  code: string;
  /** What else the result says, such as that the file is not shown to its end. */
  notes: string[];
}

export interface Hit {
  line: number;
  text: string;
}

/** Files with their hits; a file without any was found by its name. */
export interface Found {
  files: { path: string; hits: Hit[] }[];
  notes: string[];
}

const NUMBERED = /^(\d+)→(.*)$/;
/** What `grep` says behind the name of a file. */
const REMARK = / \(as (?:in the editor|on disk)[^()]*\)$/;

/** The lines of a file without the numbers before them; undefined for what is no file's text. */
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

/** Files and lines that a search has found; undefined when it found nothing. `tool`: `grep`, or `glob`, which finds names. */
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

/** What is left of the other lines without brackets and advice for the model. */
function notes(lines: readonly string[]): string[] {
  const advice = / (?:Go on with offset=\d+|Narrow the search|Use a narrower pattern)\.$/;
  return lines.map((line) => line.trim().replace(/^\((.*)\)$/, "$1").replace(advice, "")).filter(Boolean);
}
