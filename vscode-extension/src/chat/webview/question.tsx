import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { emptyAnswers, isAnswered, withOption } from "../../permission/answers";
import type { Question, QuestionAnswer } from "../../protocol.gen";
import { Head, Refused, useReason, useReply, type CardProps } from "./request_card";
import { onEnter } from "./hooks";
import { answerOf, saveAnswer } from "./host";
import { visible, visibleLine } from "./visible";
import { plural, t } from "../../l10n";

/** Questions of the model or an MCP server, with options and a field for free text. */
export function QuestionCard({ request, choice, count, position }: CardProps): JSX.Element {
  const { requestId, questions } = request;
  const [answers, setAnswers] = useState(() => answerOf(request).answers ?? emptyAnswers(questions));
  const [sent, reply] = useReply(request, choice);
  const reason = useReason();
  const ready = isAnswered(answers) && !sent;
  const ofServer = request.permission === "mcp_elicitation";
  const title = ofServer ? visibleLine(request.title) : plural(questions.length, "Goalwright has a question", "Goalwright has {0} questions");
  const change = (at: number, answer: QuestionAnswer): void => {
    const next = answers.map((one, index) => (index === at ? answer : one));
    saveAnswer(request, { answers: next });
    setAnswers(next);
  };
  const send = (): void => {
    if (ready) reply({ reply: "once", answers });
  };
  return (
    <section class="approval question" role="region" tabIndex={-1} aria-label={t("Question")}>
      <Head request={{ ...request, title }} count={count} position={position} />
      <div class="approval-body">
        {questions.map((question, at) => (
          <Asked key={at} question={question} name={`${requestId}-${at}`} answer={answers[at] ?? { chosen: [], text: "" }} onChange={(answer) => change(at, answer)} onSend={send} />
        ))}
      </div>
      <Refused error={choice.error} />
      <div class="buttons">
        <button type="button" class="primary" disabled={!ready} title={reason(isAnswered(answers) ? t("Send answer") : t("Choose an option or write an answer"))} onClick={send}>
          {t("Send answer")}
        </button>
        <button type="button" disabled={sent} title={reason(ofServer ? t("The server gets no answer") : t("Goalwright decides and tells you what it assumed"))} onClick={() => reply({ reply: "reject" })}>
          {ofServer ? t("Decline") : t("Skip")}
        </button>
      </div>
    </section>
  );
}

interface AskedProps {
  question: Question;
  /** Name of the radio group for the options. */
  name: string;
  answer: QuestionAnswer;
  onChange: (answer: QuestionAnswer) => void;
  onSend: () => void;
}

function Asked({ question, name, answer, onChange, onSend }: AskedProps): JSX.Element {
  const { text, options, multiple } = question;
  const sendOnEnter = (event: KeyboardEvent): void => onEnter(event, onSend);
  return (
    <fieldset class="asked">
      <legend>{visible(text)}</legend>
      {options.map(({ label, description }) => (
        <label key={label} class={answer.chosen.includes(label) ? "option chosen" : "option"}>
          <input
            type={multiple ? "checkbox" : "radio"}
            class={multiple ? "box" : "dot"}
            name={name}
            checked={answer.chosen.includes(label)}
            onChange={(event) => onChange(withOption(question, answer, label, event.currentTarget.checked))}
            onKeyDown={sendOnEnter}
          />
          <span>
            {visibleLine(label)}
            {description && <span class="dim option-about">{visibleLine(description)}</span>}
          </span>
        </label>
      ))}
      <textarea
        rows={1}
        dir="auto"
        aria-label={t("Your own answer: {0}", visibleLine(text))}
        placeholder={options.length > 0 ? t("Or in your own words…") : t("Your answer…")}
        value={answer.text}
        onInput={(event) => onChange({ ...answer, text: event.currentTarget.value })}
        onKeyDown={sendOnEnter}
      />
    </fieldset>
  );
}
