/** Common parts of all request cards: the header, sending an answer once, and the error if it was rejected. */
import { createContext, type JSX } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Choice } from "../../diff/choice";
import { type Answer, isQuestion } from "../../permission/answers";
import { headline } from "../../permission/format";
import type { PermissionRequest } from "../../protocol.gen";
import { askerName } from "../../explore/format";
import { TextButton } from "./buttons";
import { onEnter } from "./hooks";
import { answerOf, post, saveAnswer, takeAnswer } from "./host";
import { Icon } from "./icons";
import { visible, visibleLine } from "./visible";
import { t } from "../../l10n";

/** Time after which the buttons work again if no response came. */
const PATIENCE_MS = 5_000;

/** True while no daemon can receive an answer. */
export const Away = createContext(false);

/** Return a function that replaces a button's tooltip while nothing can be answered. */
export function useReason(): (title: string) => string {
  const away = useContext(Away);
  return (title) => (away ? t("Not connected: answer when Goalwright is connected again") : title);
}

export interface CardProps {
  request: PermissionRequest;
  choice: Choice;
  count: number;
  /** Position among the requests, from 1. */
  position: number;
  keys: { accept: string; reject: string };
}

/** Send an answer once. The buttons stay disabled until there is a result. */
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
    if (isQuestion(request) || answer.feedback !== undefined) takeAnswer(request);
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

interface FeedbackProps {
  request: PermissionRequest;
  disabled: boolean;
  /** True when the user opened the field; one that is there with its card does not take the focus. */
  opened: boolean;
  send: (text: string) => void;
}

export function Feedback({ request, disabled, opened, send }: FeedbackProps): JSX.Element {
  const [text, setText] = useState(() => answerOf(request).feedback ?? "");
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (opened) field.current?.focus();
  }, []);
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
        onKeyDown={(event) => onEnter(event, () => ready && send(text))}
      />
      <TextButton label={t("Send feedback")} class="primary" disabled={!ready} onClick={() => send(text)} />
    </div>
  );
}
