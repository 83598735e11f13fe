import { createHash } from "node:crypto";

/** An extension's answer to a request for a document's problems. */
export interface Pulled<T> {
  items: readonly T[];
  /** Return true if a shown problem has the same source, so that `items` replace it. */
  replaces: (shown: T) => boolean;
}

/** VS Code collects diagnostics events for this long (ms), so an event may describe the state before a change. */
export const COLLECTED_MS = 50;
/** Timers count whole milliseconds. */
const EARLY_MS = COLLECTED_MS - 2;

/** One version of an open document, and the diagnostics reported since. */
export interface TextState<T> {
  readonly language: string;
  /** Number of this version in the common sequence, and its time in ms. */
  readonly generation: number;
  readonly at: number;
  /** True when the previous version was still unanswered, so that new diagnostics may describe that one. */
  readonly doubtful: boolean;
  /** Diagnostics shown when this version came. */
  readonly shown: readonly T[];
  /** The last diagnostics event for the document; `early`: it may describe an older version. */
  heard?: { at: number; early: boolean; shown: readonly T[] };
  pulled?: Pulled<T> & { at: number };
  /** True when an extension can be asked about the document. */
  askable?: boolean;
  hash?: string;
}

export interface Waits {
  /** Time in ms without events after which an answer is final. */
  settle: number;
  /** Time in ms without events if the answer may describe an older version. */
  doubtful: number;
}

/** Record a diagnostics event for a document. */
export function hear<T>(state: TextState<T>, now: number, shown: readonly T[]): void {
  const early = now - state.at < EARLY_MS && same(shown, state.shown);
  state.heard = { at: now, early, shown };
}

/** Return the time (ms) at which the diagnostics for this version are final; undefined without any. */
export function settledAt<T>(state: TextState<T>, waits: Waits): number | undefined {
  const { heard, pulled } = state;
  // A requested answer surely describes this version, but other extensions may still report.
  if (pulled) return Math.max(pulled.at, state.at + waits.settle, (heard?.at ?? 0) + waits.settle);
  if (!heard) return undefined;
  return heard.at + (heard.early || state.doubtful ? waits.doubtful : waits.settle);
}

/** Return the problems of a document: the requested ones, and those of other sources. */
export function known<T>(pulled: Pulled<T> | undefined, shown: readonly T[]): readonly T[] {
  return pulled ? [...pulled.items, ...shown.filter((item) => !pulled.replaces(item))] : shown;
}

/** Return true if both have identical objects, so that nobody has set them again. */
export function same(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((item, index) => item === other[index]);
}

/** Hash a text like the daemon does: see `EditorFile.textHash`. */
export function hashOf(text: string): string {
  return createHash("sha256").update(text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n"), "utf8").digest("hex");
}
