/** What all questions have in common: their head, an answer that is sent once, and why it was not taken. */
import { createContext, type JSX } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { Choice } from "../../diff/choice";
import type { Answer } from "../../permission/grants";
import { headline } from "../../permission/words";
import type { PermissionRequest } from "../../protocol.gen";
import { askerName } from "../../explore/words";
import { answerOf, post, saveAnswer } from "./host";
import { Icon } from "./icons";
import { visible, visibleLine } from "./visible";
import { t } from "../../l10n";

/** After this time the buttons work again, should an answer have got lost. */
const PATIENCE_MS = 5_000;

/** True while no daemon is there to take an answer. */
export const Away = createContext(false);

/** Why nothing can be answered now, as the tooltip of a button in place of its own. */
export function useReason(): (title: string) => string {
  const away = useContext(Away);
  return (title) => (away ? t("Not connected: answer when Goalwright is connected again") : title);
}

export interface CardProps {
  request: PermissionRequest;
  choice: Choice;
  count: number;
  /** Its place among them, from 1. */
  position: number;
  keys: { accept: string; reject: string };
}

/** Sends the answer once; the buttons wait for what comes of it, and for a daemon that takes it. */
export function useReply(request: PermissionRequest, { error }: Choice): [boolean, (answer: Answer) => void] {
  const [sent, setSent] = useState(false);
  const away = useContext(Away);
  useEffect(() => {
    const timer = sent ? setTimeout(() => setSent(false), PATIENCE_MS) : undefined;
    return () => clearTimeout(timer);
  }, [sent]);
  useEffect(() => {
    if (error) setSent(false);
  }, [error]);
  const reply = (answer: Answer): void => {
    setSent(true);
    saveAnswer(request, undefined);
    post({ type: "reply", requestId: request.requestId, answer });
  };
  return [sent || away, reply];
}

export function Head({ request, count, position }: Pick<CardProps, "request" | "count" | "position">): JSX.Element {
  const { branchId } = request;
  return (
    <header>
      <Icon name="waiting" />
      <h2>{visibleLine(headline(request))}</h2>
      {branchId && (
        <span class="chip asker" title={t("Asked by a branch or sub-agent of this session")}>
          <span class="only-spoken">{`${t("asked by")} `}</span>
          {visibleLine(askerName(branchId))}
        </span>
      )}
      {count > 1 && <span class="dim count">{t("{0} of {1}", position, count)}</span>}
    </header>
  );
}

export function Refused({ error }: { error: string }): JSX.Element | null {
  if (!error) return null;
  return (
    <p class="refused" role="alert">
      <Icon name="warning" />
      <span>{visible(error)}</span>
    </p>
  );
}

export function Feedback({ request, disabled, send }: { request: PermissionRequest; disabled: boolean; send: (text: string) => void }): JSX.Element {
  const [text, setText] = useState(() => answerOf(request).feedback ?? "");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const ready = text.trim() !== "" && !disabled;
  return (
    <div class="extra">
      <textarea
        ref={field}
        rows={2}
        dir="auto"
        aria-label={t("Feedback")}
        placeholder={t("What should be different?")}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          saveAnswer(request, { feedback: event.currentTarget.value });
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          if (ready) send(text);
        }}
      />
      <button type="button" class="primary" disabled={!ready} onClick={() => send(text)}>
        {t("Send feedback")}
      </button>
    </div>
  );
}
