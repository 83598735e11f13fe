/** The card of an exploration: its branches while they run, then the scoreboard and the choice. */
import type { JSX } from "preact";
import { board } from "../../explore/score";
import { outcomeKey, type Explored, type Outcome } from "../../explore/outcomes";
import type { ExplorationView } from "../../explore/view";
import { brief } from "../../explore/format";
import { TextButton, Verbatim } from "./buttons";
import { Branch } from "./branch";
import { Icon } from "./icons";
import { visible, visibleLine } from "./visible";
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
