/** A sub-agent below the line of its `task` call. */
import type { JSX } from "preact";
import { childSession } from "../../explore/children";
import type { Glimpse } from "../../explore/outcomes";
import { agentSpent, agentState } from "../../explore/format";
import type { PermissionRequest, SubagentMeta } from "../../protocol.gen";
import { TextButton } from "./buttons";
import { useOpen } from "./hooks";
import { Markdown } from "./markup";
import { bareLine, visibleLine } from "./visible";
import { t } from "../../l10n";

interface TaskProps {
  sessionId: string;
  agent: SubagentMeta;
  requests: readonly PermissionRequest[];
  /** The sub-agent's current activity. */
  glimpse: Glimpse | undefined;
}

export function Task({ sessionId, agent, requests, glimpse }: TaskProps): JSX.Element {
  const steps = agent.messageCount === 0 && glimpse ? { ...agent, messageCount: glimpse.messages } : agent;
  const [open, toggle] = useOpen(`task-${sessionId}-${agent.id}`);
  const long = agent.summary.includes("\n") || agent.summary.length > 120;
  return (
    <div class="task" role="group" aria-label={visibleLine(t("Sub-agent {0}, {1}, {2}", agent.id, agent.agent, agentState(agent)))}>
      <p class="task-line">
        <span class="letter">{agent.id}</span>
        <span>{visibleLine(agent.agent)}</span>
        <span class="dim">{[agentState(agent), agentSpent(steps)].filter(Boolean).join(" · ")}</span>
        {requests.length > 0 && <span class="badge">{t("waiting for approval")}</span>}
      </p>
      {agent.status === "running" && glimpse?.line && <p class="branch-last">{bareLine(glimpse.line)}</p>}
      {agent.summary && !open && <p class="branch-last">{bareLine(agent.summary.trim().split("\n", 1)[0] ?? "")}</p>}
      {agent.summary && open && <Markdown text={agent.summary} />}
      <div class="branch-actions">
        {long && (
          <TextButton label={open ? t("Show less") : t("Show answer")} class="quiet" aria-expanded={open} onClick={toggle} />
        )}
        <TextButton
          label={t("Open conversation")}
          class="quiet"
          aria-label={t("Open conversation of sub-agent {0}", agent.id)}
          message={{ type: "openRecord", sessionId: childSession(sessionId, agent.id) }}
        />
      </div>
    </div>
  );
}
