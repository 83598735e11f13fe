import * as vscode from "vscode";

/** How long (ms) after a save VS Code may still be opening a tab. */
const LATE_MS = 2_000;

/**
 * Keeps files that are open without a tab, and that the daemon edits, out of sight: VS Code opens a tab for one that
 * has unsaved changes for a moment, which nobody asked for.
 */
export class Unseen implements vscode.Disposable {
  /** Files that have no tab of the user's; those that are saved have a timer. */
  private readonly edited = new Set<string>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private readonly listener = vscode.window.tabGroups.onDidChangeTabs(({ opened }) => this.close(opened));

  /** Call it before these files are edited. */
  note(uris: readonly string[]): void {
    for (const uri of uris.map((one) => vscode.Uri.parse(one).toString())) {
      clearTimeout(this.timers.get(uri));
      this.timers.delete(uri);
      if (tabsOf(uri).length === 0) this.edited.add(uri);
    }
  }

  /** Call it when a file was saved. */
  saved(uri: string): void {
    if (!this.edited.has(uri)) return;
    clearTimeout(this.timers.get(uri));
    this.timers.set(
      uri,
      setTimeout(() => this.forget(uri), LATE_MS),
    );
    this.close(tabsOf(uri));
  }

  dispose(): void {
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.listener.dispose();
  }

  private close(tabs: readonly vscode.Tab[]): void {
    for (const tab of tabs) {
      const uri = uriOf(tab);
      // Before it is saved a tab must stay: closing it would give the edit up.
      if (uri === undefined || !this.timers.has(uri)) continue;
      // The user opened it.
      if (tab.isActive) this.forget(uri);
      else if (!tab.isDirty && !isDirty(uri)) vscode.window.tabGroups.close(tab, true).then(undefined, () => undefined);
    }
  }

  private forget(uri: string): void {
    clearTimeout(this.timers.get(uri));
    this.edited.delete(uri);
    this.timers.delete(uri);
  }
}

function uriOf(tab: vscode.Tab): string | undefined {
  return tab.input instanceof vscode.TabInputText ? tab.input.uri.toString() : undefined;
}

function isDirty(uri: string): boolean {
  return vscode.workspace.textDocuments.some((document) => document.isDirty && document.uri.toString() === uri);
}

function tabsOf(uri: string): vscode.Tab[] {
  return vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.filter((tab) => uriOf(tab) === uri));
}
