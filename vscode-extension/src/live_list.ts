import * as vscode from "vscode";

/** A list that is filled, and changed by its buttons, with requests to the daemon. */
export interface LiveList<T extends vscode.QuickPickItem> {
  pick: vscode.QuickPick<T>;
  /** Work while the list shows that it is busy. An error closes the list. */
  run(work: () => Promise<unknown>): Promise<void>;
  /** Resolves when the list is closed. Throws the first error of `run`. */
  closed: Promise<void>;
}

/** Create a list; the caller shows it. */
export function liveList<T extends vscode.QuickPickItem>(title: string, placeholder: string): LiveList<T> {
  const pick = vscode.window.createQuickPick<T>();
  Object.assign(pick, { title, placeholder, busy: true });
  let failure: unknown;
  const closed = new Promise<void>((resolve) => pick.onDidHide(resolve)).then(() => {
    pick.dispose();
    if (failure !== undefined) throw failure;
  });
  const run = async (work: () => Promise<unknown>): Promise<void> => {
    pick.busy = true;
    try {
      await work();
    } catch (error) {
      failure ??= error;
      pick.hide();
    }
    pick.busy = false;
  };
  return { pick, run, closed };
}
