/** Prompts for VS Code's menus. Pure. */
import { t } from "../l10n";

/** Largest part of a test's message in the prompt, in characters. */
const MOST = 8_000;

/** Build a prompt to fix a failed test. The test's output is fenced, because it is data. */
export function failedTest({ name, path, line, message }: { name: string; path: string; line: number | undefined; message: string }): string {
  const where = path && (line === undefined ? `@${path}` : `@${path}:${line}`);
  const about = [name && `\`${name.replaceAll("`", "'")}\``, where && `(${where})`].filter(Boolean).join(" ");
  const text = message.length > MOST ? `${message.slice(0, MOST)}\n…` : message;
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
  const task = t("Fix this failing test: {0}", about || t("the last one"));
  return text.trim() ? `${task}\n\n${fence}\n${text.trim()}\n${fence}` : task;
}
