/** The host's state of explorations beyond the session's events, for the page. */
import type { FileDiff } from "../protocol.gen";

/** The result of a choice. `busy`: the daemon is still applying it. */
export interface Outcome {
  state: "busy" | "applied" | "refused";
  /** The chosen part: `A`, or `A:src/a.py`. */
  choice: string;
  title: string;
  detail: string;
}

/** The current activity of a running sub-agent. */
export interface Glimpse {
  line: string;
  messages: number;
}

export interface Explored {
  /** Glimpses of running sub-agents by session. */
  live: Readonly<Record<string, Glimpse>>;
  /** Files that a branch changed, by its session; undefined until requested. */
  files: Readonly<Record<string, readonly FileDiff[]>>;
  /** Errors from listing the files of branches, by session. */
  problems: Readonly<Record<string, string>>;
  /** Results by session and exploration, see `outcomeKey`. */
  outcomes: Readonly<Record<string, Outcome>>;
}

export const NOTHING_EXPLORED: Explored = { live: {}, files: {}, problems: {}, outcomes: {} };

export function outcomeKey(sessionId: string, exploreStartId: string): string {
  return `${sessionId} ${exploreStartId}`;
}
