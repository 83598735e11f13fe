import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import { button, type ListButton, type ListRow, liveList } from "../live_list";
import type { McpListResult, McpServer } from "../protocol.gen";
import { t } from "../l10n";
import { notify, unlinked } from "../notify";

const ICONS = { starting: "loading~spin", ready: "pass", failed: "error", signed_out: "key", stopped: "circle-outline", disabled: "circle-slash" } as const;

/** List the MCP servers, to read their logs, restart them, or switch them or single tools on and off. Throws the daemon's error. */
export async function showServers(daemon: Daemon): Promise<void> {
  await daemon.connect();
  await liveList({ title: t("MCP Servers"), placeholder: t("Enter opens the log"), matchOnDetail: true }, async (_, first) =>
    rows(daemon, await daemon.request("goalwright/mcp/list", { start: first })),
  );
}

/** Open the page where the user signs in to a server, and wait until that is done. */
async function signIn(daemon: Daemon, name: string): Promise<void> {
  const { url } = await daemon.request("goalwright/mcp/login", { name });
  const title = unlinked(t("Signing in to {0}: finish in the browser", name));
  await vscode.env.openExternal(vscode.Uri.parse(url, true));
  await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => daemon.request("goalwright/mcp/loggedIn", { name }));
  void notify("info", t("You are signed in to {0}.", name));
}

async function openLog(daemon: Daemon, name: string): Promise<void> {
  const { text } = await daemon.request("goalwright/mcp/log", { name });
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text, language: "log" }));
}

/** Let the user choose the tools of a server that the model is offered. */
async function chooseTools(daemon: Daemon, server: McpServer): Promise<void> {
  const items = server.tools.map(({ tool, description, disabled }) => ({ label: tool, detail: description, picked: !disabled }));
  const chosen = await vscode.window.showQuickPick(items, { canPickMany: true, matchOnDetail: true, title: t("Tools of {0}", server.name), placeHolder: t("Checked tools are offered to the model") });
  if (!chosen) return;
  const wanted = new Set(chosen.map(({ label }) => label));
  for (const { tool, disabled } of server.tools) {
    if (wanted.has(tool) === disabled) await daemon.request("goalwright/mcp/set", { name: `${server.name}/${tool}`, enabled: wanted.has(tool) });
  }
}

function rows(daemon: Daemon, { servers, problems }: McpListResult): ListRow[] {
  const found = servers.map((server): ListRow => ({
    label: server.name,
    description: [stateText(server), server.source].join(" · "),
    ...(server.error || server.tools.length > 0 ? { detail: server.error || server.tools.map(({ tool, disabled }) => (disabled ? t("{0} (disabled)", tool) : tool)).join(", ") } : {}),
    iconPath: new vscode.ThemeIcon(ICONS[server.state]),
    buttons: buttons(daemon, server),
    enter: server.state === "disabled" ? undefined : () => openLog(daemon, server.name),
    changing: server.state === "starting",
  }));
  if (found.length === 0) found.push({ label: t("No MCP servers are configured."), detail: t("Name them under mcp_servers in ~/.goalwright/config.json.") });
  return [...found, ...problems.map((problem) => ({ label: `$(warning) ${t("Not used")}`, detail: problem }))];
}

function buttons(daemon: Daemon, server: McpServer): ListButton[] {
  const { name, state, signedIn, tools } = server;
  const stay = (work: () => Promise<McpListResult>): Pick<ListButton, "stay"> => ({ stay: async () => rows(daemon, await work()) });
  const found: ListButton[] = [];
  if (state === "signed_out") found.push(button("sign-in", t("Sign in"), { leave: () => signIn(daemon, name) }));
  else if (signedIn) found.push(button("sign-out", t("Sign out"), stay(() => daemon.request("goalwright/mcp/logout", { name }))));
  if (state !== "disabled" && tools.length > 0) found.push(button("tools", t("Choose tools"), { leave: () => chooseTools(daemon, server) }));
  if (state !== "disabled") found.push(button("debug-restart", t("Restart"), stay(() => daemon.request("goalwright/mcp/restart", { name }))));
  return [...found, button("circle-slash", t("Enable or disable"), stay(() => daemon.request("goalwright/mcp/set", { name, enabled: state === "disabled" })))];
}

const STATES: Readonly<Record<Exclude<McpServer["state"], "ready">, string>> = { starting: t("starting"), failed: t("failed"), signed_out: t("needs sign-in"), stopped: t("not started"), disabled: t("disabled") };

function stateText({ state, tools, prompts, resources }: McpServer): string {
  if (state !== "ready") return STATES[state];
  return [t("ready, tools: {0}", tools.length), prompts.length > 0 && t("prompts: {0}", prompts.length), resources > 0 && t("resources: {0}", resources)].filter(Boolean).join(", ");
}
