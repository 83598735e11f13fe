import * as path from "node:path";
import * as vscode from "vscode";
import type { Attachment } from "../session/controller";
import { nameOf, spanOf } from "./context";
import { OPEN_FILE } from "./text";
import { Observable, Soon } from "../observable";

/** The active editor's file, as the composer offers it. */
export interface ActiveFile {
  /** `src/app.py`, or with a selection `src/app.py:26-28`. */
  name: string;
  label: string;
  /** True when the file is sent with the next prompt. */
  on: boolean;
}

const OFF_KEY = "goalwright.activeFileOff";
const SETTING = "goalwright.includeActiveFile";
/** A selection changes with each movement of the mouse, so updates are throttled. */
const PAUSE_MS = 100;

/** Follow the active editor. Only the file name and lines are sent, never the text: the model reads that under the rules. */
export class ActiveEditor extends Observable {
  private readonly soon = new Soon(PAUSE_MS, () => this.tell());
  private told = "";

  constructor(private readonly memory: vscode.Memento) {
    super();
    this.disposables.push(
      this.soon,
      vscode.window.onDidChangeActiveTextEditor(() => this.soon.request()),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
        if (textEditor === vscode.window.activeTextEditor) this.soon.request();
      }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(SETTING)) this.tell();
      }),
    );
  }

  get value(): ActiveFile | null {
    const editor = vscode.window.activeTextEditor;
    if (editor?.document.uri.scheme !== "file" || !vscode.workspace.getConfiguration().get(SETTING, true)) return null;
    const { selection } = editor;
    const lines = selection.isEmpty ? "" : `:${spanOf(selection)}`;
    const name = nameOf(editor.document.uri) + lines;
    return { name, label: path.posix.basename(name), on: !this.memory.get(OFF_KEY, false) };
  }

  /** Attachments for a prompt: the active file, if it is included. */
  get attachments(): Attachment[] {
    const { value } = this;
    return value?.on ? [{ type: "file", name: value.name, mediaType: OPEN_FILE, data: null }] : [];
  }

  /** Include or exclude the active file from now on, in this window. */
  async include(on: boolean): Promise<void> {
    await this.memory.update(OFF_KEY, on ? undefined : true);
    this.tell();
  }

  private tell(): void {
    const now = JSON.stringify(this.value);
    if (now === this.told) return;
    this.told = now;
    this.changed.fire();
  }
}
