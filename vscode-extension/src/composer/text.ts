/** What the composer reads out of its text: mentions, commands, earlier prompts. Pure. */
import { handedLine } from "../chat/handed";
import type { Part } from "../protocol.gen";
import type { Attachment } from "../session/controller";
import type { Item } from "../session/state";

/** A row of the completion list. */
export interface Completion {
  kind: "file" | "folder" | "symbol" | "context" | "goal" | "session" | "agent" | "command" | "prompt";
  label: string;
  detail: string;
  /** What stands in the text in place of what was typed. */
  insert: string;
  /** What the host attaches along with it, see `ComposerHost.mention`. */
  mention?: string;
  /** It only begins a mention: the list goes on with what can follow. */
  leads?: boolean;
  /** It needs no more words: choosing it sends it. */
  send?: boolean;
}

/** What is being typed at the caret: `@` names something, `/` is a command. */
export interface Token {
  sign: "@" | "/";
  start: number;
  query: string;
}

/** The media type of a file that is only named: the editor shows it (see `OPEN_FILE` of the daemon). */
export const OPEN_FILE = "text/x-open-file";

export function tokenAt(text: string, caret: number): Token | null {
  const before = text.slice(0, caret);
  const command = /^\/([\w-]*)$/.exec(before);
  if (command) return { sign: "/", start: 0, query: command[1] ?? "" };
  // Goals and sessions have titles of several words; everything else ends at a blank.
  const mention = /(?:^|[\s(])@((?:goal|session) [^\n@]{0,60}|[^\s@]*)$/i.exec(before);
  const query = mention?.[1] ?? "";
  return mention ? { sign: "@", start: before.length - query.length - 1, query } : null;
}

/** More than these are pasted code, and the daemon takes no more attachments. */
const MOST_NAMED = 20;
/** Kinds of context that are named by one word. */
export const CONTEXTS = ["problems", "selection", "terminal", "changes"] as const;

/** Something that a text names in full. `key`: what the host attaches for it. `end`: where it ends in the text. */
export interface Named {
  mention: string;
  key: string;
  end: number;
}

/** What a text names with `@` as it would be chosen: `@src/a.py`, `@src/a.py:3-9`, `@docs/`, `@problems`. Whether there is such a file, the host knows. */
export function namedIn(text: string): Named[] {
  const found = new Map<string, Named>();
  for (const match of text.matchAll(/(?<=^|[\s([{'"])@([^\s"@]+)/g)) {
    const name = (match[1] ?? "").replace(/[.,;:!?)\]}'`]+$/, "");
    const mention = `@${name}`;
    if (!name || found.has(mention)) continue;
    const kind = /:\d+(-\d+)?$/.test(name) ? "lines" : name.endsWith("/") ? "folder" : "file";
    found.set(mention, { mention, key: (CONTEXTS as readonly string[]).includes(name) ? name : `${kind}:${name}`, end: match.index + mention.length });
  }
  return [...found.values()].slice(0, MOST_NAMED);
}

/** The text without a mention that came to nothing. */
export function withoutMention(text: string, mention: string): string {
  return text.replace(`${mention} `, "").replace(mention, "");
}

/** The text with a chosen row in it, and where the caret goes. */
export function completed(text: string, caret: number, token: Token, insert: string): { text: string; caret: number } {
  const rest = text.slice(caret).replace(/^ /, "");
  return { text: text.slice(0, token.start) + insert + rest, caret: token.start + insert.length };
}

/** `/name and the rest`; undefined when the text is no command. A path such as `/etc/hosts` is none. */
export function slashOf(text: string): { name: string; rest: string } | undefined {
  const match = /^\/([a-z][\w-]*)(?:\s+([^]*))?$/i.exec(text.trim());
  return match ? { name: (match[1] ?? "").toLowerCase(), rest: (match[2] ?? "").trim() } : undefined;
}

/** A prompt file with the words behind its command. */
export function filled(template: string, words: string): string {
  if (template.includes("$ARGUMENTS")) return template.replaceAll("$ARGUMENTS", () => words).trim();
  return [template.trim(), words].filter(Boolean).join("\n\n");
}

/** A prompt file: its description is in the front matter, else its first line. */
export function promptFile(source: string): { description: string; text: string } {
  const head = /^\uFEFF?---\r?\n([^]*?)\r?\n---\r?\n?/.exec(source);
  const text = source.slice(head?.[0].length ?? 0).trim();
  const described = /^description:\s*["']?(.*?)["']?\s*$/m.exec(head?.[1] ?? "")?.[1];
  return { description: described || (text.split("\n", 1)[0] ?? "").replace(/^#+\s*/, ""), text };
}

/** A user message as the prompt that it was. */
export function promptOf(content: readonly Part[]): { text: string; attachments: Attachment[] } {
  const words = content.map((part) => (part.type === "text" ? part.text : part.type === "subtask" ? `@${part.agent} ${part.prompt}` : part.type === "agent" ? `@${part.agent} ` : ""));
  return { text: words.join("").trim(), attachments: content.filter((part) => part.type === "file") };
}

/** The prompt that was worked on last; undefined when there is none among these. */
export function lastPrompt(items: readonly Item[]): { key: string; text: string; attachments: Attachment[] } | undefined {
  for (const item of [...items].reverse()) {
    if (item.kind !== "message" || item.message.role !== "user") continue;
    const prompt = promptOf(item.message.content);
    if (prompt.text || prompt.attachments.length > 0) return { key: item.key, ...prompt };
  }
  return undefined;
}

/** The user's own prompts of a session, the newest first, each once. */
export function promptsOf(items: readonly Item[]): string[] {
  const found = new Set<string>();
  for (const item of [...items].reverse()) {
    if (item.kind !== "message" || item.message.role !== "user") continue;
    const { text } = promptOf(item.message.content);
    if (text && handedLine(text) === undefined) found.add(text);
  }
  return [...found];
}

/** Paths that fit what was typed, the best first. `recent`: paths of open tabs, the active one first. */
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

/** How well a path fits, 0 the best; -1: not at all. */
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

/** The folders that these files are in, with a slash behind them. */
export function foldersOf(files: readonly string[]): string[] {
  const found = new Set<string>();
  for (const file of files) {
    for (let at = file.indexOf("/"); at >= 0; at = file.indexOf("/", at + 1)) found.add(file.slice(0, at + 1));
  }
  return [...found];
}

/** A text that fits, and what to call it: a cut shows in the name. `end`: which end is kept. */
export function limited(name: string, text: string, most: number, end: "first" | "last"): { name: string; text: string } {
  if (text.length <= most) return { name, text };
  const kept = end === "first" ? text.slice(0, most) : text.slice(-most);
  return { name: `${name} (${end} ${Math.round(most / 1024)} KB)`, text: kept };
}
