import * as vscode from "vscode";

/**
 * Keeps files that are open without a tab, and that the daemon edits, out of sight: VS Code opens a tab for one that
 * has unsaved changes for a moment, which nobody asked for.
 */
export class Unseen {
  private readonly edited = new Set<string>();

  /** Call it before these files are edited. */
  note(uris: readonly string[]): void {
    for (const uri of uris.map((one) => vscode.Uri.parse(one).toString())) {
      if (tabsOf(uri).length === 0) this.edited.add(uri);
      else this.edited.delete(uri);
    }
  }

  /** Call it when a file was saved: before, closing its tab would give the edit up. */
  saved(uri: string): void {
    if (!this.edited.delete(uri)) return;
    const tabs = tabsOf(uri).filter((tab) => !tab.isActive && !tab.isDirty);
    if (tabs.length > 0) vscode.window.tabGroups.close(tabs, true).then(undefined, () => undefined);
  }
}

function tabsOf(uri: string): vscode.Tab[] {
  const has = ({ input }: vscode.Tab): boolean => input instanceof vscode.TabInputText && input.uri.toString() === uri;
  return vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.filter(has));
}
