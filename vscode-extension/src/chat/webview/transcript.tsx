import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Part } from "../../protocol.gen";
import { goalMarks, grouped, lines } from "../../session/lines";
import { planAnswers, plannedWork } from "../../session/plan";
import type { Item, SessionState } from "../../session/state";
import type { Outgoing } from "../../session/controller";
import type { Explored } from "../../explore/view";
import { lineCounts, turnChanges } from "../../history/format";
import type { Changes, Surrounding } from "../messages";
import { lastPrompt } from "../../composer/text";
import { TextButton } from "./buttons";
import { Connect } from "./welcome";
import { Counts } from "./diff";
import { Compaction, Fixes, GoalMark, MessageView, NoticeLine, UserText } from "./message";
import { plural, t } from "../../l10n";

interface TranscriptProps {
  session: SessionState;
  outbox: readonly Outgoing[];
  changes: Changes;
  explored: Explored;
  /** Model servers on this machine, for a session without a model. */
  local: Surrounding["local"];
  /** True for the session itself, false for a read-only record. */
  own: boolean;
}

/** The lines of the conversation, with marks where work on another goal begins. */
export function Transcript({ session, outbox, changes, explored, local, own: editable }: TranscriptProps): JSX.Element {
  const { items, retry, goalTree } = session;
  const shown = lines(items, session.session.status !== "idle" || session.compacting);
  const last = shown.at(-1);
  const compacting = last?.kind === "compaction" && !last.summary;
  // A streaming summary of a compaction is not an answer.
  const streaming = compacting ? null : session.streaming;
  const busy = session.session.status === "running";
  const marks = goalMarks(shown, session);
  const plans = planAnswers(items);
  const own = firstOwn(session);
  const drawn = grouped(shown, session.pending, (key) => key === own || marks.has(key));
  const idle = editable && session.session.status === "idle" && outbox.length === 0;
  const prompt = idle ? lastPrompt(items) : undefined;
  return (
    <>
      {drawn.map((item) => (
        <div class="line" key={item.key}>
          {item.key === own && <p class="from-main" role="separator"><span>{t("Shared history")}</span></p>}
          <GoalMark goalId={marks.get(item.key)} tree={goalTree} />
          {item.kind === "compaction" ? (
            <Compaction line={item} />
          ) : item.kind === "message" ? (
            <MessageView
              id={item.key}
              role={item.message.role}
              parts={item.parts}
              session={session}
              changes={changes}
              explored={explored}
              streaming={false}
              editable={editable}
              retryable={item.key === prompt?.key}
              plans={plans.keys.has(item.key)}
              marks={marksIn(item.message.content, marks)}
            />
          ) : (
            <NoticeLine level={item.level} text={item.text} code={item.code} past={item !== last} />
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
      {session.session.status === "idle" && outbox.length === 0 && <ChangedFiles items={items} changes={changes} />}
      {prompt && <AfterTurn session={session} />}
      {prompt && session.session.demo && <Connect local={local} />}
      <Unsent outbox={outbox} />
      {retry ? (
        <Retrying key={retry.attempt} retry={retry} />
      ) : (
        busy && !compacting && !isTelling(session) && <p class="working shimmer">{t("Working…")}</p>
      )}
    </>
  );
}

/** Prompts that the daemon has not confirmed yet. */
export function Unsent({ outbox }: Pick<TranscriptProps, "outbox">): JSX.Element[] {
  return outbox.map((one) => (
    <article key={one.promptId} class="message user unsent" aria-label={t("You")}>
      <UserText id={one.promptId} text={one.text} />
    </article>
  ));
}

/** Buttons for a turn that ended early. */
function AfterTurn({ session: { session, errorKind, goalTree, items } }: { session: SessionState }): JSX.Element | null {
  const reason = session.trace.lastStopReason;
  const work = plannedWork(session, goalTree);
  if (reason === "end_turn" && work && !session.demo) {
    return (
      <div class="buttons">
        {/* An answer without goals may answer a question instead of planning, so the button is not primary. */}
        <TextButton label={t("Build this plan")} class={work === "goals" ? "primary" : ""} message={{ type: "command", command: "buildPlan" }} />
      </div>
    );
  }
  // An error without a kind means that the daemon was killed; the text until then is kept.
  const goesOn = reason === "canceled" || reason === "max_tokens" || (reason === "error" && errorKind === "");
  // A model was connected after the demo answered, so the user may want to retry.
  const demoAnswered = !session.demo && answeredBy(items).startsWith("demo");
  if (!goesOn && !demoAnswered && reason !== "error") return null;
  return (
    <div class="buttons">
      {goesOn && (
        <TextButton label={t("Continue")} message={{ type: "continue" }} />
      )}
      <TextButton label={t("Retry")} message={{ type: "retry" }} />
      {errorKind && <Fixes errorKind={errorKind} provider={session.model.split("/", 1)[0] ?? ""} />}
    </div>
  );
}

/** Return the model of the newest answer; empty when there is none. */
function answeredBy(items: readonly Item[]): string {
  const last = items.findLast((item) => item.kind === "message" && item.message.role === "assistant");
  return (last?.kind === "message" && last.message.model) || "";
}

/** Return the key of a branch's first message that does not come from the main session; undefined if none is marked. */
function firstOwn({ items, session }: SessionState): string | undefined {
  const inherited = "inherited" in session.trace ? session.trace.inherited : 0;
  if (typeof inherited !== "number" || inherited === 0) return undefined;
  const messages = items.flatMap((item) => (item.kind === "message" ? [item] : []));
  const at = messages.findIndex((item) => item.message.sequence > inherited);
  return at > 0 ? messages[at]?.key : undefined;
}

/** A countdown to the next retry. Screen readers announce it once, not every second. */
function Retrying({ retry }: { retry: NonNullable<SessionState["retry"]> }): JSX.Element {
  const [left, setLeft] = useState(Math.round(retry.delayS));
  useEffect(() => {
    const timer = setInterval(() => setLeft((seconds) => seconds - 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const when = left > 0 ? t("Retrying in {0} s", left) : t("Retrying…");
  const which = retry.attempts > 1 ? t("({0} of {1})", retry.attempt, retry.attempts - 1) : "";
  return (
    <>
      <NoticeLine level="warning" text={[sentence(retry.reason), when, which].filter(Boolean).join(" ")} past />
      <span class="only-spoken" role="status">
        {[sentence(retry.reason), t("Retrying in {0} s", Math.round(retry.delayS))].join(" ")}
      </span>
    </>
  );
}

/** Capitalize a text and end it with a period. */
function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?…。！？]$/.test(trimmed) ? "" : ".");
}

/** Return true when something on the page already moves: streaming text or a running tool. */
function isTelling(session: SessionState): boolean {
  if (session.streaming && session.streaming.parts.length > 0) return true;
  const last = session.items.at(-1);
  if (last?.kind !== "message") return false;
  return last.message.content.some((part) => part.type === "tool_call" && !session.results[part.id]);
}

/** Return `marks` if work on another goal begins in these parts, else undefined, so that most messages are not rendered again. */
function marksIn(parts: readonly Part[], marks: ReadonlyMap<string, string>): ReadonlyMap<string, string> | undefined {
  return parts.some((part) => part.type === "tool_call" && marks.has(part.id)) ? marks : undefined;
}

/** The files that the last turn changed, with buttons to review or undo them. */
function ChangedFiles({ items, changes }: { items: readonly Item[]; changes: Changes }): JSX.Element | null {
  const turn = turnChanges(items, changes);
  if (!turn) return null;
  const { added, removed } = lineCounts(turn.files);
  return (
    <section class="changed" aria-label={t("Changed files")}>
      <span class="changed-count">{plural(turn.files.length, "{0} file changed", "{0} files changed")}</span>
      <Counts added={added} removed={removed} />
      <div class="buttons">
        <TextButton label={t("Review")} message={{ type: "reviewSince", messageId: turn.messageId }} />
        <TextButton label={t("Undo…")} message={{ type: "restoreBefore", messageId: turn.messageId }} />
      </div>
    </section>
  );
}
