import { createHash } from "node:crypto";

/** What an extension answered when it was asked for a document's problems, instead of when it liked. */
export interface Pulled<T> {
  items: readonly T[];
  /** Whether a problem that is shown comes from the same place, so that `items` say it better. */
  replaces: (shown: T) => boolean;
}

/** VS Code collects events of diagnostics for this long (ms), so one may tell of what was before a change. */
export const COLLECTED_MS = 50;
/** Timers count whole milliseconds. */
const EARLY_MS = COLLECTED_MS - 2;

/** One text of an open document, and what was said since it is there. */
export interface TextState<T> {
  readonly language: string;
  /** When this text came, in the common counting and in ms. */
  readonly generation: number;
  readonly at: number;
  /** An older text was still unanswered then, so what is said now may be about that one. */
  readonly doubtful: boolean;
  /** What was shown when it came. */
  readonly shown: readonly T[];
  /** The last event about the document; `early`: it may tell of nothing that is newer than this text. */
  heard?: { at: number; early: boolean; shown: readonly T[] };
  pulled?: Pulled<T> & { at: number };
  /** There is an extension that can be asked about it. */
  askable?: boolean;
  hash?: string;
}

export interface Waits {
  /** Without news (ms), until an answer counts as the last word. */
  settle: number;
  /** The same, when the answer may be about an older text. */
  doubtful: number;
}

/** Notes an event about a document. */
export function hear<T>(state: TextState<T>, now: number, shown: readonly T[]): void {
  const early = now - state.at < EARLY_MS && same(shown, state.shown);
  state.heard = { at: now, early, shown };
}

/** When (ms) what was said about this text is the last word; undefined: nothing was said. */
export function settledAt<T>(state: TextState<T>, waits: Waits): number | undefined {
  const { heard, pulled } = state;
  // What was asked for is about this text for sure; others may still be about to speak.
  if (pulled) return Math.max(pulled.at, state.at + waits.settle, (heard?.at ?? 0) + waits.settle);
  if (!heard) return undefined;
  return heard.at + (heard.early || state.doubtful ? waits.doubtful : waits.settle);
}

/** The problems of a document: those asked for, and those that others show. */
export function known<T>(pulled: Pulled<T> | undefined, shown: readonly T[]): readonly T[] {
  return pulled ? [...pulled.items, ...shown.filter((item) => !pulled.replaces(item))] : shown;
}

/** The very same objects: nobody has set them again. */
export function same(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((item, index) => item === other[index]);
}

/** Of a text as the daemon hashes it: see `EditorFile.textHash`. */
export function hashOf(text: string): string {
  return createHash("sha256").update(text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n"), "utf8").digest("hex");
}
