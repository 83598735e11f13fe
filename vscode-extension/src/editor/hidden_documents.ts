import * as vscode from "vscode";

/**
 * Hide files that are open without a tab while the daemon edits them: VS Code opens a tab for each file with unsaved
 * changes, even if they are saved a moment later.
 */
export class Unseen {
  private readonly edited = new Set<string>();

  /** Record files before they are edited. */
  note(uris: readonly string[]): void {
    for (const uri of uris.map((one) => vscode.Uri.parse(one).toString())) {
      if (tabsOf(uri).length === 0) this.edited.add(uri);
      else this.edited.delete(uri);
    }
  }

  /** Close the tab of a saved file. Closing it earlier would discard the edit. */
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
