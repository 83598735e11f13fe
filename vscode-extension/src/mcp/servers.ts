import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { asProblem } from "../daemon/problems";
import { liveList } from "../live_list";
import type { McpListResult, McpServer } from "../protocol.gen";
import { t } from "../l10n";

const RESTART: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("debug-restart"), tooltip: t("Restart") };
const SWITCH: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("circle-slash"), tooltip: t("Enable or disable") };
const TOOLS: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("tools"), tooltip: t("Choose tools") };
const SIGN_IN: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("sign-in"), tooltip: t("Sign in") };
const SIGN_OUT: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("sign-out"), tooltip: t("Sign out") };
const ICONS = { starting: "loading~spin", ready: "pass", failed: "error", signed_out: "key", stopped: "circle-outline", disabled: "circle-slash" } as const;

const LOOK_AGAIN_MS = 1000;

interface Item extends vscode.QuickPickItem {
  server?: McpServer;
}

/** List the MCP servers, to read their logs, restart them, or switch them or single tools on and off. Throws the daemon's error. */
export async function showServers(daemon: Daemon): Promise<void> {
  await daemon.connect();
  const { pick, run: work, closed } = liveList<Item>(t("MCP Servers"), t("Enter opens the log"));
  pick.matchOnDetail = true;
  let hidden = false;
  pick.onDidHide(() => (hidden = true));
  let shown = "";
  const run = (read: () => Promise<McpListResult>): Promise<void> =>
    work(async () => {
      const found = await read();
      const now = JSON.stringify(found);
      if (now !== shown) pick.items = rows(found); // setting them moves the focus to the first one
      shown = now;
    });
  pick.onDidTriggerItemButton(({ item: { server }, button }) => {
    if (!server) return;
    const { name, state } = server;
    if (button === TOOLS) {
      pick.hide();
      void chooseTools(daemon, server);
    } else if (button === SIGN_IN) {
      pick.hide();
      void signIn(daemon, name);
    } else if (button === SIGN_OUT) void run(() => daemon.request("goalwright/mcp/logout", { name }));
    else if (button === RESTART) void run(() => daemon.request("goalwright/mcp/restart", { name }));
    else void run(() => daemon.request("goalwright/mcp/set", { name, enabled: state === "disabled" }));
  });
  pick.onDidAccept(() => {
    const server = pick.selectedItems[0]?.server;
    if (!server || server.state === "disabled") return;
    pick.hide();
    void openLog(daemon, server.name);
  });
  pick.show();
  await run(() => daemon.request("goalwright/mcp/list", { start: true }));
  while (!hidden && pick.items.some(({ server }) => server?.state === "starting")) {
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))]);
    if (!hidden) await run(() => daemon.request("goalwright/mcp/list", { start: false }));
  }
  await closed;
}

/** Open the page where the user signs in to a server, and wait until that is done. */
async function signIn(daemon: Daemon, name: string): Promise<void> {
  await told(async () => {
    const { url } = await daemon.request("goalwright/mcp/login", { name });
    const title = t("Signing in to {0}: finish in the browser", name);
    await vscode.env.openExternal(vscode.Uri.parse(url, true));
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => daemon.request("goalwright/mcp/loggedIn", { name }));
    void vscode.window.showInformationMessage(t("You are signed in to {0}.", name));
  });
}

async function openLog(daemon: Daemon, name: string): Promise<void> {
  await told(async () => {
    const { text } = await daemon.request("goalwright/mcp/log", { name });
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text, language: "log" }));
  });
}

/** Work after the list has closed, and show an error. */
function told(work: () => Promise<void>): Promise<void> {
  return work().catch((error: unknown) => void vscode.window.showErrorMessage(asProblem(error).message));
}

/** Let the user choose the tools of a server that the model is offered. */
async function chooseTools(daemon: Daemon, server: McpServer): Promise<void> {
  const items = server.tools.map(({ tool, description, disabled }) => ({ label: tool, detail: description, picked: !disabled }));
  const chosen = await vscode.window.showQuickPick(items, { canPickMany: true, matchOnDetail: true, title: t("Tools of {0}", server.name), placeHolder: t("Checked tools are offered to the model") });
  if (!chosen) return;
  const wanted = new Set(chosen.map(({ label }) => label));
  await told(async () => {
    for (const { tool, disabled } of server.tools) {
      if (wanted.has(tool) === disabled) await daemon.request("goalwright/mcp/set", { name: `${server.name}/${tool}`, enabled: wanted.has(tool) });
    }
  });
}

function rows({ servers, problems }: McpListResult): Item[] {
  const found: Item[] = servers.map((server) => ({
    label: server.name,
    description: [stateText(server), server.source].join(" · "),
    ...(server.error || server.tools.length > 0 ? { detail: server.error || server.tools.map(({ tool, disabled }) => (disabled ? t("{0} (disabled)", tool) : tool)).join(", ") } : {}),
    iconPath: new vscode.ThemeIcon(ICONS[server.state]),
    buttons: [
      ...(server.state === "signed_out" ? [SIGN_IN] : server.signedIn ? [SIGN_OUT] : []),
      ...(server.state === "disabled" ? [] : [...(server.tools.length > 0 ? [TOOLS] : []), RESTART]),
      SWITCH,
    ],
    server,
  }));
  if (found.length === 0) found.push({ label: t("No MCP servers are configured."), detail: t("Name them under mcp_servers in ~/.goalwright/config.json.") });
  return [...found, ...problems.map((problem) => ({ label: `$(warning) ${t("Not used")}`, detail: problem }))];
}

const STATES: Readonly<Record<Exclude<McpServer["state"], "ready">, string>> = { starting: t("starting"), failed: t("failed"), signed_out: t("needs sign-in"), stopped: t("not started"), disabled: t("disabled") };

function stateText({ state, tools, prompts, resources }: McpServer): string {
  if (state !== "ready") return STATES[state];
  return [t("ready, tools: {0}", tools.length), prompts.length > 0 && t("prompts: {0}", prompts.length), resources > 0 && t("resources: {0}", resources)].filter(Boolean).join(", ");
}
