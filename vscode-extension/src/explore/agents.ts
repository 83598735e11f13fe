import * as vscode from "vscode";
import type { ChatView } from "../chat/view";
import type { Daemon } from "../daemon/daemon";
import type { AgentInfo } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { agentRow, USUAL_AGENT } from "./agent_words";
import { t } from "../l10n";

interface Parts {
  daemon: Daemon;
  sessions: SessionController;
  chat: ChatView;
}

/** A new session of an agent that the person picks: shipped ones, their own, and those of a trusted folder. */
export async function newSessionWith({ daemon, sessions, chat }: Parts): Promise<void> {
  await daemon.connect();
  const { agents, problems } = await daemon.request("goalwright/agent/list", {});
  const items: (vscode.QuickPickItem & { agent?: AgentInfo })[] = agents.filter(({ primary }) => primary).map((agent) => ({ ...agentRow(agent), agent }));
  const broken = problems.map((problem) => ({ label: `$(warning) ${t("Not used")}`, detail: problem }));
  if (broken.length > 0) items.push({ label: t("Problems"), kind: vscode.QuickPickItemKind.Separator }, ...broken);
  const picked = await vscode.window.showQuickPick(items, { title: t("New session with an agent"), placeHolder: t("Which agent?"), matchOnDetail: true });
  if (!picked?.agent) return;
  await sessions.startNew(picked.agent.name);
  await chat.focus();
}

/** Lets the user choose the agent that goes on with the session on display, or that begins the next one. */
export async function chooseAgent({ daemon, sessions }: Parts): Promise<void> {
  await daemon.connect();
  const { agents } = await daemon.request("goalwright/agent/list", {});
  const now = sessions.agentName ?? USUAL_AGENT;
  const items = agents.filter(({ primary }) => primary).map((agent) => ({ ...agentRow(agent), ...(agent.name === now ? { description: t("current") } : {}), agent }));
  const picked = await vscode.window.showQuickPick(items, { title: t("Agent of this session"), placeHolder: t("Which agent?"), matchOnDetail: true });
  if (!picked || picked.agent.name === now) return;
  const { sessionId } = sessions;
  if (sessionId) await daemon.request("goalwright/session/set", { sessionId, agent: picked.agent.name });
  else await sessions.startNew(picked.agent.name);
}

/** A new session of the init or the execute agent that begins with what this one knows. The work of this one must rest. */
export async function handOver({ daemon, sessions, chat }: Parts): Promise<void> {
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

/** Hands the plan of a planning session over to the agent that builds. */
export async function buildPlan({ daemon, sessions, chat }: Parts): Promise<void> {
  const { state, sessionId } = sessions;
  if (!state || !sessionId) return;
  const { session } = await daemon.request("goalwright/plan/build", { sessionId });
  if (session.trace.traceId !== sessionId) await sessions.open(session.trace.traceId);
  await chat.reveal();
}

/** Has the rest of the plan made anew, with what the person says against it. */
export async function replan({ daemon, sessions, chat }: Parts): Promise<void> {
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
