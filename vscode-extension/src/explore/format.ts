/** Texts for branches, sub-agents and agents. Pure. */
import { messagesWord, money, tokensWord } from "../amounts";
import type { AgentInfo, BranchMeta, GoalStats, Message, PermissionRequest, SubagentMeta } from "../protocol.gen";
import { argumentsOf, mainArgument } from "../session/tools";
import { t } from "../l10n";

/** Name a requester: `Branch A`, `Branch A, sub-agent s1`, `Sub-agent s1`. */
export function askerName(branchId: string): string {
  const names = branchId.split(".").map((id) => (/^s\d+$/.test(id) ? t("sub-agent {0}", id) : t("branch {0}", id)));
  return capital(names.join(", "));
}

/** Return a request's title with its branch: `Branch A · Edit src/x.py`. Requests of the session itself have no prefix. */
export function requestTitle({ title, branchId }: Pick<PermissionRequest, "title" | "branchId">): string {
  return branchId ? `${askerName(branchId)} · ${title}` : title;
}

/** Label a branch: `A: JWT with refresh tokens`. */
export function branchLabel({ id, description }: Pick<BranchMeta, "id" | "description">): string {
  return `${id}: ${oneLine(description)}`;
}

export type BranchState = "exploring" | "waiting" | "completed" | "abandoned" | "removed";

export const STATE_WORDS: Readonly<Record<BranchState, string>> = {
  exploring: t("exploring"),
  waiting: t("waiting for approval"),
  completed: t("done"),
  abandoned: t("abandoned"),
  removed: t("removed"),
};

export function branchState(branch: BranchMeta, waiting: boolean): BranchState {
  if (branch.removed) return "removed";
  if (branch.status !== "exploring") return branch.status;
  return waiting ? "waiting" : "exploring";
}

/** Format messages, tokens and cost: `5 messages · 3.4k tokens · $0.02`. */
export function spentWords({ messageCount, totalTokens, totalCost, unpricedTokens }: Omit<GoalStats, "durationMs" | "preview">): string {
  return [
    messageCount > 0 ? messagesWord(messageCount) : "",
    totalTokens > 0 ? tokensWord(totalTokens) : "",
    totalCost > 0 || unpricedTokens > 0 ? money(totalCost, unpricedTokens) : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** Summarize a message in one line: its last text, or else its last call. */
export function lastLine(message: Message | null): string {
  // A branch's prompt is written for the model.
  if (!message || message.role === "user") return "";
  for (const part of [...message.content].reverse()) {
    if (part.type === "text" && part.text.trim()) return oneLine(part.text.trim().split("\n").at(-1) ?? "");
    if (part.type === "tool_call") return oneLine(`${part.name} ${mainArgument(argumentsOf(part.input))}`);
    if (part.type === "tool_result") return oneLine(part.title.startsWith(part.name) ? part.title : `${part.name} ${part.title}`);
  }
  return "";
}

const AGENT_STATES: Readonly<Record<SubagentMeta["status"], string>> = { running: t("at work"), completed: t("done"), failed: t("failed") };

export function agentState({ status }: SubagentMeta): string {
  return Object.hasOwn(AGENT_STATES, status) ? AGENT_STATES[status] : status;
}

/** Format a sub-agent's usage: `4 messages · 12k tokens · $0.03`. */
export function agentSpent({ messageCount, usage, cost }: SubagentMeta): string {
  const totalTokens = usage.input + usage.output + usage.cacheRead + usage.cacheWrite;
  return spentWords({ messageCount, totalTokens, totalCost: cost, unpricedTokens: usage.unpriced });
}

export function brief(text: string): string {
  return shortened(oneLine(text), 48);
}

/** Cut a line to a number of characters. */
export function shortened(line: string, most: number): string {
  return line.length > most ? `${line.slice(0, most - 1).trimEnd()}…` : line;
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The default agent of sessions. */
export const USUAL_AGENT = "build";

const WHOSE: Readonly<Record<AgentInfo["source"], string>> = { shipped: "", user: t("yours"), workspace: t("from this folder") };

export function agentRow({ name, description, source, model }: AgentInfo): { label: string; description: string; detail: string } {
  const whose = Object.hasOwn(WHOSE, source) ? WHOSE[source] : source;
  return { label: name, description: [whose, model ?? ""].filter(Boolean).join(" · "), detail: oneLine(description) };
}
