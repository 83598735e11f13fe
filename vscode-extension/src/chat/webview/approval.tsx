import type { JSX } from "preact";
import { useContext, useRef, useState } from "preact/hooks";
import { acceptLabel, ALL, isEmpty, rejectLabel, together, type Choice } from "../../diff/choice";
import { askerName } from "../../explore/format";
import { isBudget } from "../../meter/model";
import { draftsOf, isQuestion } from "../../permission/answers";
import type { Places } from "../../permission/format";
import type { PermissionRequest, Scope } from "../../protocol.gen";
import type { Choices } from "../messages";
import { TextButton } from "./buttons";
import { Always } from "./grant_editor";
import { Away, Feedback, Head, Refused, useReason, useReply, type CardProps } from "./request_card";
import { answerOf, post } from "./host";
import { ProposedFile } from "./proposed_file";
import { QuestionCard } from "./question";
import { ModelSays, Notes, Reasons, Warnings } from "./reasons";
import { visible, visibleLine } from "./visible";
import { t } from "../../l10n";

interface ApprovalProps {
  requests: readonly PermissionRequest[];
  choices: Choices;
  keys: { accept: string; reject: string };
  places: Places;
  /** The request in front. */
  request: PermissionRequest;
  onFront: (requestId: string) => void;
  /** True while no daemon can receive an answer. */
  away: boolean;
}

/** The oldest open request, docked above the composer; the user can bring others to the front. */
export function Approval({ requests, request, choices, keys, places, onFront, away }: ApprovalProps): JSX.Element {
  const choice: Choice = choices[request.requestId] ?? ALL;
  const bringForward = (requestId: string): void => {
    onFront(requestId);
    // Show the diff of the request in front.
    post({ type: "openDiff", requestId, quietly: true });
  };
  const edits = together(request, requests);
  const props = { request, choice, one: edits.length < 2, count: requests.length, position: requests.indexOf(request) + 1, keys };
  return (
    <Away.Provider value={away}>
      {requests.length > 1 && <Inbox requests={requests} front={request.requestId} show={bringForward} />}
      <AllAtOnce requests={edits} />
      <AnyCard key={request.requestId} {...props} places={places} />
    </Away.Provider>
  );
}

type AnyCardProps = CardProps & {
  places: Places;
  /** True when no other request is reviewed together with it. */
  one: boolean;
};

function AnyCard(props: AnyCardProps): JSX.Element {
  if (isQuestion(props.request)) return <QuestionCard {...props} />;
  return isBudget(props.request) ? <BudgetCard {...props} /> : <Card {...props} />;
}

/** All pending requests, one line each. Requests of branches can be answered in any order. */
function Inbox({ requests, front, show }: { requests: readonly PermissionRequest[]; front: string; show: (requestId: string) => void }): JSX.Element {
  return (
    <ul class="inbox" aria-label={t("Waiting for approval")}>
      {requests.map((request) => (
        <li key={request.requestId}>
          <button type="button" aria-pressed={request.requestId === front} onClick={() => show(request.requestId)}>
            {request.branchId && <span class="chip asker">{visibleLine(askerName(request.branchId))}</span>}
            <span class="inbox-title" dir="auto" title={visibleLine(request.title)}>
              {visibleLine(request.title)}
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Buttons that answer all edits of a step, which are reviewed as one change. */
function AllAtOnce({ requests }: { requests: readonly PermissionRequest[] }): JSX.Element | null {
  const [first] = requests;
  const away = useContext(Away);
  const reason = useReason();
  if (!first || requests.length < 2) return null;
  const answer = (accepted: boolean) => (): void => post({ type: "answerAll", requestIds: requests.map(({ requestId }) => requestId), accepted });
  return (
    <div class="buttons all-at-once" role="group" aria-label={t("All edits of this step")}>
      <TextButton label={t("Accept all {0} edits", requests.length)} class="primary" disabled={away} title={reason("")} onClick={answer(true)} />
      <TextButton label={t("Reject all")} disabled={away} title={reason("")} onClick={answer(false)} />
      <TextButton label={t("Review changes")} class="quiet" message={{ type: "openDiff", requestId: first.requestId }} />
    </div>
  );
}

function Card({ request, choice, count, position, keys, places, one }: AnyCardProps): JSX.Element {
  const [open, setOpen] = useState<"" | "always" | "feedback">(() => (answerOf(request).feedback ? "feedback" : ""));
  // Kept here, so that neither a rejection nor switching cards loses the user's edits.
  const [drafts, setDrafts] = useState(() => draftsOf(request.suggestions));
  const [scope, setScope] = useState<Scope>("session");
  const opener = useRef<HTMLButtonElement>(null);
  const [sent, reply] = useReply(request, choice);
  const reason = useReason();
  // With a diff, the detail is secondary; without one, it is the command to approve.
  const command = request.files.length === 0 || request.detail.includes("\n") ? request.detail : "";
  const empty = isEmpty(request.files, choice);
  const label = acceptLabel(request, choice);
  const opened = useRef(false);
  const flip = (to: "always" | "feedback") => (): void => {
    opened.current = true;
    setOpen(open === to ? "" : to);
  };
  return (
    <section class="approval" role="region" tabIndex={-1} aria-label={t("Approval needed")}>
      <Head request={request} count={count} position={position} />
      <div class="approval-body">
        {command && (
          <pre class="io command" tabIndex={0}>
            {visible(command)}
          </pre>
        )}
        <Warnings warnings={request.warnings} />
        {request.files.map((file) => (
          <ProposedFile key={file.path} request={request} file={file} choice={choice} />
        ))}
        {!command && request.detail && <p class="rule">{visible(request.detail)}</p>}
        <Notes notes={request.notes} />
        <Reasons request={request} places={places} />
        <ModelSays words={request.modelSays} />
      </div>
      <Refused error={choice.error} />
      {open === "always" && (
        <Always
          drafts={drafts}
          scope={scope}
          disabled={sent || empty}
          onDrafts={setDrafts}
          onScope={setScope}
          onAccept={(grants) => reply({ reply: "always", grants, scope })}
          onClose={() => {
            setOpen("");
            opener.current?.focus();
          }}
        />
      )}
      {open === "feedback" && <Feedback request={request} disabled={sent} opened={opened.current} send={(feedback) => reply({ reply: "reject", feedback })} />}
      <div class="buttons">
        <button
          type="button"
          // While the feedback or grant form is open, its own button is the primary one.
          class={open === "" && one ? "primary" : ""}
          disabled={sent || empty}
          title={reason(empty ? t("Nothing is chosen. To choose nothing, use Reject.") : `${label} (${keys.accept})`)}
          onClick={() => reply({ reply: "once" })}
        >
          {label}
        </button>
        {request.suggestions.length > 0 && (
          <button ref={opener} type="button" disabled={sent} aria-expanded={open === "always"} onClick={flip("always")}>
            {t("Always allow…")}
          </button>
        )}
        <TextButton label={rejectLabel(request)} disabled={sent} title={reason(`${rejectLabel(request)} (${keys.reject})`)} onClick={() => reply({ reply: "reject" })} />
        <TextButton label={t("Suggest changes…")} disabled={sent} aria-expanded={open === "feedback"} onClick={flip("feedback")} />
        {request.files.length > 0 && (
          <TextButton label={request.files.length > 1 ? t("Review changes") : t("Open diff")} class="quiet" message={{ type: "openDiff", requestId: request.requestId }} />
        )}
      </div>
    </section>
  );
}

/** The card for a run that has used up its budget. It offers other answers, because there is nothing to write. */
function BudgetCard({ request, choice, count, position, keys }: CardProps): JSX.Element {
  const [sent, reply] = useReply(request, choice);
  const reason = useReason();
  return (
    <section class="approval" role="region" tabIndex={-1} aria-label={t("Budget reached")}>
      <Head request={request} count={count} position={position} />
      <div class="approval-body">
        <p class="rule">{t("Continuing gives the same amount again. Stopping ends the turn here; all work is kept.")}</p>
      </div>
      <Refused error={choice.error} />
      <div class="buttons">
        <TextButton label={t("Continue")} class="primary" disabled={sent} title={reason(t("Continue ({0})", keys.accept))} onClick={() => reply({ reply: "once" })} />
        <TextButton label={t("No more limit in this session")} disabled={sent} onClick={() => reply({ reply: "always" })} />
        <TextButton label={t("Stop here")} disabled={sent} title={reason(t("Stop here ({0})", keys.reject))} onClick={() => reply({ reply: "reject" })} />
      </div>
    </section>
  );
}
