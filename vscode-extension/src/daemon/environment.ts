import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { language } from "../language";
import type { Places } from "../permission/format";
import type { InitializationOptions, Mode } from "../protocol.gen";
import { PROTOCOL_VERSION } from "../protocol.gen";
import type { Installation } from "./install";
import { Problem } from "./problems";
import { providerEnvironment } from "./process";
import { SETTINGS, SWITCHES } from "./settings.gen";
import { t } from "../l10n";

/** Return the folders that are cut from file names on display. */
export function places(): Places {
  return { home: os.homedir(), folder: workspaceFolder()?.uri.fsPath ?? "" };
}

export function setting(name: "python" | "basePython" | "model"): string {
  return vscode.workspace.getConfiguration("goalwright").get<string>(name, "").trim();
}

/** Return the mode of new sessions, if VS Code's settings have one. */
export function configuredMode(): Mode | undefined {
  const mode = vscode.workspace.getConfiguration("goalwright").get<Mode | typeof UNSET>("mode", UNSET);
  return mode === UNSET ? undefined : mode;
}

/** Return the VS Code settings for the daemon, by their names in config.json. Unset ones are omitted. */
function daemonSettings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration("goalwright");
  return { language: language(), ...chosen((name) => configuration.get(name)) };
}

/** VS Code settings that go to the daemon and apply at once. The language applies after a reload of the window. */
export const DAEMON_SETTINGS: readonly string[] = Object.keys(SETTINGS).map((name) => `goalwright.${name}`);

/** Expand `~` and `${workspaceFolder}`, which users expect in path settings. */
export function expand(value: string, folder: string | undefined, home: string = os.homedir()): string {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: what users write in their settings.
  const rooted = folder ? value.replaceAll("${workspaceFolder}", folder) : value;
  return rooted.startsWith("~/") || rooted.startsWith("~\\") ? path.join(home, rooted.slice(2)) : rooted;
}

/** Return the interpreter with Goalwright: the one from the setting, or the extension's own. Throws a Problem. */
export async function findPython(installation: Installation): Promise<string> {
  const configured = setting("python");
  if (configured) return expand(configured, workspaceFolder()?.uri.fsPath);
  const installed = await installation.python();
  if (installed) return installed;
  if (await installation.isOutdated()) {
    throw new Problem("outdated", t("This version of the extension includes a new daemon. Install it to continue."), [
      "install",
      "showLog",
    ]);
  }
  throw new Problem(
    "notInstalled",
    t("Goalwright needs a small background service (Python, about a minute to install, isolated from your projects)."),
    ["install", "choosePython"],
  );
}

/** Return the options for the daemon's initialization. `variables`: keys and addresses entered here, which override the environment. */
export function initializationOptions(variables: Readonly<Record<string, string>> = {}): InitializationOptions {
  return {
    protocolVersion: PROTOCOL_VERSION,
    client: "VS Code",
    trusted: vscode.workspace.isTrusted,
    canSave: true,
    diagnostics: true,
    languageModels: true,
    chat: true,
    settings: daemonSettings(),
    env: { ...providerEnvironment(process.env), ...variables },
  };
}

/** The value of a setting that leaves the choice to config.json. */
const UNSET = "default";

/** Return the settings that have a value, by the daemon's names. Unset ones are left to config.json. */
export function chosen(get: (name: string) => unknown): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, key] of Object.entries(SETTINGS)) {
    const value = get(name);
    const given = typeof value === "string" ? value.trim() : value;
    if (!isSet(given)) continue;
    values[key] = SWITCHES.has(key) ? given === "on" || given === true : given;
  }
  return values;
}

function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === UNSET) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

/** Workspace storage key for the URI of the folder that the user chose. */
const CHOSEN = "goalwright.folder";

let memory: vscode.Memento | undefined;

/** Set the storage for the choice. */
export function rememberFolderIn(memento: vscode.Memento): void {
  memory = memento;
}

/** Return the folders of this window that are on disk. */
export function diskFolders(): readonly vscode.WorkspaceFolder[] {
  return (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file");
}

/** Return the folder that Goalwright works in: the chosen one, or else the first. */
export function workspaceFolder(): vscode.WorkspaceFolder | undefined {
  const folders = diskFolders();
  const chosen = memory?.get<string>(CHOSEN);
  return folders.find((folder) => folder.uri.toString() === chosen) ?? folders[0];
}

/** Let the user choose the folder to work in. True when it changed. */
export async function chooseFolder(): Promise<boolean> {
  const current = workspaceFolder();
  const picks = diskFolders().map((folder) => ({
    label: folder.name,
    description: folder === current ? t("{0} (now)", folder.uri.fsPath) : folder.uri.fsPath,
    folder,
  }));
  if (picks.length === 0) {
    await vscode.commands.executeCommand("workbench.action.files.openFolder");
    return false;
  }
  const pick = await vscode.window.showQuickPick(picks, {
    title: t("Choose Folder"),
    placeHolder: t("Goalwright works in one folder. Access to the others needs your permission."),
    matchOnDescription: true,
  });
  if (!pick || pick.folder === current) return false;
  await memory?.update(CHOSEN, pick.folder.uri.toString());
  return true;
}
