/** Short lines for the prompts that the daemon writes for code actions and branches; the model receives the full prompt. Pure. */

import { t } from "../l10n";

const PROBLEMS = /^(Fix|Explain) (?:this problem|these (\d+) problems) in @([^\n]+?)\.(?: Change nothing\.)?\n\n> /;
const PLACE = /^Explain (?:the code|what stands) in @([^\n]+)\. Change nothing\.\n\nThe file/;
const QUESTION = /^(\S[^]*?)\n\nThis is about @([^\n]+)\.\n\nThe file/;
/** The common end of such prompts (see `lsp_bridge/server/editor/prompts.py`). */
const TAIL = /\n\nThe file(?: as it is in the editor|'s text is not quoted here)[^]*$/;
const SAID = /^> \w+(?: in line \d+)?(?: \([^\n]*?\))?: ([^\n]*)$/m;

/** The first prompt of a branch (see `daemon/explore/branch_notes.py`). */
const BRANCH = /(?:^|\n)# You are branch (\S+)\n[^]*?\*\*Your direction\*\*: ([^\n]+)/;

/** Summarize the request in one line; undefined when the user wrote the text. */
export function handedLine(text: string): string | undefined {
  const branch = BRANCH.exec(text);
  if (branch) return t("Branch {0}: {1}", branch[1] ?? "", branch[2] ?? "");
  if (!TAIL.test(text)) return undefined;
  const problems = PROBLEMS.exec(text);
  if (problems) {
    const [, verb, many, place = ""] = problems;
    const what = many === undefined ? (SAID.exec(text)?.[1] ?? t("a problem")) : t("{0} problems", many);
    return verb === "Fix" ? t("Fix: {0} — {1}", what, place) : t("Explain: {0} — {1}", what, place);
  }
  const place = PLACE.exec(text);
  if (place) return t("Explain: {0}", place[1] ?? "");
  const question = QUESTION.exec(text);
  return question ? `${question[1]} — ${question[2]}` : undefined;
}
