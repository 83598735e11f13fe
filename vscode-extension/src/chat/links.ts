/** Targets of links in answers, and commands in blocks of shell code. Pure. */

export type Target =
  | { kind: "web"; url: string }
  | { kind: "file"; path: string; line: number | undefined; column: number | undefined }
  | { kind: "none" };

/**
 * Classify a link: an `http(s)` address, or a file of the workspace as models write it: `src/a.py`, `src/a.py:12:3`,
 * `a.py#L12`, `file:///…`. Everything else (`command:`, `javascript:`, `vscode:`, …) has no target.
 */
export function target(href: string): Target {
  const trimmed = href.trim();
  if (/^https?:\/\/[^\s]+$/i.test(trimmed)) return { kind: "web", url: trimmed };
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(trimmed)?.[1]?.toLowerCase();
  // `a.py:12` looks like a scheme, but a real scheme is not followed by digits only.
  const positioned = /:\d+(:\d+)?$/.test(trimmed);
  if (scheme && scheme !== "file" && !(positioned && scheme.includes("."))) return { kind: "none" };
  if (trimmed.startsWith("//") || trimmed.startsWith("#") || trimmed === "") return { kind: "none" };
  let path = scheme === "file" ? trimmed.replace(/^file:(\/\/[^/]*)?/i, "") : trimmed;
  const position = /(?:#L(\d+)(?:C(\d+))?(?:-L?\d+(?:C\d+)?)?|:(\d+)(?::(\d+))?)$/.exec(path);
  if (position) path = path.slice(0, position.index);
  path = path.replace(/[?#].*$/, "");
  try {
    path = decodeURIComponent(path);
  } catch {
    // A lone % is part of the name.
  }
  if (/^\/[a-z]:\//i.test(path)) path = path.slice(1);
  if (!path || path.includes("\0")) return { kind: "none" };
  const number = (digits: string | undefined): number | undefined => (digits === undefined ? undefined : Number(digits));
  return { kind: "file", path, line: number(position?.[1] ?? position?.[3]), column: number(position?.[2] ?? position?.[4]) };
}

/**
 * Extract the commands from a block of shell code. If some lines start with a prompt, only these count, without the
 * prompt. `typeable`: the terminal waits for Enter after the text. A line break or another control character would run it
 * at once.
 */
export function shellCommand(block: string): { text: string; typeable: boolean } {
  const lines = block.replace(/\r\n?/g, "\n").split("\n");
  const prompted = lines.filter((line) => /^\s*\$ /.test(line)).map((line) => line.replace(/^\s*\$ /, ""));
  const text = (prompted.length > 0 ? prompted : lines).join("\n").trim();
  return { text, typeable: !/[\p{Cc}\u2028\u2029]/u.test(text) };
}
