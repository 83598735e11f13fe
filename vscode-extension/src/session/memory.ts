import { mkdirSync, readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import * as path from "node:path";
import type * as vscode from "vscode";

/**
 * The memory of the extension for a workspace, in a file that is written at once. In a browser, VS Code's own
 * `workspaceState` stays in memory for seconds, so that a reload loses the newest values. Other windows may write the
 * file, too: a window writes only the value that it changes.
 */
export class WorkspaceMemory implements vscode.Memento {
  private readonly values: Map<string, unknown>;
  private writing: Promise<void> = Promise.resolve();
  private readonly file: string;

  /** `folder`: the storage folder, which may not exist. `log` gets a line about each failure. */
  constructor(
    private readonly folder: string,
    private readonly log: (text: string) => void,
    name = "memory.json",
  ) {
    this.file = path.join(folder, name);
    this.values = new Map(Object.entries(this.read() ?? {}));
  }

  keys(): readonly string[] {
    return [...this.values.keys()];
  }

  get<T>(key: string): T | undefined;
  get<T>(key: string, otherwise: T): T;
  get<T>(key: string, otherwise?: T): T | undefined {
    return this.values.has(key) ? (this.values.get(key) as T) : otherwise;
  }

  /** Remember a value, or forget it if it is undefined. The promise ends when the file has it. Never throws. */
  update(key: string, value: unknown): Promise<void> {
    if (value === undefined) this.values.delete(key);
    else this.values.set(key, value);
    return (this.writing = this.writing.then(() => this.write(key)));
  }

  /** Return the values of the file; undefined without a file that can be read. */
  private read(): Record<string, unknown> | undefined {
    try {
      const stored: unknown = JSON.parse(readFileSync(this.file, "utf8"));
      if (typeof stored === "object" && stored !== null) return stored as Record<string, unknown>;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") this.log(`${this.file}: ${String(error)}`);
    }
    return undefined;
  }

  private async write(key: string): Promise<void> {
    const part = `${this.file}.${process.pid}.part`;
    try {
      mkdirSync(this.folder, { recursive: true });
      const own = Object.fromEntries(this.values);
      await writeFile(part, JSON.stringify({ ...(this.read() ?? own), [key]: own[key] }));
      await rename(part, this.file);
    } catch (error) {
      this.log(`${this.file}: ${String(error)}`);
    }
  }
}
