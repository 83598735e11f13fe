/** The card of an exploration: its branches while they run, then the scoreboard and the choice; and the lines of a sub-agent. */
import type { JSX } from "preact";
import { board } from "../../explore/score";
import { type BranchView, childSession, type ExplorationView, type Explored, type Glimpse, type Outcome, outcomeKey } from "../../explore/view";
import { agentSpent, agentState, type BranchState, brief, lastLine, oneLine, spentWords, STATE_WORDS } from "../../explore/format";
import { TextButton, Verbatim } from "./buttons";
import { Icon, type IconName } from "./icons";
import { bareLine, visible, visibleLine } from "./visible";
import type { FileDiff, PermissionRequest, SubagentMeta } from "../../protocol.gen";
import { Counts } from "./diff";
import { useOpen } from "./hooks";
import { post } from "./host";
import { Markdown } from "./markup";
import { t } from "../../l10n";

interface ExplorationProps {
  sessionId: string;
  view: ExplorationView;
  explored: Explored;
}

export function Exploration({ sessionId, view, explored }: ExplorationProps): JSX.Element {
  const { exploreStartId, branches } = view;
  const outcome = explored.outcomes[outcomeKey(sessionId, exploreStartId)];
  return (
    <div class="exploration" role="group" aria-label={t("Exploration")}>
      <ul class={view.ended ? "branches" : "branches branches-live"} aria-label={t("Branches")}>
        {branches.map((one) => (
          <Branch key={one.branch.id} sessionId={sessionId} view={one} ended={view.ended} explored={explored} />
        ))}
      </ul>
      <Scoreboard view={view} />
      {outcome && <Told outcome={outcome} />}
      {view.awaits && <Question sessionId={sessionId} view={view} busy={outcome?.state === "busy"} />}
    </div>
  );
}

/** Length in characters from which a cell wraps, e.g. the reason why tests did not run; otherwise the board gets too wide. */
const LONG = 24;

/** A table with facts as rows and branches as columns, for comparison. */
function Scoreboard({ view: { branches } }: { view: ExplorationView }): JSX.Element | null {
  const rows = board(branches.map(({ branch }) => branch));
  if (rows.length === 0) return null;
  return (
    <div class="board" tabIndex={0} role="region" aria-label={t("Scoreboard")}>
      <table>
        <thead>
          <tr>
            <td />
            {branches.map(({ branch, chosen }) => (
              <th key={branch.id} scope="col" class={chosen ? "chosen" : ""} title={visibleLine(branch.description)}>
                <span class="letter">{branch.id}</span>
                {chosen && <span class="only-spoken">{` (${t("used")})`}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, hover, cells }) => (
            <tr key={name}>
              <th scope="row" title={hover}>
                {name}
              </th>
              {cells.map(({ text, hover: words, tone }, index) => (
                <td key={index} class={`${tone} ${branches[index]?.chosen ? "chosen" : ""} ${text.length > LONG ? "long" : ""}`} title={visible(words)}>
                  {text}
                  {text === "–" && <span class="only-spoken">{t("not known")}</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The result of the choice; a conflict is shown in full. */
function Told({ outcome: { state, title, detail } }: { outcome: Outcome }): JSX.Element {
  if (state === "busy") return <p class="working shimmer">{visibleLine(title)}</p>;
  return (
    <div class={`told told-${state}`} role={state === "refused" ? "alert" : "status"}>
      <p>
        <Icon name={state === "applied" ? "check" : "warning"} />
        <span>{visibleLine(title)}</span>
      </p>
      {detail && <Verbatim>{visible(detail)}</Verbatim>}
    </div>
  );
}

/** The question which branch to use. */
function Question({ sessionId, view, busy }: { sessionId: string; view: ExplorationView; busy: boolean }): JSX.Element {
  const { exploreStartId, branches } = view;
  const usable = branches.filter(({ branch }) => branch.status === "completed" && !branch.removed);
  return (
    <section class="choice" role="region" aria-label={t("Choose a branch")}>
      <p>
        <Icon name="waiting" />
        <strong>{t("Which branch should be used?")}</strong>
      </p>
      <div class="buttons">
        {usable.map(({ branch }) => (
          <TextButton
            key={branch.id}
            label={t("Use {0}: {1}", branch.id, visibleLine(brief(branch.description)))}
            disabled={busy}
            title={visibleLine(branch.description)}
            message={{ type: "useBranch", sessionId, exploreStartId, choice: [branch.id] }}
          />
        ))}
      </div>
      <div class="buttons">
        <TextButton label={t("Let the model choose")} class="quiet" disabled={busy} message={{ type: "leaveChoice", sessionId, exploreStartId, none: false }} />
        <TextButton label={t("None of them")} class="quiet" disabled={busy} message={{ type: "leaveChoice", sessionId, exploreStartId, none: true }} />
      </div>
    </section>
  );
}

const ICONS: Readonly<Record<BranchState, IconName>> = {
  exploring: "running",
  waiting: "waiting",
  completed: "check",
  abandoned: "denied",
  removed: "denied",
};

interface BranchProps {
  sessionId: string;
  view: BranchView;
  ended: boolean;
  explored: Explored;
}

export function Branch({ sessionId, view, ended, explored }: BranchProps): JSX.Element {
  const { branch, state, requests, chosen } = view;
  const [open, toggle] = useOpen(`branch-${sessionId}-${branch.id}`);
  const words = [STATE_WORDS[state], chosen ? t("used") : ""].filter(Boolean).join(", ");
  const unfold = (): void => {
    if (!open && branch.status !== "exploring" && !branch.removed) post({ type: "branchFiles", sessionId, branchId: branch.id });
    toggle();
  };
  return (
    <li class={`branch branch-${state} ${chosen ? "branch-chosen" : ""}`} aria-label={visibleLine(t("Branch {0}: {1}, {2}", branch.id, oneLine(branch.description), words))}>
      <button type="button" class="branch-head" aria-expanded={open} title={visible(branch.description)} onClick={unfold}>
        <Icon name={ICONS[state]} />
        <span class="letter">{branch.id}</span>
        <span class="branch-title" dir="auto">{visibleLine(oneLine(branch.description))}</span>
        {requests.length > 0 && <span class="badge">{requests.length > 1 ? t("waiting for approval ({0})", requests.length) : t("waiting for approval")}</span>}
        {chosen && <span class="badge badge-good">{t("used")}</span>}
        {(state === "abandoned" || state === "removed") && <span class="remark">{STATE_WORDS[state]}</span>}
        <Icon name="chevron" />
      </button>
      {!ended && (
        <p class="branch-last" dir="auto">{bareLine(lastLine(branch.lastMessage)) || t("Starting…")}</p>
      )}
      {open && <Opened sessionId={sessionId} view={view} explored={explored} />}
      <div class="branch-foot">
        {!ended && <span class="branch-spent">{spentWords(branch.cumulativeStats)}</span>}
        <Actions sessionId={sessionId} view={view} />
      </div>
    </li>
  );
}

/** The branch's report and its changed files. */
function Opened({ sessionId, view: { branch }, explored }: Omit<BranchProps, "ended">): JSX.Element {
  const key = childSession(sessionId, branch.id);
  const files = explored.files[key];
  const problem = explored.problems[key];
  return (
    <div class="branch-body">
      {branch.summary && <p class="said">{visible(branch.summary)}</p>}
      {problem && <p class="failure">{visibleLine(problem)}</p>}
      {files && files.length === 0 && <p class="dim">{t("It changed no file.")}</p>}
      {files && files.length > 0 && (
        <ul class="branch-files" aria-label={t("Files of branch {0}", branch.id)}>
          {files.map((file) => (
            <File key={file.path} sessionId={sessionId} exploreStartId={branch.exploreStartId} branchId={branch.id} file={file} />
          ))}
        </ul>
      )}
    </div>
  );
}

interface FileProps {
  sessionId: string;
  exploreStartId: string;
  branchId: string;
  file: FileDiff;
}

function File({ sessionId, exploreStartId, branchId, file }: FileProps): JSX.Element {
  const { path, kind, added, removed, movedFrom } = file;
  const what = movedFrom ? t("moved") : { create: t("new"), update: "", delete: t("deleted") }[kind];
  return (
    <li>
      <TextButton label={visibleLine(path)} class="path" title={t("Show the changes of {0}", visibleLine(path))} message={{ type: "showBranch", sessionId, branchId, path }} />
      {what && <span class="dim">{what}</span>}
      <Counts added={added} removed={removed} />
      <TextButton
        label={t("Use file")}
        class="quiet"
        aria-label={t("Use file {0} of branch {1}", visibleLine(path), branchId)}
        message={{ type: "useBranch", sessionId, exploreStartId, choice: [`${branchId}:${path}`] }}
      />
    </li>
  );
}

function Actions({ sessionId, view: { branch, state } }: { sessionId: string; view: BranchView }): JSX.Element {
  const { id, exploreStartId } = branch;
  return (
    <div class="branch-actions">
      {state === "completed" && (
        <>
          <TextButton label={t("Show changes")} class="quiet" aria-label={t("Show changes of branch {0}", id)} message={{ type: "showBranch", sessionId, branchId: id }} />
          <TextButton label={t("Use branch")} class="quiet" aria-label={t("Use branch {0}", id)} message={{ type: "useBranch", sessionId, exploreStartId, choice: [id] }} />
        </>
      )}
      <TextButton
        label={t("Open conversation")}
        class="quiet"
        aria-label={t("Open conversation of branch {0}", id)}
        message={{ type: "openRecord", sessionId: childSession(sessionId, id) }}
      />
      {(state === "completed" || state === "abandoned") && (
        <TextButton label={t("Remove")} class="quiet" aria-label={t("Remove branch {0}", id)} message={{ type: "removeBranch", sessionId, branchId: id }} />
      )}
    </div>
  );
}

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
