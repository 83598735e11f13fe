/** Unsent answers to the model's questions. Pure. */
import type { PermissionRequest, Question, QuestionAnswer } from "../protocol.gen";

/** Return true if a request asks the user questions instead of for permission. */
export function isQuestion({ questions }: Pick<PermissionRequest, "questions">): boolean {
  return questions.length > 0;
}

export function emptyAnswers(questions: readonly Question[]): QuestionAnswer[] {
  return questions.map(() => ({ chosen: [], text: "" }));
}

/** Select or deselect an option; with single choice it replaces the other one. */
export function withOption({ options, multiple }: Question, answer: QuestionAnswer, label: string, on: boolean): QuestionAnswer {
  const others = multiple ? answer.chosen.filter((one) => one !== label) : [];
  const chosen = on ? [...others, label] : answer.chosen.filter((one) => one !== label);
  // Keep the order of the options.
  return { ...answer, chosen: options.map((option) => option.label).filter((one) => chosen.includes(one)) };
}

export function isAnswered(answers: readonly QuestionAnswer[]): boolean {
  return answers.some(({ chosen, text }) => chosen.length > 0 || text.trim() !== "");
}

/** Add a text from the composer to the answers: to all unanswered questions, or else to the last one. */
export function withWords(answers: readonly QuestionAnswer[], text: string): QuestionAnswer[] {
  const open = answers.filter((answer) => !isAnswered([answer]));
  const meant = open.length > 0 ? open : answers.slice(-1);
  return answers.map((answer) => (meant.includes(answer) ? { ...answer, text: [answer.text.trim(), text].filter(Boolean).join(" ") } : answer));
}
