import * as path from "node:path";
import * as vscode from "vscode";
import { fileUri } from "../chat/open";
import { workspaceFolder } from "../daemon/environment";
import type { Message } from "../protocol.gen";
import type { Attachment } from "../session/controller";
import { limited, ofServer } from "./text";
import { t } from "../l10n";

/** Largest attached text in characters; the daemon rejects files over 256 KB. */
const MOST = 60 * 1024;
const MOST_PROBLEMS = 200;
const MOST_LISTED = 500;
/** Folders to exclude from listings and file searches. */
export const LEFT_OUT = "**/{node_modules,.git,.trace,.venv,__pycache__,.mypy_cache,.pytest_cache}/**";

/** Return the name of a file in Goalwright's folder, as prompts use it. */
export function nameOf(uri: vscode.Uri): string {
  const folder = workspaceFolder()?.uri.fsPath;
  const relative = folder ? path.relative(folder, uri.fsPath) : "";
  const inside = relative !== "" && !relative.startsWith("..") && !path.isAbsolute(relative);
  return (inside ? relative : uri.fsPath).split(path.sep).join("/");
}

/** Format lines to follow a path, `3` or `3-9`. A selection that ends at the start of a line does not include that line. */
export function spanOf({ start, end }: vscode.Range): string {
  const last = end.character === 0 && end.line > start.line ? end.line : end.line + 1;
  return last === start.line + 1 ? `${last}` : `${start.line + 1}-${last}`;
}

/** Attach a text as a file. Throws an error with the message `empty` if the text is blank. */
export function textFile(name: string, text: string, empty: string, end: "first" | "last" = "first"): Attachment {
  if (!text.trim()) throw new Error(empty);
  const kept = limited(name, text, MOST, end);
  return { type: "file", name: kept.name, mediaType: "text/plain", data: Buffer.from(kept.text, "utf8").toString("base64") };
}

/** Attach the errors and warnings of all files. */
export function problems(): Attachment {
  const severities = ["error", "warning"];
  const found = vscode.languages
    .getDiagnostics()
    .filter(([uri]) => uri.scheme === "file")
    .flatMap(([uri, all]) => all.map((one) => ({ uri, one })))
    .filter(({ one }) => one.severity <= vscode.DiagnosticSeverity.Warning)
    .sort((a, b) => a.one.severity - b.one.severity);
  const lines = found.slice(0, MOST_PROBLEMS).map(({ uri, one }) => {
    const { line, character } = one.range.start;
    return `${nameOf(uri)}:${line + 1}:${character + 1}: ${severities[one.severity] ?? ""}: ${one.message.replace(/\s+/g, " ")}${one.source ? ` [${one.source}]` : ""}`;
  });
  const name = found.length > lines.length ? `problems.txt (${lines.length}/${found.length})` : "problems.txt";
  return textFile(name, lines.join("\n"), t("There are no errors or warnings to attach."));
}

/** Attach the active editor's selection. */
export function selection(): Attachment {
  const editor = vscode.window.activeTextEditor;
  if (!editor || editor.selection.isEmpty) throw new Error(t("Nothing is selected. Select text in an editor first."));
  return textFile(`${nameOf(editor.document.uri)}:${spanOf(editor.selection)}`, editor.document.getText(editor.selection), t("Nothing is selected. Select text in an editor first."));
}

/** Attach lines of a file, `src/a.py:3-9`, by their name: the daemon reads them by the rules, as they are in the editor. */
export function lines(place: string): Attachment {
  return { type: "file", name: place, mediaType: "", data: null };
}

/** Attach the terminal's selection, or its last command with output. The clipboard is restored. */
export async function terminal(): Promise<Attachment> {
  const nothing = t("The terminal has no selection and no finished command. Select text in it first.");
  if (!vscode.window.activeTerminal) throw new Error(t("No terminal is open. Open one and select text in it."));
  const before = await vscode.env.clipboard.readText();
  try {
    for (const command of ["copySelection", "copyLastCommandAndLastCommandOutput"]) {
      await vscode.env.clipboard.writeText("");
      await vscode.commands.executeCommand(`workbench.action.terminal.${command}`);
      const text = await vscode.env.clipboard.readText();
      if (text.trim()) return textFile("terminal.txt", text, nothing, "last");
    }
  } finally {
    await vscode.env.clipboard.writeText(before);
  }
  throw new Error(nothing);
}

/** The part of the API of VS Code's Git extension that is used here. */
interface Git {
  getAPI(version: 1): { repositories: readonly Repository[]; getRepository(uri: vscode.Uri): Repository | null };
}
export interface Repository {
  rootUri: vscode.Uri;
  diff(cached?: boolean): Promise<string>;
  log(options: { maxEntries: number }): Promise<readonly { message: string }[]>;
  inputBox: { value: string };
  state: { untrackedChanges?: readonly { uri: vscode.Uri }[]; workingTreeChanges: readonly { uri: vscode.Uri; status: number }[] };
}
const UNTRACKED = 7;

/** Return the repository of a file or folder, if VS Code knows it. */
export async function gitRepository(uri: vscode.Uri): Promise<Repository | null> {
  const extension = vscode.extensions.getExtension<Git>("vscode.git");
  return extension ? (await extension.activate()).getAPI(1).getRepository(uri) : null;
}

/** Attach the uncommitted changes, staged ones first. */
export async function changes(): Promise<Attachment> {
  const folder = workspaceFolder();
  const repository = folder ? await gitRepository(folder.uri) : null;
  if (!repository) throw new Error(t("VS Code knows no git repository for this folder."));
  const [staged, unstaged] = await Promise.all([repository.diff(true), repository.diff(false)]);
  const { untrackedChanges = [], workingTreeChanges } = repository.state;
  const fresh = [...untrackedChanges, ...workingTreeChanges.filter(({ status }) => status === UNTRACKED)].map(({ uri }) => `?? ${nameOf(uri)}`);
  return textFile("changes.diff", [staged, unstaged, fresh.join("\n")].filter((part) => part.trim()).join("\n"), t("There are no uncommitted changes."));
}

/** Attach the messages of another session, without tool calls. */
export function conversation(title: string, messages: readonly Message[]): Attachment {
  const said = messages.flatMap(({ role, content }) => {
    const text = content.map((part) => (part.type === "text" ? part.text : "")).join("").trim();
    return text && role !== "tool" ? [`## ${role}\n\n${text}`] : [];
  });
  return textFile(`${title}.md`, said.join("\n\n"), t("That session has no messages yet."), "last");
}

/** Attach a file by its path. A file that is too large is only named in the text. */
export async function file(name: string): Promise<Attachment[]> {
  const uri = fileUri(name);
  const size = uri ? (await vscode.workspace.fs.stat(uri)).size : 0;
  const text = !/\.(png|jpe?g|gif|webp|pdf)$/i.test(name);
  return text && size > MOST * 4 ? [] : [{ type: "file", name, mediaType: "", data: null }];
}

/** Return true if a file, or a folder with `asFolder`, of this name exists. */
export async function isThere(name: string, asFolder: boolean): Promise<boolean> {
  const uri = fileUri(name);
  if (!uri) return false;
  const wanted = asFolder ? vscode.FileType.Directory : vscode.FileType.File;
  return Promise.resolve(vscode.workspace.fs.stat(uri)).then(({ type }) => (type & wanted) !== 0, () => false);
}

/** Attach the names of all files below a folder. */
export async function folder(name: string): Promise<Attachment> {
  const uri = fileUri(name);
  const found = uri ? await vscode.workspace.findFiles(new vscode.RelativePattern(uri, "**/*"), LEFT_OUT, MOST_LISTED + 1) : [];
  const names = found.map(nameOf).sort();
  const more = names.length > MOST_LISTED ? [`(${t("only the first {0} files", MOST_LISTED)})`] : [];
  return textFile(name, [...names.slice(0, MOST_LISTED), ...more].join("\n"), t("{0} has no files to list.", name));
}

/** Return the file that a chip opens, with its first line; none for content of an MCP server, whatever path it seems to be. */
export function placeOf(name: string): { path: string; line: number | undefined } | undefined {
  if (ofServer(name)) return undefined;
  const [, path = name, line] = /^(.+?):(\d+)(?:-\d+)?$/s.exec(name) ?? [];
  return { path, line: line === undefined ? undefined : Number(line) };
}
