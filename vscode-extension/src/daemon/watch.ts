import * as vscode from "vscode";
import type { Parts } from "../extension";
import { DAEMON_SETTINGS, setting } from "./environment";
import { ACTIONS } from "./problems";
import type { Installation } from "./install";
import { t } from "../l10n";
import { notify } from "../notify";

type Watched = Pick<Parts, "daemon" | "sessions" | "history" | "installation" | "models" | "keys" | "log">;

/** React to changes of settings, trust, folders and versions, and update the context keys. */
export function watchSurroundings({ daemon, sessions, history, installation, models, keys: providers, log }: Watched): vscode.Disposable {
  const again = (): void => {
    // The daemon was not needed yet, or the user stopped it.
    if (daemon.state.phase === "idle" || daemon.state.phase === "stopped") return;
    daemon.reconnect().catch((error: unknown) => log.warn(String(error)));
  };
  const keys = new ContextKeys();
  const offered = new Set<string>();
  const disposable = vscode.Disposable.from(
    vscode.workspace.onDidChangeConfiguration((event) => {
      const mine = ["goalwright.python", "goalwright.basePython", ...DAEMON_SETTINGS];
      if (mine.some((name) => event.affectsConfiguration(name))) again();
      if (event.affectsConfiguration("goalwright.model")) models.checkSetting().catch((error: unknown) => log.debug(String(error)));
      if (event.affectsConfiguration("goalwright.language")) void offerReload(t("Reload the window to use the new language."));
    }),
    providers.onDidChange(again),
    vscode.workspace.onDidGrantWorkspaceTrust(again),
    vscode.workspace.onDidChangeWorkspaceFolders(again),
    sessions.onDidChange(() => {
      const { state } = sessions;
      keys.set("goalwright.session", state !== undefined);
      keys.set("goalwright.agent", sessions.agentName ?? "");
      keys.set("goalwright.pending", (state?.pending.length ?? 0) > 0);
      keys.set("goalwright.running", state !== undefined && state.session.status !== "idle");
    }),
    history.onDidChange(() => {
      keys.set("goalwright.canUndo", history.value.undo !== null);
      keys.set("goalwright.canRedo", history.value.redo !== null);
    }),
    daemon.onDidChangeState((state) => {
      if (state.phase !== "connected") return;
      const { version } = state.status;
      if (!offered.has(version)) {
        offered.add(version);
        offerUpdate(version, installation, log).catch((error: unknown) => log.debug(String(error)));
      }
    }),
  );
  // A session was running when the window closed: connect now, so that its requests do not wait until the panel is
  // opened.
  if (sessions.wasBusy) daemon.connect().catch(() => undefined);
  return disposable;
}

/** Offer to reload the window. `why`: text for the user. */
export async function offerReload(why: string): Promise<void> {
  const reload = t("Reload Window");
  const choice = await notify("info", why, reload);
  if (choice) await vscode.commands.executeCommand("workbench.action.reloadWindow");
}

/** Notify the user when the daemon's version differs from the bundled one. */
async function offerUpdate(running: string, installation: Installation, log: vscode.LogOutputChannel): Promise<void> {
  const bundled = await installation.version();
  if (running === bundled) {
    if (!setting("python")) await installation.prune((line) => log.info(line), Date.now());
    return;
  }
  log.info(`the daemon is version ${running}, the extension brings ${bundled}`);
  const text = t("The Goalwright daemon is version {0}; this extension includes {1}.", running, bundled);
  const { label, command } = setting("python") ? ACTIONS.install : ACTIONS.restartDaemon;
  const choice = await notify("info", text, label);
  if (choice) await vscode.commands.executeCommand(command);
}

/** Context keys, set only when they change. */
class ContextKeys {
  private readonly values = new Map<string, boolean | string>();

  set(key: string, value: boolean | string): void {
    if (this.values.get(key) === value) return;
    this.values.set(key, value);
    void vscode.commands.executeCommand("setContext", key, value);
  }
}
