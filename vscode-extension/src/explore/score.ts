/** The scoreboard: facts about the branches for comparison. Unknown facts are "–", and no branch is called the winner. Pure. */
import { duration, money, short } from "../amounts";
import type { BranchMeta, CheckRun, Score } from "../protocol.gen";
import { oneLine, shortened } from "./format";
import { plural, t } from "../l10n";

export interface Cell {
  text: string;
  /** The full text, for tooltips and screen readers. */
  hover: string;
  tone: "" | "good" | "bad";
}

export interface Row {
  name: string;
  hover: string;
  cells: readonly Cell[];
}

export const UNKNOWN = "–";
const NOT_RUN = t("not run");

/** Return one row for each fact, with one cell for each branch. Empty while no branch has a score. */
export function board(branches: readonly BranchMeta[]): Row[] {
  if (!branches.some((branch) => branch.score)) return [];
  return FACTS.map(({ name, hover, cell }) => ({
    name,
    hover,
    cells: branches.map(({ score }) => (score ? cell(score) : unknown(t("Unknown: the branch did not finish")))),
  }));
}

const FACTS: readonly { name: string; hover: string; cell: (score: Score) => Cell }[] = [
  { name: t("Problems"), hover: t("Errors and warnings in the changed files, compared with where the branch began"), cell: problems },
  { name: t("Tests"), hover: t("How the test command ended in the branch"), cell: ({ test }) => tests(test) },
  { name: t("Files"), hover: t("Files changed, and lines added and removed"), cell: files },
  { name: t("Tokens"), hover: t("Sent and received"), cell: ({ tokens }) => plain(short(tokens), t("{0} tokens", tokens.toLocaleString("en"))) },
  { name: t("Cost"), hover: t("US dollars, as far as prices are known"), cell: costs },
  { name: t("Time"), hover: t("From start to end"), cell: ({ durationMs }) => plain(duration(durationMs), t("{0} seconds", (durationMs / 1000).toFixed(1))) },
];

function costs({ cost, unpricedTokens }: Score): Cell {
  if (unpricedTokens > 0 && cost === 0) return unknown(t("the model's price is not known"));
  return plain(money(cost, unpricedTokens), unpricedTokens > 0 ? t("at least {0}", `$${cost}`) : `$${cost}`);
}

function problems({ newProblems, fixedProblems }: Score): Cell {
  if (newProblems === null || fixedProblems === null) return unknown(t("Unknown: no language server reported"));
  const hover = t("{0} new, {1} fixed", newProblems, fixedProblems);
  if (newProblems === 0 && fixedProblems === 0) return { text: t("none new"), hover, tone: "good" };
  return { text: `+${newProblems} −${fixedProblems}`, hover, tone: newProblems > 0 ? "bad" : "good" };
}

function tests(test: CheckRun | null): Cell {
  if (!test) return { text: NOT_RUN, hover: t("No test command is set or was found, you did not allow it, or the branch was abandoned"), tone: "" };
  const { command, exitCode, failed, durationMs, detail } = test;
  const hover = [command ? `$ ${command}` : "", exitCode === null ? "" : exitWord(exitCode), detail].filter(Boolean).join("\n");
  const good = exitCode === 0 && !failed;
  const unknownYet = exitCode === null && !durationMs;
  return { text: ended(test), hover, tone: unknownYet ? "" : good ? "good" : "bad" };
}

/** Describe how a test command ended, with the same words as `daemon/explore/score_text.py`, which the model and the terminal use. */
function ended({ exitCode, passed, failed, durationMs, detail }: CheckRun): string {
  if (exitCode === null && durationMs) return t("timed out after {0}", duration(durationMs));
  if (exitCode === null) return detail.trim() ? t("not run: {0}", shortened(oneLine(detail), 80)) : NOT_RUN;
  const counts = [passed === null ? "" : t("{0} passed", passed), failed === null ? "" : t("{0} failed", failed)].filter(Boolean);
  if (counts.length === 0) return exitCode === 0 ? t("ok") : exitWord(exitCode);
  const told = (exitCode !== 0) === Boolean(failed);
  return [...counts, ...(told ? [] : [exitWord(exitCode)])].join(", ");
}

function exitWord(code: number | null): string {
  return t("exit code {0}", code ?? "?");
}

function files({ files: count, added, removed }: Score): Cell {
  if (count === null || added === null || removed === null) return unknown(t("Unknown: the branch's changes could not be read"));
  return plain(`${count} · +${added} −${removed}`, plural(count, "{0} file, {1} lines added, {2} removed", "{0} files, {1} lines added, {2} removed", count, added, removed));
}

function plain(text: string, hover: string): Cell {
  return { text, hover, tone: "" };
}

function unknown(hover: string): Cell {
  return { text: UNKNOWN, hover, tone: "" };
}
