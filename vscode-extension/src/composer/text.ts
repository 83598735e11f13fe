/** Parsing of the composer's text: mentions, commands, earlier prompts. Pure. */
import type { Part } from "../protocol.gen";
import type { Attachment } from "../session/controller";
import type { Item } from "../session/state";
import { t } from "../l10n";

/** A row of the completion list. */
export interface Completion {
  kind: "file" | "folder" | "symbol" | "context" | "goal" | "session" | "agent" | "command" | "prompt" | "resource";
  label: string;
  detail: string;
  /** Text that replaces the typed text. */
  insert: string;
  /** Key of the attachment, see `ComposerHost.mention`. */
  mention?: string;
  /** True when the row only starts a mention, so the list continues with what can follow. */
  leads?: boolean;
  /** True when the row needs no further words, so choosing it sends it. */
  send?: boolean;
}

/** The text being typed at the caret: `@` for a mention, `/` for a command. */
export interface Token {
  sign: "@" | "/";
  start: number;
  query: string;
}

/** The media type of a file that is only named, because it is open in the editor (see `OPEN_FILE` of the daemon). */
export const OPEN_FILE = "text/x-open-file";

export function tokenAt(text: string, caret: number): Token | null {
  const before = text.slice(0, caret);
  const command = /^\/([\w.:-]*)$/.exec(before);
  if (command) return { sign: "/", start: 0, query: command[1] ?? "" };
  // Titles of goals and sessions contain spaces; other mentions end at a space.
  const mention = /(?:^|[\s(])@((?:goal|session) [^\n@]{0,60}|[^\s@]*)$/i.exec(before);
  const query = mention?.[1] ?? "";
  return mention ? { sign: "@", start: before.length - query.length - 1, query } : null;
}

/** Largest number of mentions. More than that is pasted code, and the daemon accepts no more attachments. */
const MOST_NAMED = 20;
/** Kinds of context that a single word names. */
export const CONTEXTS = ["problems", "selection", "terminal", "changes"] as const;

/** A mention of a resource of an MCP server, `server:uri`. The daemon reads it; no file of this name is meant. */
const RESOURCE = /^[\w.-]+:[a-z][a-z0-9+.-]*:\S/i;

/** Return true for the name of an attachment that an MCP server sent: a prompt or a resource. */
export function ofServer(name: string): boolean {
  return name.startsWith("/mcp__") || RESOURCE.test(name);
}

/** A complete mention in a text. `key`: the attachment for the host. `end`: its end in the text. */
export interface Named {
  mention: string;
  key: string;
  end: number;
}

/** Find complete `@` mentions: `@src/a.py`, `@src/a.py:3-9`, `@docs/`, `@problems`. The host checks that the files exist. */
export function namedIn(text: string): Named[] {
  const found = new Map<string, Named>();
  for (const match of text.matchAll(/(?<=^|[\s([{'"])@([^\s"@]+)/g)) {
    const name = (match[1] ?? "").replace(/[.,;:!?)\]}'`]+$/, "");
    const mention = `@${name}`;
    if (!name || RESOURCE.test(name) || found.has(mention)) continue;
    const kind = /:\d+(-\d+)?$/.test(name) ? "lines" : name.endsWith("/") ? "folder" : "file";
    found.set(mention, { mention, key: (CONTEXTS as readonly string[]).includes(name) ? name : `${kind}:${name}`, end: match.index + mention.length });
  }
  return [...found.values()].slice(0, MOST_NAMED);
}

/** Remove a mention that could not be resolved. */
export function withoutMention(text: string, mention: string): string {
  for (let at = text.indexOf(mention); at >= 0; at = text.indexOf(mention, at + 1)) {
    const rest = text.slice(at + mention.length);
    // A longer name that begins in the same way is another mention.
    if (!/^[./\\:-]*[\p{L}\p{N}_]/u.test(rest)) return text.slice(0, at) + rest.replace(/^ /, "");
  }
  return text;
}

/** Insert a chosen row; returns the text and the caret's position. */
export function completed(text: string, caret: number, token: Token, insert: string): { text: string; caret: number } {
  const rest = text.slice(caret).replace(/^ /, "");
  return { text: text.slice(0, token.start) + insert + rest, caret: token.start + insert.length };
}

/** Split `/name and the rest`; undefined for other text, including a path such as `/etc/hosts`. */
export function slashOf(text: string): { name: string; rest: string } | undefined {
  const match = /^\/([a-z0-9][\w.:-]*)(?:\s+([^]*))?$/i.exec(text.trim());
  return match ? { name: (match[1] ?? "").toLowerCase(), rest: (match[2] ?? "").trim() } : undefined;
}

/** Convert a user message back to its prompt: a command as it was typed. */
export function promptOf(content: readonly Part[]): { text: string; attachments: Attachment[] } {
  const attachments = content.filter((part) => part.type === "file");
  const command = content.find((part) => part.type === "command");
  if (command) return { text: command.text, attachments };
  const words = content.map((part) => (part.type === "text" ? part.text : part.type === "subtask" ? `@${part.agent} ${part.prompt}` : part.type === "agent" ? `@${part.agent} ` : ""));
  return { text: words.join("").trim(), attachments };
}

/** Return the prompts of a session, newest first. */
function* promptsBack(items: readonly Item[]): Generator<{ key: string; text: string; attachments: Attachment[] }> {
  for (const item of items.toReversed()) {
    if (item.kind === "message" && item.message.role === "user") yield { key: item.key, ...promptOf(item.message.content) };
  }
}

/** Return the last user prompt; undefined when there is none among these items. */
export function lastPrompt(items: readonly Item[]): { key: string; text: string; attachments: Attachment[] } | undefined {
  for (const prompt of promptsBack(items)) if (prompt.text || prompt.attachments.length > 0) return prompt;
  return undefined;
}

/** Return the user's own prompts of a session, newest first, without duplicates. */
export function promptsOf(items: readonly Item[]): string[] {
  return [...new Set([...promptsBack(items)].map(({ text }) => text).filter((text) => text && handedLine(text) === undefined))];
}

/** Return paths that match the query, best first. `recent`: paths of open tabs, the active one first. */
export function ranked(paths: readonly string[], query: string, recent: readonly string[], most: number): string[] {
  const wanted = query.toLowerCase();
  const open = new Map(recent.map((path, index) => [path, index]));
  return paths
    .map((path) => ({ path, fit: fitOf(path.toLowerCase(), wanted), open: open.get(path) ?? recent.length }))
    .filter(({ fit }) => fit >= 0)
    .sort((a, b) => a.fit - b.fit || a.open - b.open || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
    .slice(0, most)
    .map(({ path }) => path);
}

/** Rank how well a path matches: 0 is best, -1 is no match. */
export function fitOf(path: string, wanted: string): number {
  if (!wanted) return 0;
  const name = path.replace(/\/$/, "").split("/").at(-1) ?? path;
  if (name.startsWith(wanted) || path.startsWith(wanted)) return 0;
  if (name.includes(wanted)) return 1;
  if (path.includes(wanted)) return 2;
  let at = 0;
  for (const letter of path) if (letter === wanted[at]) at++;
  return at === wanted.length ? 3 : -1;
}

/** Return all folders that contain these files, each with a trailing slash. */
export function foldersOf(files: readonly string[]): string[] {
  const found = new Set<string>();
  for (const file of files) {
    for (let at = file.indexOf("/"); at >= 0; at = file.indexOf("/", at + 1)) found.add(file.slice(0, at + 1));
  }
  return [...found];
}

/** Limit a text to `most` characters; the name shows the cut. `end`: the end to keep. */
export function limited(name: string, text: string, most: number, end: "first" | "last"): { name: string; text: string } {
  if (text.length <= most) return { name, text };
  const kept = end === "first" ? text.slice(0, most) : text.slice(-most);
  return { name: `${name} (${end} ${Math.round(most / 1024)} KB)`, text: kept };
}

const PROBLEMS = /^(Fix|Explain) (?:this problem|these (\d+) problems) in @([^\n]+?)\.(?: Change nothing\.)?\n\n> /;
const PLACE = /^Explain the code in @([^\n]+)\. Change nothing\.\n\nThe file/;
const QUESTION = /^(\S[^]*?)\n\nThis is about @([^\n]+)\.\n\nThe file/;
/** The common end of such prompts (see `lsp_bridge/server/editor/prompts.py`). */
const TAIL = /\n\nThe file(?: as it is in the editor|'s text is not quoted here)[^]*$/;
const SAID = /^> \w+(?: in line \d+)?(?: \([^\n]*?\))?: ([^\n]*)$/m;

/** The first prompt of a branch (see `daemon/explore/branch_notes.py`). */
const BRANCH = /(?:^|\n)# You are branch (\S+)\n[^]*?\*\*Your direction\*\*: ([^\n]+)/;

/** Summarize the request in one line; undefined when the user wrote the text. */
export function handedLine(text: string): string | undefined {
  const branch = BRANCH.exec(text);
  if (branch) return t("Branch {0}: {1}", branch[1] ?? "", branch[2] ?? "");
  if (!TAIL.test(text)) return undefined;
  const problems = PROBLEMS.exec(text);
  if (problems) {
    const [, verb, many, place = ""] = problems;
    const what = many === undefined ? (SAID.exec(text)?.[1] ?? t("a problem")) : t("{0} problems", many);
    return verb === "Fix" ? t("Fix: {0} — {1}", what, place) : t("Explain: {0} — {1}", what, place);
  }
  const place = PLACE.exec(text);
  if (place) return t("Explain: {0}", place[1] ?? "");
  const question = QUESTION.exec(text);
  return question ? `${question[1]} — ${question[2]}` : undefined;
}
