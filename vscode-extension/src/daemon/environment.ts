import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { language } from "../language";
import type { Places } from "../permission/words";
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

/** What names of files are shortened by. */
export function places(): Places {
  return { home: os.homedir(), folder: workspaceFolder()?.uri.fsPath ?? "" };
}

export function setting(name: "python" | "basePython" | "model"): string {
  return vscode.workspace.getConfiguration("goalwright").get<string>(name, "").trim();
}

/** The mode of new sessions, when VS Code's settings have one. */
export function configuredMode(): Mode | undefined {
  const mode = vscode.workspace.getConfiguration("goalwright").get<Mode | typeof UNSET>("mode", UNSET);
  return mode === UNSET ? undefined : mode;
}

/** What of VS Code's settings the daemon is told, under the names of config.json. What is not set there is not sent. */
function daemonSettings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration("goalwright");
  return { language: language(), ...chosen((name) => configuration.get(name)) };
}

/** The settings of VS Code that the daemon has, too, and that count at once; the language does after a reload of the window. */
export const DAEMON_SETTINGS: readonly string[] = Object.keys(SETTINGS).map((name) => `goalwright.${name}`);

/** `~` and `${workspaceFolder}` written out, as people are used to in settings that hold a path. */
export function expand(value: string, folder: string | undefined, home: string = os.homedir()): string {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: what users write in their settings.
  const rooted = folder ? value.replaceAll("${workspaceFolder}", folder) : value;
  return rooted.startsWith("~/") || rooted.startsWith("~\\") ? path.join(home, rooted.slice(2)) : rooted;
}

/** The interpreter that has Goalwright: the setting, else the extension's own environment. Throws a Problem. */
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

/** What the daemon is told of this window. `variables`: keys and addresses that were entered here, which go before the environment's. */
export function initializationOptions(variables: Readonly<Record<string, string>> = {}): InitializationOptions {
  return {
    protocolVersion: PROTOCOL_VERSION,
    client: "VS Code",
    trusted: vscode.workspace.isTrusted,
    canSave: true,
    diagnostics: true,
    chat: true,
    settings: daemonSettings(),
    env: { ...providerEnvironment(process.env), ...variables },
  };
}
