/** One branch in the card of its exploration. */
import type { JSX } from "preact";
import { childSession } from "../../explore/children";
import type { Explored } from "../../explore/outcomes";
import type { BranchView } from "../../explore/view";
import { fileChoiceOf, lastLine, oneLine, spentWords, STATE_WORDS, type BranchState } from "../../explore/format";
import type { FileDiff } from "../../protocol.gen";
import { TextButton } from "./buttons";
import { Counts } from "./diff";
import { useOpen } from "./hooks";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { bareLine, visible, visibleLine } from "./visible";
import { t } from "../../l10n";

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
        message={{ type: "useBranch", sessionId, exploreStartId, choice: [fileChoiceOf(branchId, path)] }}
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
