import type { JSX } from "preact";
import type { GoalTree } from "../../protocol.gen";
import { goalNumbers, goalOf } from "../../session/numbers";
import { lines, type Line } from "../../session/lines";
import { planAnswers } from "../../session/plan";
import type { SessionState } from "../../session/state";
import type { Outgoing } from "../../session/controller";
import type { Explored } from "../../explore/shown";
import type { Changes } from "../messages";
import { lastPrompt } from "../../composer/text";
import { memo } from "./hooks";
import { post } from "./host";
import { Icon } from "./icons";
import { Compaction, MessageView, NoticeLine, UserText } from "./message";
import { t } from "../../l10n";

interface TranscriptProps {
  session: SessionState;
  outbox: readonly Outgoing[];
  changes: Changes;
  explored: Explored;
  /** The session on display, and not a record that is only read. */
  own: boolean;
}

/** The lines of the conversation, with a mark where work on another goal begins. */
export function Transcript({ session, outbox, changes, explored, own: editable }: TranscriptProps): JSX.Element {
  const { items, retry, goalTree } = session;
  const shown = lines(items, session.session.status !== "idle");
  const last = shown.at(-1);
  const compacting = last?.kind === "compaction" && !last.summary;
  // A summary that is being written is no answer.
  const streaming = compacting ? null : session.streaming;
  const busy = session.session.status === "running";
  const marks = goalMarks(shown);
  const plans = planAnswers(items);
  const own = firstOwn(session);
  const idle = editable && session.session.status === "idle" && outbox.length === 0;
  const prompt = idle ? lastPrompt(items) : undefined;
  return (
    <>
      {shown.map((item) => (
        <div class="line" key={item.key}>
          {item.key === own && <p class="from-main" role="separator"><span>{t("From the main line up to here")}</span></p>}
          {mark(marks.get(item.key), goalTree)}
          {item.kind === "compaction" ? (
            <Compaction line={item} />
          ) : item.kind === "message" ? (
            <MessageView
              id={item.key}
              role={item.message.role}
              parts={item.message.content}
              session={session}
              changes={changes}
              explored={explored}
              streaming={false}
              editable={editable}
              retryable={item.key === prompt?.key}
              plans={plans.keys.has(item.key)}
            />
          ) : (
            <NoticeLine level={item.level} text={item.text} code={item.code} />
          )}
        </div>
      ))}
      {streaming && streaming.parts.length > 0 && (
        <div class="line" key={streaming.messageId}>
          {null}
          <MessageView
            id={streaming.messageId}
            role="assistant"
            parts={streaming.parts}
            session={session}
            changes={changes}
            explored={explored}
            streaming={true}
            editable={false}
            retryable={false}
            plans={plans.awaited}
          />
        </div>
      )}
      {prompt && <AfterTurn session={session} />}
      {outbox.map((one) => (
        <article key={one.promptId} class="message user unsent" aria-label={t("You")}>
          <UserText id={one.promptId} text={one.text} />
        </article>
      ))}
      {retry ? (
        <NoticeLine
          level="warning"
          text={t("{0} Trying again in {1} s (attempt {2}).", sentence(retry.reason), Math.max(1, Math.round(retry.delayS)), retry.attempt)}
        />
      ) : (
        busy && !compacting && !isTelling(session) && <p class="working shimmer">{t("Working…")}</p>
      )}
    </>
  );
}

/** What can be done about a turn that did not come to its end. */
function AfterTurn({ session: { session } }: { session: SessionState }): JSX.Element | null {
  const reason = session.trace.lastStopReason;
  const goesOn = reason === "canceled" || reason === "max_tokens";
  if (!goesOn && reason !== "error") return null;
  return (
    <div class="buttons">
      {goesOn && (
        <button type="button" onClick={() => post({ type: "continue" })}>
          {t("Continue")}
        </button>
      )}
      <button type="button" onClick={() => post({ type: "retry" })}>
        {t("Retry")}
      </button>
    </div>
  );
}

/** Key of the first message of a branch that it did not get from the main line; undefined where there is no such mark. */
function firstOwn({ items, session }: SessionState): string | undefined {
  const inherited = "inherited" in session.trace ? session.trace.inherited : 0;
  if (typeof inherited !== "number" || inherited === 0) return undefined;
  const messages = items.flatMap((item) => (item.kind === "message" ? [item] : []));
  const at = messages.findIndex((item) => item.message.sequence > inherited);
  return at > 0 ? messages[at]?.key : undefined;
}

/** With a capital in front and a full stop at the end. */
function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?…。！？]$/.test(trimmed) ? "" : ".");
}

/** Something on the page is moving already: a text that grows, or a tool that runs. */
function isTelling(session: SessionState): boolean {
  if (session.streaming && session.streaming.parts.length > 0) return true;
  const last = session.items.at(-1);
  if (last?.kind !== "message") return false;
  return last.message.content.some((part) => part.type === "tool_call" && !session.results[part.id]);
}

/** Goal of each line at which the goal changes, by the line's key. */
function goalMarks(items: readonly Line[]): Map<string, string> {
  const marks = new Map<string, string>();
  let current: string | null = null;
  for (const item of items) {
    if (item.kind !== "message" || item.message.role !== "assistant") continue;
    const { goalId } = item.message;
    if (goalId && goalId !== current) marks.set(item.key, goalId);
    current = goalId;
  }
  return marks;
}

function mark(goalId: string | undefined, tree: GoalTree): JSX.Element | null {
  return goalId === undefined ? null : <GoalMark goalId={goalId} tree={tree} />;
}

const GoalMark = memo(({ goalId, tree }: { goalId: string; tree: GoalTree }): JSX.Element | null => {
  const goal = goalOf(tree, goalId);
  if (!goal) return null;
  const number = goalNumbers(tree).get(goalId);
  return (
    <p class="goal-mark" title={goal.description}>
      <Icon name="goal" />
      <span>{number ? `${number} ${goal.description}` : goal.description}</span>
    </p>
  );
});
