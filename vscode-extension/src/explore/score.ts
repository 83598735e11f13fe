/** The scoreboard: facts of each branch side by side. What is not known is "–"; nobody is called the winner. Pure. */
import { money, short } from "../amounts";
import type { BranchMeta, CheckRun, Score } from "../protocol.gen";

export interface Cell {
  text: string;
  /** In full, for whoever rests the pointer on it or has it read out. */
  hover: string;
  tone: "" | "good" | "bad";
}

export interface Row {
  name: string;
  hover: string;
  cells: readonly Cell[];
}

export const UNKNOWN = "–";
const NOT_RUN = "not run";
const MOST_WHY = 80;

/** One row for each fact, one cell for each branch. Empty while no branch has a score. */
export function board(branches: readonly BranchMeta[]): Row[] {
  if (!branches.some((branch) => branch.score)) return [];
  return FACTS.map(({ name, hover, cell }) => ({
    name,
    hover,
    cells: branches.map(({ score }) => (score ? cell(score) : unknown("Not known: the branch did not come to an end"))),
  }));
}

interface Fact {
  name: string;
  hover: string;
  cell: (score: Score) => Cell;
}

const FACTS: readonly Fact[] = [
  { name: "Problems", hover: "Errors and warnings in the changed files, compared with where the branch began", cell: problems },
  { name: "Tests", hover: "How the test command ended in the branch", cell: ({ test }) => tests(test) },
  { name: "Files", hover: "Files changed, and lines added and removed", cell: files },
  { name: "Tokens", hover: "Sent and received", cell: ({ tokens }) => plain(short(tokens), `${tokens.toLocaleString("en")} tokens`) },
  { name: "Cost", hover: "US dollars, as far as prices are known", cell: ({ cost }) => plain(money(cost), `$${cost}`) },
  { name: "Time", hover: "From its beginning to its end", cell: ({ durationMs }) => plain(duration(durationMs), `${(durationMs / 1000).toFixed(1)} seconds`) },
];

function problems({ newProblems, fixedProblems }: Score): Cell {
  if (newProblems === null || fixedProblems === null) return unknown("Not known: no language server gave a verdict");
  const hover = `${newProblems} new, ${fixedProblems} fixed`;
  if (newProblems === 0 && fixedProblems === 0) return { text: "none new", hover, tone: "good" };
  return { text: `+${newProblems} −${fixedProblems}`, hover, tone: newProblems > 0 ? "bad" : "good" };
}

function tests(test: CheckRun | null): Cell {
  if (!test) return { text: NOT_RUN, hover: "No test command is set or was found, you did not allow it, or the branch was given up", tone: "" };
  const { command, exitCode, failed, durationMs, detail } = test;
  const hover = [command ? `$ ${command}` : "", exitCode === null ? "" : `exit code ${exitCode}`, detail].filter(Boolean).join("\n");
  const good = exitCode === 0 && !failed;
  const unknownYet = exitCode === null && !durationMs;
  return { text: ended(test), hover, tone: unknownYet ? "" : good ? "good" : "bad" };
}

/** How a test command ended, in the words of `daemon/explore/check_words.py`: the model and the terminal read the same. */
function ended({ exitCode, passed, failed, durationMs, detail }: CheckRun): string {
  if (exitCode === null && durationMs) return `not ended in ${duration(durationMs)}`;
  if (exitCode === null) return detail.trim() ? `${NOT_RUN}: ${cut(detail)}` : NOT_RUN;
  const counts = [passed === null ? "" : `${passed} passed`, failed === null ? "" : `${failed} failed`].filter(Boolean);
  if (counts.length === 0) return exitCode === 0 ? "ok" : `exit code ${exitCode}`;
  const told = (exitCode !== 0) === Boolean(failed);
  return [...counts, ...(told ? [] : [`exit code ${exitCode}`])].join(", ");
}

function cut(text: string): string {
  const line = text.split(/\s+/).filter(Boolean).join(" ");
  return line.length <= MOST_WHY ? line : `${line.slice(0, MOST_WHY - 1).trimEnd()}…`;
}

function files({ files: count, added, removed }: Score): Cell {
  if (count === null || added === null || removed === null) return unknown("Not known: what the branch changed could not be read");
  return plain(`${count} · +${added} −${removed}`, `${count} ${count === 1 ? "file" : "files"}, ${added} lines added, ${removed} removed`);
}

function plain(text: string, hover: string): Cell {
  return { text, hover, tone: "" };
}

function unknown(hover: string): Cell {
  return { text: UNKNOWN, hover, tone: "" };
}

/** `0.4 s`, `12 s`, `3 min 5 s`, `2 h 5 min`. */
export function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
