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
import { t } from "../l10n";

export { workspaceFolder };

/** What names of files are shortened by. */
export function places(): Places {
  return { home: os.homedir(), folder: workspaceFolder()?.uri.fsPath ?? "" };
}

export function setting(name: "python" | "basePython" | "model"): string {
  return vscode.workspace.getConfiguration("goalwright").get<string>(name, "").trim();
}

/** The value that says: as in config.json. */
const UNSET = "default";

/** The mode of new sessions, when VS Code's settings have one. */
export function configuredMode(): Mode | undefined {
  const mode = vscode.workspace.getConfiguration("goalwright").get<Mode | typeof UNSET>("mode", UNSET);
  return mode === UNSET ? undefined : mode;
}

/** Settings with the value `default`, and their names in config.json. */
const CHOICES: Readonly<Record<string, string>> = {
  mode: "mode",
  sandbox: "sandbox",
  planFront: "plan_front",
  planPlacement: "plan_placement",
  planner: "planner",
  allowReplan: "allow_replan",
  debugTrace: "debug_trace",
};

/** Of these, the ones that are on or off. */
const SWITCHES: ReadonlySet<string> = new Set(["allow_replan", "debug_trace"]);

/** What of VS Code's settings the daemon is told, under the names of config.json. What is not set there is not sent. */
function daemonSettings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration("goalwright");
  const chosen = Object.entries(CHOICES)
    .map(([name, key]) => [key, configuration.get<string>(name, UNSET)] as const)
    .filter(([, value]) => value !== UNSET)
    .map(([key, value]) => [key, SWITCHES.has(key) ? value === "on" : value] as const);
  const model = setting("model");
  const thinking = configuration.get<number | null>("thinkingTokens", null);
  const models = configuration.get<Record<string, string>>("models", {});
  return {
    language: language(),
    ...(model ? { model } : {}),
    ...(Object.keys(models).length > 0 ? { models } : {}),
    ...(typeof thinking === "number" ? { thinking_tokens: thinking } : {}),
    ...Object.fromEntries(chosen),
  };
}

/** The settings of VS Code that the daemon has, too, and that count at once; the language does after a reload of the window. */
export const DAEMON_SETTINGS: readonly string[] = ["model", "models", "thinkingTokens", ...Object.keys(CHOICES)].map((name) => `goalwright.${name}`);

/** `~` and `${workspaceFolder}` written out, as people are used to in settings that hold a path. */
export function expand(value: string, folder: string | undefined, home: string = os.homedir()): string {
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
    throw new Problem("outdated", t("This version of the extension brings a new daemon. Install it to go on."), [
      "install",
      "showLog",
    ]);
  }
  throw new Problem(
    "notInstalled",
    t("Goalwright's daemon runs in a Python environment of its own. Installing it takes about a minute and leaves your projects alone."),
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
