/** What the host knows of explorations beyond the session's events, for the page. */
import type { FileDiff } from "../protocol.gen";

/** What came of a choice. `busy`: it is being decided. */
export interface Outcome {
  state: "busy" | "applied" | "refused";
  /** As it was chosen: `A`, or `A:src/a.py`. */
  choice: string;
  title: string;
  detail: string;
}

/** What a sub-agent at work does just now. */
export interface Glimpse {
  line: string;
  messages: number;
}

export interface Explored {
  /** Of sub-agents at work, by their sessions. */
  live: Readonly<Record<string, Glimpse>>;
  /** Files that a branch changed, by its session; undefined until they were asked for. */
  files: Readonly<Record<string, readonly FileDiff[]>>;
  /** Why the files of a branch cannot be listed. */
  problems: Readonly<Record<string, string>>;
  /** By session and exploration, see `outcomeKey`. */
  outcomes: Readonly<Record<string, Outcome>>;
}

export const NOTHING_EXPLORED: Explored = { live: {}, files: {}, problems: {}, outcomes: {} };

export function outcomeKey(sessionId: string, exploreStartId: string): string {
  return `${sessionId} ${exploreStartId}`;
}
