import * as vscode from "vscode";
import type { Parts } from "../extension";
import type { Daemon } from "../daemon/daemon";
import { agentRow, USUAL_AGENT } from "./format";
import { t } from "../l10n";

type AgentParts = Pick<Parts, "daemon" | "sessions" | "chat">;

/** Start a session with an agent that the user chooses: built-in, user-defined, or from a trusted folder. */
export async function newSessionWith({ daemon, sessions, chat }: AgentParts): Promise<void> {
  await daemon.connect();
  const picked = await pickAgent(daemon, t("New session with an agent"));
  if (!picked) return;
  await sessions.startNew(picked);
  await chat.focus();
}

/** Let the user choose the agent of the current session, or of a new one. */
export async function chooseAgent({ daemon, sessions }: AgentParts): Promise<void> {
  await daemon.connect();
  const now = sessions.agentName ?? USUAL_AGENT;
  const agent = await pickAgent(daemon, t("Agent of this session"), now);
  if (!agent || agent === now) return;
  const { sessionId } = sessions;
  if (sessionId) await daemon.request("goalwright/session/set", { sessionId, agent });
  else await sessions.startNew(agent);
}

/** Let the user choose an agent; `now` is marked. Returns its name. Agents that cannot be used are listed with the reason. */
async function pickAgent(daemon: Daemon, title: string, now?: string): Promise<string | undefined> {
  const { agents, problems } = await daemon.request("goalwright/agent/list", {});
  const items: (vscode.QuickPickItem & { agent?: string })[] = agents
    .filter(({ primary }) => primary)
    .map((agent) => ({ ...agentRow(agent), ...(agent.name === now ? { description: t("current") } : {}), agent: agent.name }));
  const broken = problems.map((problem) => ({ label: `$(warning) ${t("Not used")}`, detail: problem }));
  if (broken.length > 0) items.push({ label: t("Problems"), kind: vscode.QuickPickItemKind.Separator }, ...broken);
  return (await vscode.window.showQuickPick(items, { title, placeHolder: t("Which agent?"), matchOnDetail: true }))?.agent;
}

/** Start a session of the init or execute agent with the current session's knowledge. The current session must be idle. */
export async function handOver({ daemon, sessions, chat }: AgentParts): Promise<void> {
  const { sessionId } = sessions;
  if (!sessionId) return;
  const targets: (vscode.QuickPickItem & { agent: "init" | "execute" })[] = [
    { label: t("Execute"), description: "execute", detail: t("Carries out the design of this session"), agent: "execute" },
    { label: t("Init"), description: "init", detail: t("Revises the design with the results of this session"), agent: "init" },
  ];
  const picked = await vscode.window.showQuickPick(targets, { title: t("Hand over"), placeHolder: t("Which agent takes over?"), matchOnDetail: true });
  if (!picked) return;
  const { session } = await daemon.request("goalwright/session/handover", { sessionId, agent: picked.agent });
  await sessions.open(session.trace.traceId);
  await chat.focus();
}

/** Hand the plan of a planning session over to the build agent. */
export async function buildPlan({ daemon, sessions, chat }: AgentParts): Promise<void> {
  const { state, sessionId } = sessions;
  if (!state || !sessionId) return;
  const { session } = await daemon.request("goalwright/plan/build", { sessionId });
  if (session.trace.traceId !== sessionId) await sessions.open(session.trace.traceId);
  await chat.reveal();
}

/** Replan the rest of the plan, with the user's reason. */
export async function replan({ daemon, sessions, chat }: AgentParts): Promise<void> {
  const { sessionId } = sessions;
  if (!sessionId) return;
  const reason = await vscode.window.showInputBox({
    title: t("Replan"),
    prompt: t("What is wrong with the plan, or what has changed? Leave it empty to plan again from here."),
    ignoreFocusOut: true,
  });
  if (reason === undefined) return;
  await chat.reveal();
  const { detail } = await daemon.request("goalwright/plan/replan", { sessionId, reason: reason.trim() });
  if (detail) vscode.window.setStatusBarMessage(`Goalwright: ${detail}`, 6_000);
}
