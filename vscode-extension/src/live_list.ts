import * as vscode from "vscode";

/** A button of a row. `stay` works while the list is open and returns its new rows; `leave` works after the list has closed. */
export interface ListButton extends vscode.QuickInputButton {
  stay?: () => Promise<readonly ListRow[]>;
  leave?: () => unknown;
}

export interface ListRow extends vscode.QuickPickItem {
  buttons?: readonly ListButton[];
  /** Called by Enter, after the list has closed. Without it, Enter does nothing. */
  enter?: (() => unknown) | undefined;
  /** True when the row changes automatically, so that the rows are read again. */
  changing?: boolean;
}

export function button(icon: string, tooltip: string, action: Pick<ListButton, "stay" | "leave">): ListButton {
  return { iconPath: new vscode.ThemeIcon(icon), tooltip, ...action };
}

const LOOK_AGAIN_MS = 1000;

/**
 * Show a list of the daemon's objects. `read` returns its rows, and may change its title; `first` is false when it is
 * called again. Resolves when the list has closed and the action that closed it is done. Throws the first error.
 */
export async function liveList(
  about: Partial<Pick<vscode.QuickPick<ListRow>, "title" | "placeholder" | "matchOnDescription" | "matchOnDetail">>,
  read: (pick: vscode.QuickPick<ListRow>, first: boolean) => Promise<readonly ListRow[]>,
): Promise<void> {
  const pick = vscode.window.createQuickPick<ListRow>();
  Object.assign(pick, about);
  let open = true;
  let failure: unknown;
  let then: (() => unknown) | undefined;
  const closed = new Promise<void>((resolve) => pick.onDidHide(resolve)).then(() => {
    open = false;
    pick.dispose();
  });
  let shown = "";
  let [pressed, done] = [0, 0];
  const fill = async (rows: () => Promise<readonly ListRow[]>, byButton = false): Promise<void> => {
    if (byButton) pressed++;
    const [presses, ends] = [pressed, done];
    pick.busy = true;
    try {
      const found = await rows();
      const late = presses !== pressed || (!byButton && ends !== done);
      if (byButton) done++;
      // Buttons change the rows, so what was read before a button's answer is older than it.
      if (late) return;
      const now = JSON.stringify(found);
      if (now !== shown) pick.items = found; // setting them moves the focus to the first one
      shown = now;
    } catch (error) {
      failure ??= error;
      pick.hide();
    }
    pick.busy = false;
  };
  const leave = (action: (() => unknown) | undefined): void => {
    if (!action) return;
    then = action;
    pick.hide();
  };
  pick.onDidTriggerItemButton(({ button }) => {
    const { stay, leave: action } = button as ListButton;
    if (stay) void fill(stay, true);
    else leave(action);
  });
  pick.onDidAccept(() => leave(pick.selectedItems[0]?.enter));
  const follow = async (): Promise<void> => {
    await fill(() => read(pick, true));
    while (open && pick.items.some(({ changing }) => changing)) {
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))]);
      if (open) await fill(() => read(pick, false));
    }
  };
  pick.show();
  void follow();
  await closed;
  if (failure !== undefined) throw failure;
  await then?.();
}
