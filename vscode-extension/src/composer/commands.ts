import type { CommandInfo } from "../protocol.gen";
import type { Completion } from "./text";
import { t } from "../l10n";

interface BuiltIn {
  name: string;
  detail: string;
  /** The VS Code command to run. */
  command?: string;
  /** Build the prompt from the words after the command. */
  prompt?: (words: string) => string;
  /** True when the command needs words after it. */
  needsWords?: boolean;
  /** True when the VS Code command acts at once and takes no words. */
  wordless?: boolean;
  /** The context to attach. */
  mention?: string;
}

/** The built-in commands. */
export const BUILT_INS: readonly BuiltIn[] = [
  { name: "plan", detail: t("Plan a task first, without changing files"), prompt: (words) => `@plan ${words}`, needsWords: true },
  { name: "explore", detail: t("Try several approaches in parallel and compare them"), prompt: (words) => t("Explore several approaches to this in parallel branches, and compare them: {0}", words), needsWords: true },
  { name: "review", detail: t("Review the uncommitted changes"), prompt: (words) => [t("Review my uncommitted changes. Look for bugs, missing tests and unclear code. Change nothing."), words].filter(Boolean).join(" "), mention: "changes" },
  { name: "new", detail: t("Start a new session"), command: "newSession" },
  { name: "fork", detail: t("Start a new session with this conversation"), command: "forkSession", wordless: true },
  { name: "compact", detail: t("Summarize the conversation to free context"), command: "compact" },
  { name: "undo", detail: t("Undo the last file change"), command: "undoChange", wordless: true },
  { name: "model", detail: t("Choose the model"), command: "chooseModel" },
  { name: "agent", detail: t("Choose the agent of this session"), command: "chooseAgent" },
  { name: "mode", detail: t("Choose what runs without asking"), command: "setMode" },
  { name: "budget", detail: t("Limit what the session may cost"), command: "setBudget" },
];

/** Return the user's own commands and skills, as the daemon finds them; built-in commands take precedence. */
export function ownCommands(found: readonly CommandInfo[]): CommandInfo[] {
  const known = new Set(BUILT_INS.map(({ name }) => name));
  return found.filter(({ name }) => !known.has(name));
}

/** Return completions for the text after `/`. */
export function commandRows(query: string, own: readonly CommandInfo[]): Completion[] {
  const lower = query.toLowerCase();
  const shipped = BUILT_INS.map(({ name, detail, prompt }): Completion => ({ kind: "command", label: `/${name}`, detail, insert: `/${name} `, ...(prompt ? {} : { send: true }) }));
  // Prompts of MCP servers have long names: the letters of the prompt's own name find them, too.
  const serverPrompts = new Map(own.filter(({ kind }) => kind === "mcp").map(({ name }) => [`/${name}`, name.toLowerCase()]));
  const theirs = own.map(({ name, description, hint, arguments: takes }): Completion => ({ kind: "prompt", label: `/${name}`, detail: [hint, description].filter(Boolean).join(" "), insert: `/${name} `, ...(takes ? {} : { send: true }) }));
  const begins = ({ label }: Completion): boolean => label.slice(1).toLowerCase().startsWith(lower);
  const fitting = [...shipped, ...theirs].filter((row) => begins(row) || serverPrompts.get(row.label)?.includes(lower) === true);
  // Enter chooses the first row: an exact match goes before longer names.
  const fit = (row: Completion): number => (row.label.length === lower.length + 1 ? 0 : begins(row) ? 1 : 2);
  return fitting.sort((one, other) => fit(one) - fit(other));
}

export type Slash =
  | { kind: "command"; command: string; words: string }
  | { kind: "prompt"; text: string; mention?: string }
  | { kind: "problem"; text: string };

/** Resolve a slash command; undefined when the text is an ordinary prompt, or a command that the daemon resolves. */
export function slash(name: string, words: string, own: readonly CommandInfo[]): Slash | undefined {
  const shipped = BUILT_INS.find((one) => one.name === name);
  if (shipped?.needsWords && !words) return { kind: "problem", text: t("Write the task after /{0}.", name) };
  if (shipped?.prompt) return { kind: "prompt", text: shipped.prompt(words), ...(shipped.mention ? { mention: shipped.mention } : {}) };
  if (shipped?.wordless && words) return { kind: "problem", text: t("/{0} takes no text. Remove the text, or begin it with another word.", name) };
  if (shipped?.command) return { kind: "command", command: shipped.command, words };
  if (own.some((one) => one.name.toLowerCase() === name)) return undefined;
  // A single word after a slash is a mistyped command; more words may be a sentence that begins with a path.
  return words ? undefined : { kind: "problem", text: t("There is no command /{0}. Type / to see all commands.", name) };
}
