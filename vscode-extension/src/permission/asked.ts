/** The user's answers to the model's questions, while they are being written. Pure. */
import type { PermissionRequest, Question, QuestionAnswer } from "../protocol.gen";

/** The request asks the user something, instead of for permission. */
export function isQuestion({ questions }: Pick<PermissionRequest, "questions">): boolean {
  return questions.length > 0;
}

export function emptyAnswers(questions: readonly Question[]): QuestionAnswer[] {
  return questions.map(() => ({ chosen: [], text: "" }));
}

/** The answer with an option chosen or not; where only one may be, it takes the place of the other. */
export function withOption({ options, multiple }: Question, answer: QuestionAnswer, label: string, on: boolean): QuestionAnswer {
  const others = multiple ? answer.chosen.filter((one) => one !== label) : [];
  const chosen = on ? [...others, label] : answer.chosen.filter((one) => one !== label);
  // In the order in which they are offered.
  return { ...answer, chosen: options.map((option) => option.label).filter((one) => chosen.includes(one)) };
}

export function isAnswered(answers: readonly QuestionAnswer[]): boolean {
  return answers.some(({ chosen, text }) => chosen.length > 0 || text.trim() !== "");
}

/** The answers with a text that was not written for one of the questions: it answers all that have no answer yet. */
export function withWords(answers: readonly QuestionAnswer[], text: string): QuestionAnswer[] {
  const open = answers.filter((answer) => !isAnswered([answer]));
  const meant = open.length > 0 ? open : answers.slice(-1);
  return answers.map((answer) => (meant.includes(answer) ? { ...answer, text: [answer.text.trim(), text].filter(Boolean).join(" ") } : answer));
}
