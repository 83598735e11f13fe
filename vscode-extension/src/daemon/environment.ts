import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { language } from "../language";
import type { Places } from "../permission/format";
import { workspaceFolder } from "./folder";
import type { InitializationOptions, Mode } from "../protocol.gen";
import { PROTOCOL_VERSION } from "../protocol.gen";
import type { Installation } from "./install";
import { Problem } from "./problems";
import { providerEnvironment } from "./process";
import { SETTINGS } from "./settings.gen";
import { chosen, UNSET } from "./settings";
import { t } from "../l10n";

export { workspaceFolder };

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
