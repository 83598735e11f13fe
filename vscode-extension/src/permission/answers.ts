/** Answers to requests: grants that the user edits before they are stored, and unsent answers to the model's questions. Pure. */
import type { Grant, PermissionRequest, Question, QuestionAnswer, Reply, Scope } from "../protocol.gen";

/** An answer to a request. `grants` and `scope` only with "always": what to remember, and where it applies. */
export interface Answer {
  reply: Reply;
  feedback?: string;
  grants?: Grant[];
  scope?: Scope;
  /** Answers to the request's questions. */
  answers?: QuestionAnswer[];
}

/** Return what the user wrote in an answer: feedback, or answers in words. */
export function wordsOf({ feedback = "", answers = [] }: Pick<Answer, "feedback" | "answers">): string {
  return [feedback, ...answers.map(({ text }) => text)].map((text) => text.trim()).filter(Boolean).join("\n\n");
}

/** A suggested grant that the user can edit. */
export interface GrantDraft {
  permission: string;
  suggested: string;
  pattern: string;
  chosen: boolean;
}

export function draftsOf(suggestions: readonly Grant[]): GrantDraft[] {
  return suggestions.map(({ permission, pattern }) => ({ permission, suggested: pattern, pattern, chosen: true }));
}

/** Change one of the drafts. Editing a pattern also selects it. */
export function changed(drafts: readonly GrantDraft[], index: number, change: Partial<Pick<GrantDraft, "pattern" | "chosen">>): GrantDraft[] {
  const wanted = change.pattern === undefined ? {} : { chosen: change.pattern.trim() !== "" };
  return drafts.map((draft, at) => (at === index ? { ...draft, ...wanted, ...change } : draft));
}

/** Return the grants to store: selected, not empty, without duplicates. Patterns that the user typed are trimmed. */
export function grantsOf(drafts: readonly GrantDraft[]): Grant[] {
  const found = new Map<string, Grant>();
  for (const { permission, suggested, pattern, chosen } of drafts) {
    const text = pattern === suggested ? pattern : pattern.trim();
    if (chosen && text.trim() !== "") found.set(JSON.stringify([permission, text]), { permission, pattern: text });
  }
  return [...found.values()];
}

/** Return true for a grant of one definition of a tool that is not built in. Users cannot read it, so it is not edited. */
export function isDefinition({ permission, suggested }: GrantDraft): boolean {
  return suggested.startsWith("definition ") && /^(mcp__|tool__)/.test(permission);
}

/** Return true for a pattern of wildcards only, which allows everything of its kind. */
export function isBroad({ pattern, chosen }: GrantDraft): boolean {
  return chosen && /\*/.test(pattern) && /^[*?/\\.~\s]*$/.test(pattern);
}

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
