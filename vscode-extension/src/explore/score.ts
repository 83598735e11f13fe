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
  if (!test) return unknown("Not run: no test command is set or was found, or you did not allow it");
  const { command, exitCode, passed, failed, detail } = test;
  const hover = [`$ ${command}`, detail].filter(Boolean).join("\n");
  if (exitCode === null) return unknown(hover);
  if (exitCode === 0) return { text: passed === null ? "pass" : `${passed} pass`, hover, tone: "good" };
  return { text: failed === null ? `exit ${exitCode}` : `${failed} fail`, hover, tone: "bad" };
}

function files({ files: count, added, removed }: Score): Cell {
  return plain(`${count} · +${added} −${removed}`, `${count} ${count === 1 ? "file" : "files"}, ${added} lines added, ${removed} removed`);
}

function plain(text: string, hover: string): Cell {
  return { text, hover, tone: "" };
}

function unknown(hover: string): Cell {
  return { text: UNKNOWN, hover, tone: "" };
}

/** `0.4 s`, `12 s`, `3 min 5 s`. */
export function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
