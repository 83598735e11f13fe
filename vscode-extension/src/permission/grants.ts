/** What the person lets Goalwright do from now on, as it is edited before it is remembered. Pure. */
import type { Grant, QuestionAnswer, Reply, Scope } from "../protocol.gen";

/** An answer to a request. `grants` and `scope` only with "always": what to remember, and where that holds. */
export interface Answer {
  reply: Reply;
  feedback?: string;
  grants?: Grant[];
  scope?: Scope;
  /** To the request's questions. */
  answers?: QuestionAnswer[];
}

/** One suggestion under the person's hands. */
export interface GrantDraft {
  permission: string;
  suggested: string;
  pattern: string;
  chosen: boolean;
}

export function draftsOf(suggestions: readonly Grant[]): GrantDraft[] {
  return suggestions.map(({ permission, pattern }) => ({ permission, suggested: pattern, pattern, chosen: true }));
}

/** The drafts with one of them changed. Who writes into a pattern wants it. */
export function changed(drafts: readonly GrantDraft[], index: number, change: Partial<Pick<GrantDraft, "pattern" | "chosen">>): GrantDraft[] {
  const wanted = change.pattern === undefined ? {} : { chosen: change.pattern.trim() !== "" };
  return drafts.map((draft, at) => (at === index ? { ...draft, ...wanted, ...change } : draft));
}

/** What is to be remembered: chosen, not empty, each once. Blanks around what the person typed are none of it. */
export function grantsOf(drafts: readonly GrantDraft[]): Grant[] {
  const found = new Map<string, Grant>();
  for (const { permission, suggested, pattern, chosen } of drafts) {
    const text = pattern === suggested ? pattern : pattern.trim();
    if (chosen && text.trim() !== "") found.set(JSON.stringify([permission, text]), { permission, pattern: text });
  }
  return [...found.values()];
}

/** The pattern names nothing: it allows all there is of its kind. */
export function isBroad({ pattern, chosen }: GrantDraft): boolean {
  return chosen && /\*/.test(pattern) && /^[*?/\\.~\s]*$/.test(pattern);
}
