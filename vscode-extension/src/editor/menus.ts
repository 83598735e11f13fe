/** Commands for VS Code's menus: editors, the Explorer, terminals, test results, source control. */
import { stat } from "node:fs/promises";
import * as vscode from "vscode";
import type { ChatView } from "../chat/view";
import type { Parts } from "../extension";
import { gitRepository, nameOf, spanOf, type Repository } from "../composer/context";
import { workspaceFolder } from "../daemon/environment";
import type { Daemon } from "../daemon/daemon";
import { t } from "../l10n";

/** Number of recent commit messages that serve as examples of style. */
const RECENT = 10;

export function menuCommands({ daemon, sessions, chat }: Pick<Parts, "daemon" | "sessions" | "chat">): Record<string, (...args: unknown[]) => unknown> {
  return {
    addToChat: () => addSelection(chat),
    // An editor tab passes its own URI; the Explorer passes the whole selection.
    addFile: (uri, chosen) => addFiles(chat, Array.isArray(chosen) && chosen.length > 0 ? chosen : [uri]),
    addTerminal: () => chat.mention("terminal", "@terminal"),
    fixTest: async (argument) => {
      await chat.reveal();
      void sessions.prompt(failedTest(testOf(argument)));
    },
    commitMessage: (control) => commitMessage(daemon, control),
  };
}

/** Mention the active editor's selection, or else its file. */
async function addSelection(chat: ChatView): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) throw new Error(t("Open a file first."));
  const { document, selection } = editor;
  if (selection.isEmpty) return addFiles(chat, [document.uri]);
  const place = `${nameOf(document.uri)}:${spanOf(selection)}`;
  await chat.mention(`lines:${place}`, `@${place}`);
}

/** Mention files and folders. */
async function addFiles(chat: ChatView, uris: readonly unknown[]): Promise<void> {
  for (const uri of uris) {
    if (!(uri instanceof vscode.Uri)) continue;
    const name = nameOf(uri);
    const folder = (await stat(uri.fsPath).catch(() => undefined))?.isDirectory() ?? false;
    await (folder ? chat.mention(`folder:${name}/`, `@${name}/`) : chat.mention(`file:${name}`, `@${name}`));
  }
}

/** Read the test and the message that VS Code passes to a command in a test message's menu. */
function testOf(argument: unknown): { name: string; path: string; line: number | undefined; message: string } {
  const { test, message } = (argument ?? {}) as { test?: vscode.TestItem; message?: vscode.TestMessage };
  const text = typeof message?.message === "string" ? message.message : (message?.message.value ?? "");
  const where = message?.location ?? (test?.uri && test.range ? new vscode.Location(test.uri, test.range) : undefined);
  const uri = where?.uri ?? test?.uri;
  if (!text && !test) throw new Error(t("Choose a failed test in the test results first."));
  return { name: test?.label ?? "", path: uri ? nameOf(uri) : "", line: where && where.range.start.line + 1, message: text };
}

/** Repositories for which a commit message is being written. */
const underWay = new Set<string>();

/** Write a commit message for the staged changes, or else for all changes, into the source control input box. */
async function commitMessage(daemon: Daemon, control: unknown): Promise<void> {
  const root = (control as vscode.SourceControl | undefined)?.rootUri ?? workspaceFolder()?.uri;
  const repository = root && (await gitRepository(root));
  if (!repository) throw new Error(t("VS Code knows no git repository for this folder."));
  const key = repository.rootUri.toString();
  if (underWay.has(key)) return;
  underWay.add(key);
  const options = { location: vscode.ProgressLocation.SourceControl, title: t("Writing a commit message…") };
  try {
    await vscode.window.withProgress(options, () => writeMessage(daemon, repository));
  } finally {
    underWay.delete(key);
  }
}

async function writeMessage(daemon: Daemon, repository: Repository): Promise<void> {
  const staged = await repository.diff(true);
  const changes = staged.trim() ? staged : await repository.diff(false);
  if (!changes.trim()) throw new Error(t("There are no changes to write a message for. Stage new files first."));
  const before = repository.inputBox.value;
  const recent = await repository.log({ maxEntries: RECENT }).catch(() => []);
  await daemon.connect();
  const { state } = daemon;
  const model = state.phase === "connected" ? state.status.model : "";
  const answer = await daemon.request("goalwright/model/commitMessage", {
    model,
    changes,
    recent: recent.map(({ message }) => message.split("\n", 1)[0] ?? ""),
  });
  if (answer.error) throw new Error(answer.error);
  // The user may have typed while the model wrote.
  const typed = repository.inputBox.value;
  repository.inputBox.value = typed === before ? answer.message : `${answer.message}\n\n${typed}`;
}

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
