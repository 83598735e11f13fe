import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import type { PermissionContentResult } from "../protocol.gen";
import { sameText, type FileChoice } from "./choice";
import { address, AFTER, BEFORE, proposedBy, type Proposed } from "./uris";
import { t } from "../l10n";

/** The state of one proposed file. */
interface Entry {
  content: Promise<PermissionContentResult>;
  /** The user's saved text that replaces the proposed one. */
  saved: string | undefined;
  /** The text that the user discarded last. VS Code's auto save may still write it. */
  discarded?: string | undefined;
  /** A version counter that VS Code compares. It starts low, so that a backup of an earlier window does not look newer. */
  mtime: number;
}

/** Time in which keystrokes are combined into one change. */
const PAUSE_MS = 60;
/** Number of attempts to make an editor show the text after a discard, and the times between them: two minutes in all. */
const RELOADS = 70;
const RELOAD_MS = 100;
const LONGEST_MS = 2000;
/** A prefix for the text where VS Code's settings would make it read the bytes in another encoding than UTF-8. */
const MARK = "\ufeff";

/**
 * Both sides of proposed files as documents. The proposed side is a file in memory, so that the user can edit it in VS
 * Code's diff editor; saving stays in memory, too.
 */
export class Proposals implements vscode.FileSystemProvider, vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  private readonly edited = new vscode.EventEmitter<Proposed>();
  readonly onDidChangeFile = this.changed.event;
  /** Fires when the user may have edited this file or discarded edits. */
  readonly onDidEdit = this.edited.event;
  private readonly entries = new Map<string, Entry>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private readonly disposables: vscode.Disposable[];

  /**
   * @param proposedText the text to write without the user's edits
   * @param draft the user's edited text from an earlier window
   */
  constructor(
    private readonly daemon: Pick<Daemon, "request">,
    private readonly proposedText: (proposed: Proposed, content: PermissionContentResult) => string,
    private readonly draft: (proposed: Proposed) => string | undefined,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.disposables = [
      this.changed,
      this.edited,
      vscode.workspace.registerTextDocumentContentProvider(BEFORE, this),
      vscode.workspace.registerFileSystemProvider(AFTER, this, { isCaseSensitive: true }),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        const proposed = document.uri.scheme === AFTER && proposedBy(document.uri);
        if (!proposed) return;
        const entry = this.entries.get(keyOf(proposed));
        // The user typed the discarded text again.
        if (contentChanges.length > 0 && entry?.discarded === document.getText()) entry.discarded = undefined;
        this.tellSoon(proposed);
      }),
    ];
  }

  /** Return both sides of a file. Throws the daemon's error when the request is no longer open. */
  content(proposed: Proposed): Promise<PermissionContentResult> {
    return this.entry(proposed).content;
  }

  /** Return the user's edited text, unsaved changes included; undefined when it is as proposed. */
  async text(proposed: Proposed): Promise<string | undefined> {
    const known = this.entries.get(keyOf(proposed));
    const text = this.unsaved(proposed) ?? (known ? known.saved : this.draft(proposed));
    if (text === undefined) return undefined;
    const content = await this.content(proposed);
    if (!sameText(text, this.proposedText(proposed, content))) return text;
    // The text was saved as proposed, so it follows later changes of the proposal.
    if (known?.saved === text) known.saved = undefined;
    return undefined;
  }

  /** Return how `text` changes the user's choice. */
  async verdict(proposed: Proposed): Promise<FileChoice["edited"]> {
    const text = await this.text(proposed);
    if (text === undefined) return "no";
    const { before } = await this.content(proposed);
    return before !== null && sameText(text, before) ? "nothing" : "text";
  }

  /** Reload the proposed text after hunks were accepted or left out. */
  refresh(proposed: Proposed): void {
    this.entry(proposed).mtime++;
    this.changed.fire([{ type: vscode.FileChangeType.Changed, uri: vscode.Uri.from(address(AFTER, proposed)) }]);
  }

  /** Discard the user's saved text. An editor with unsaved changes keeps them until it is reverted. */
  discard(proposed: Proposed): void {
    const entry = this.entry(proposed);
    entry.discarded = this.unsaved(proposed);
    entry.saved = undefined;
    this.refresh(proposed);
    this.tellSoon(proposed);
    this.untilShown(proposed, entry);
  }

  /** Repeat the change event until the editor shows the text, because VS Code ignores events while it saves the file. */
  private untilShown(proposed: Proposed, entry: Entry, attempt = 1): void {
    const wanted = () => {
      const document = this.document(proposed);
      const other = document?.isDirty && document.getText() !== entry.discarded;
      return this.entries.get(keyOf(proposed)) === entry && entry.saved === undefined && !other ? document : undefined;
    };
    const again = (content: PermissionContentResult) => {
      const document = wanted();
      if (!document || (!document.isDirty && sameText(document.getText(), this.proposedText(proposed, content)))) return;
      // A document that is being saved is still dirty.
      if (!document.isDirty) this.refresh(proposed);
      this.untilShown(proposed, entry, attempt + 1);
    };
    setTimeout(
      () => {
        if (wanted() && attempt <= RELOADS) entry.content.then(again, () => undefined);
      },
      Math.min(RELOAD_MS * attempt, LONGEST_MS),
    );
  }

  /** Return the open document of the proposed side. */
  document(proposed: Proposed): vscode.TextDocument | undefined {
    const uri = vscode.Uri.from(address(AFTER, proposed)).toString();
    return vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri);
  }

  /** Forget the files of a request that was answered. */
  release(requestId: string): void {
    for (const key of this.entries.keys()) if (key.startsWith(keyOf({ requestId, path: "" }))) this.entries.delete(key);
  }

  dispose(): void {
    for (const timer of this.timers.values()) clearTimeout(timer);
    vscode.Disposable.from(...this.disposables).dispose();
  }

  // -- the current side, read-only

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const proposed = proposedBy(uri);
    if (!proposed) return "";
    try {
      const { binary, before } = await this.content(proposed);
      return binary ? t("(binary file)") : (before ?? "");
    } catch (error) {
      this.log.warn(`content of ${proposed.path}: ${asProblem(error).message}`);
      return "";
    }
  }

  // -- the proposed side, a file

  async stat(uri: vscode.Uri): Promise<vscode.FileStat> {
    const { bytes, entry, readonly } = await this.read(uri);
    const stat = { type: vscode.FileType.File, ctime: 0, mtime: entry.mtime, size: bytes.length };
    return readonly ? { ...stat, permissions: vscode.FilePermission.Readonly } : stat;
  }

  async readFile(uri: vscode.Uri): Promise<Uint8Array> {
    return (await this.read(uri)).bytes;
  }

  writeFile(uri: vscode.Uri, bytes: Uint8Array): void {
    const proposed = proposedBy(uri);
    const entry = proposed && this.entries.get(keyOf(proposed));
    // A save after the answer is not an error: the editor is about to close.
    if (!proposed || !entry) return;
    const text = new TextDecoder().decode(bytes);
    entry.mtime++;
    if (text === entry.discarded) {
      this.untilShown(proposed, entry);
      return;
    }
    entry.saved = text;
    this.tellSoon(proposed);
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => undefined);
  }

  readDirectory(): [string, vscode.FileType][] {
    return [];
  }

  createDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  readonly delete = this.createDirectory;
  readonly rename = this.createDirectory;

  private async read(uri: vscode.Uri): Promise<{ bytes: Uint8Array; entry: Entry; readonly: boolean }> {
    const proposed = proposedBy(uri);
    if (!proposed) throw vscode.FileSystemError.FileNotFound(uri);
    const entry = this.entry(proposed);
    let content: PermissionContentResult;
    try {
      content = await entry.content;
    } catch (error) {
      this.log.warn(`content of ${proposed.path}: ${asProblem(error).message}`);
      throw vscode.FileSystemError.FileNotFound(uri);
    }
    const text = content.binary ? t("(binary file)") : (entry.saved ?? this.proposedText(proposed, content));
    return {
      bytes: new TextEncoder().encode(text.startsWith(MARK) || isReadAsUtf8(uri) ? text : MARK + text),
      entry,
      readonly: content.binary || content.after === null,
    };
  }

  private entry(proposed: Proposed): Entry {
    const key = keyOf(proposed);
    const known = this.entries.get(key);
    if (known) return known;
    const content = this.daemon.request("goalwright/permission/content", proposed);
    const entry: Entry = { content, saved: this.draft(proposed), mtime: 1 };
    // After a failure the next call tries again.
    content.catch(() => this.entries.get(key) === entry && this.entries.delete(key));
    this.entries.set(key, entry);
    return entry;
  }

  private unsaved(proposed: Proposed): string | undefined {
    const document = this.document(proposed);
    return document?.isDirty ? document.getText() : undefined;
  }

  private tellSoon(proposed: Proposed): void {
    const key = keyOf(proposed);
    clearTimeout(this.timers.get(key));
    this.timers.set(
      key,
      setTimeout(() => {
        this.timers.delete(key);
        if (this.entries.has(key)) this.edited.fire(proposed);
      }, PAUSE_MS),
    );
  }
}

function isReadAsUtf8(uri: vscode.Uri): boolean {
  const files = vscode.workspace.getConfiguration("files", uri);
  return files.get<string>("encoding", "utf8") === "utf8" && !files.get<boolean>("autoGuessEncoding", false);
}

function keyOf({ requestId, path }: Proposed): string {
  return `${requestId} ${path}`;
}
