import type { EditorDiagnosticsParams, EditorDiagnosticsResult, EditorFile, EditorFileDiagnostics } from "../protocol.gen";
import { Languages } from "./languages";
import { createHash } from "node:crypto";

/** The part of an editor that concerns problems. `T` is the editor's type of diagnostic. URIs are strings. */
export interface Editor<T> {
  /** Open a file without showing it, so that extensions check it. May fail. */
  open(uri: string): Promise<void>;
  /** Return the text of an open document. */
  text(uri: string): string | undefined;
  /** Return the problems that extensions show for a file now. */
  problems(uri: string): readonly T[];
  everything(): Iterable<readonly [string, readonly T[]]>;
  /** Return true if an extension with code declares this language. */
  owner(language: string): boolean;
  /** Ask an extension for the problems of a document; undefined if none can be asked. */
  pull(uri: string, language: string): Promise<Pulled<T>> | undefined;
}

/** The daemon's answer about a file, with the editor's own diagnostics. */
export type FileAnswer<T> = Pick<EditorFileDiagnostics, "uri" | "freshness"> & { diagnostics: readonly T[]; before: readonly T[] | null };
export type Answer<T> = Pick<EditorDiagnosticsResult, "generation"> & Record<"files" | "others", FileAnswer<T>[]>;

interface Baseline<T> {
  generation: number;
  /** Diagnostics by file. For files changed since, those shown at the first change. */
  shown: Map<string, readonly T[]>;
  changed: Set<string>;
  /** Files that changed before any extension had reported on their old text. */
  unknown: Set<string>;
  pulled: Map<string, Pulled<T>>;
}

/** Times as in `lsp_bridge/language_client/server/diagnostics_freshness.py`, which waits for servers in the same way. */
const SETTLE_MS = 300;
const DOUBTFUL_MS = 1_500;
/** Time in which extensions answer, if at all. */
const ANSWERS_MS = 10_000;
/** Time to open a file; extensions do not check files that take longer. */
const OPENING_MS = 1_000;
/** Time to wait for reports on other files, after the requested ones are answered. */
const AROUND_MS = 500;
/** Time before an extension that failed is asked again. */
const PULL_AGAIN_MS = 300;
const MOST_BASELINES = 16;
const MOST_OTHERS = 20;
const MOST_REMEMBERED = 5_000;

/**
 * Match every problem in the editor with a version of its text. One counter numbers changes of documents and
 * diagnostics, and only diagnostics that come after a version count as an answer to it. Pure but for `Editor` and
 * `Clock`.
 */
export class ProblemWatcher<T> {
  private generation = 0;
  /** Generation of the newest version of any document. */
  private newest = 0;
  private readonly documents = new Map<string, TextState<T>>();
  private readonly reportedAt = new Map<string, { generation: number; at: number }>();
  private readonly languageOf = new Map<string, string>();
  private readonly baselines: Baseline<T>[] = [];
  private readonly languages: Languages;
  private readonly waiting: Waiting;

  constructor(
    private readonly editor: Editor<T>,
    private readonly clock: Clock,
  ) {
    this.languages = new Languages((language) => editor.owner(language));
    this.waiting = new Waiting(clock);
  }

  /** Record an opened document. `before`: it was open before this object existed, so earlier reports are unknown. */
  opened(uri: string, language: string, before = false): void {
    this.renew(uri, language, false, before ? this.clock.now() - ANSWERS_MS : undefined);
    // Problems that are already shown prove that an extension checks this language.
    if (this.editor.problems(uri).length) this.languages.heard(language);
    this.languageOf.set(suffix(uri), language);
  }

  /** Record a change of an open document. */
  changed(uri: string): void {
    const old = this.documents.get(uri);
    if (!old) return;
    for (const baseline of this.baselines) {
      if (baseline.changed.has(uri)) continue;
      baseline.changed.add(uri);
      const shown = this.editor.problems(uri);
      baseline.shown.set(uri, shown);
      if (!old.heard && !old.pulled && !shown.length) baseline.unknown.add(uri);
    }
    const now = this.clock.now();
    const settled = settledAt(old, this.waits(old.language, SETTLE_MS));
    // After this time an answer to the old version is unlikely.
    const open = settled === undefined ? now - old.at < ANSWERS_MS : settled > now;
    this.renew(uri, old.language, open);
  }

  closed(uri: string): void {
    this.generation++;
    this.documents.delete(uri);
    this.waiting.happened();
  }

  /** Record diagnostics events for these files; the diagnostics may be unchanged. */
  reported(uris: readonly string[]): void {
    this.generation++;
    const at = this.clock.now();
    for (const uri of uris) {
      this.reportedAt.delete(uri);
      this.reportedAt.set(uri, { generation: this.generation, at });
      const state = this.documents.get(uri);
      if (!state) continue;
      const { heard: before } = state;
      hear(state, at, this.editor.problems(uri));
      // A second report on one version; after a change elsewhere it may be about that change.
      const again = before?.early === false && state.generation === this.newest && !same(before.shown, this.editor.problems(uri));
      if (!state.heard?.early) this.languages.heard(state.language, again ? at - before.at : 0);
    }
    forgetOldest(this.reportedAt, MOST_REMEMBERED);
    this.waiting.happened();
  }

  /** Answer the daemon's request. Never fails, and takes no longer than the request allows. */
  async ask(params: EditorDiagnosticsParams): Promise<Answer<T>> {
    return params.since === null ? this.baseline(params.files) : this.changes(params, params.since);
  }

  /** End all waits when the window closes. */
  dispose(): void {
    this.waiting.end();
  }

  private renew(uri: string, language: string, doubtful: boolean, at = this.clock.now()): void {
    this.generation++;
    const generation = (this.newest = this.generation);
    this.documents.set(uri, { language, generation, at, doubtful, shown: this.editor.problems(uri) });
    this.waiting.happened();
  }

  private baseline(files: readonly EditorFile[]): Answer<T> {
    const shown = new Map(this.editor.everything());
    const made: Baseline<T> = { generation: ++this.generation, shown, changed: new Set(), unknown: new Set(), pulled: new Map() };
    this.baselines.push(made);
    if (this.baselines.length > MOST_BASELINES) this.baselines.shift();
    const answers = files.map((file): FileAnswer<T> => {
      void this.prepare(file, made);
      const { uri } = file;
      const state = this.documents.get(uri);
      const language = this.language(uri);
      const covered = language !== undefined && this.languages.covered(language);
      const settled = state && settledAt(state, this.waits(state.language, SETTLE_MS));
      const fresh = settled !== undefined && settled <= this.clock.now() && this.hasText(file);
      const freshness = !covered ? "uncovered" : fresh ? "fresh" : "pending";
      return { uri, freshness, diagnostics: known(state?.pulled, this.editor.problems(uri)), before: null };
    });
    return { generation: made.generation, files: answers, others: [] };
  }

  /** Open files so that extensions check the old text, in the background. */
  private async prepare(file: EditorFile, baseline: Baseline<T>): Promise<void> {
    const { uri } = file;
    if (this.nobody(uri)) return;
    if (!this.documents.has(uri)) {
      await this.editor.open(uri).catch(() => undefined);
      // The file was written before it was read, so nobody has looked at the old text.
      if (this.documents.has(uri) && !baseline.changed.has(uri) && !this.hasText(file)) {
        if (!baseline.shown.get(uri)?.length) baseline.unknown.add(uri);
        return;
      }
    }
    const state = this.documents.get(uri);
    // This was asked before the change, so the answer is about the old text whenever it comes.
    if (!state || baseline.changed.has(uri)) return;
    const pulled = await this.pull(uri, state);
    if (pulled) baseline.pulled.set(uri, pulled);
  }

  private async pull(uri: string, state: TextState<T>): Promise<Pulled<T> | undefined> {
    const asking = this.editor.pull(uri, state.language);
    state.askable = asking !== undefined;
    const answer = await asking?.catch(() => undefined);
    if (!answer) return undefined;
    this.languages.heard(state.language);
    state.pulled = { ...answer, at: this.clock.now() };
    this.waiting.happened();
    return answer;
  }

  /** Ask again until an extension answers: it may not know the new text yet, or still load the project. */
  private async pullUntil(uri: string, state: TextState<T>, deadline: () => number): Promise<void> {
    while (this.documents.get(uri) === state) {
      if ((await this.pull(uri, state)) || !state.askable || this.clock.now() + PULL_AGAIN_MS >= deadline()) return;
      await new Promise<void>((resolve) => this.clock.after(PULL_AGAIN_MS, resolve));
    }
  }

  private async changes(params: EditorDiagnosticsParams, since: number): Promise<Answer<T>> {
    const begun = this.clock.now();
    const deadline = begun + params.timeoutMs;
    const baseline = this.baselines.find((one) => one.generation === since);
    const files = await Promise.all(params.files.map((file) => this.change(file, params, begun, baseline)));
    const asked = new Set(params.files.map((file) => file.uri));
    const around = Math.min(deadline, this.clock.now() + AROUND_MS);
    const lastNews = (): number => {
      let last = files.length ? 0 : begun;
      for (const [uri, { generation, at }] of this.reportedAt) if (generation > since && !asked.has(uri)) last = Math.max(last, at);
      return last + params.settleMs;
    };
    await this.waiting.until(lastNews, () => around);
    return { generation: this.generation, files, others: baseline ? this.others(asked, since, baseline) : [] };
  }

  private async change(
    file: EditorFile,
    { settleMs, timeoutMs, patient }: EditorDiagnosticsParams,
    begun: number,
    baseline: Baseline<T> | undefined,
  ): Promise<FileAnswer<T>> {
    const { uri } = file;
    if (!this.nobody(uri)) await this.opening(uri, begun + Math.min(timeoutMs, OPENING_MS));
    const language = this.language(uri);
    const covered = language !== undefined && this.languages.covered(language);
    // The deadline moves when an extension reports on this language for the first time.
    const deadline = (): number =>
      begun + (language === undefined ? 0 : this.languages.patience(language, timeoutMs, settleMs, patient));
    let pulledFor: TextState<T> | undefined;
    let there = false;
    const due = (): number | undefined => {
      const state = this.documents.get(uri);
      if (!state || !this.hasText(file)) return undefined;
      there = true;
      if (pulledFor !== state) {
        pulledFor = state;
        if (!state.pulled) void this.pullUntil(uri, state, deadline);
      }
      return settledAt(state, this.waits(state.language, settleMs));
    };
    const answered = await this.waiting.until(due, deadline);
    // If the text was replaced meanwhile, no extension could answer, so do not count that against it.
    const replaced = there && !this.hasText(file);
    if (language !== undefined && this.editor.owner(language) && !replaced) this.languages.asked(language, answered);
    const state = this.documents.get(uri);
    const freshness = answered ? "fresh" : covered ? "pending" : "uncovered";
    return { uri, freshness, diagnostics: known(state?.pulled, this.editor.problems(uri)), before: this.before(uri, baseline) };
  }

  private async opening(uri: string, deadline: number): Promise<void> {
    if (this.documents.has(uri)) return;
    let failed = false;
    void this.editor.open(uri).catch(() => {
      failed = true;
      this.waiting.happened();
    });
    await this.waiting.until(() => (failed || this.documents.has(uri) ? 0 : undefined), () => deadline);
  }

  private language(uri: string): string | undefined {
    return this.documents.get(uri)?.language ?? this.languageOf.get(suffix(uri));
  }

  /** Return true if no extension is known to report on such files. */
  private nobody(uri: string): boolean {
    const language = this.language(uri);
    return language !== undefined && this.languages.patience(language, 1, 1, false) === 0;
  }

  private waits(language: string, settle: number): Waits {
    const slow = Math.max(settle, this.languages.pause(language));
    return { settle: slow, doubtful: Math.max(slow, DOUBTFUL_MS) };
  }

  private hasText({ uri, textHash }: EditorFile): boolean {
    const state = this.documents.get(uri);
    if (!state) return false;
    if (textHash === null) return true;
    state.hash ??= hashOf(this.editor.text(uri) ?? "");
    return state.hash === textHash;
  }

  private before(uri: string, baseline: Baseline<T> | undefined): readonly T[] | null {
    if (!baseline) return null;
    const pulled = baseline.pulled.get(uri);
    return baseline.unknown.has(uri) && !pulled ? null : known(pulled, baseline.shown.get(uri) ?? []);
  }

  private others(asked: ReadonlySet<string>, since: number, baseline: Baseline<T>): FileAnswer<T>[] {
    const found: FileAnswer<T>[] = [];
    for (const [uri, { generation }] of this.reportedAt) {
      if (generation <= since || asked.has(uri) || baseline.changed.has(uri)) continue;
      const state = this.documents.get(uri);
      // The document was just opened, so its problems may be old.
      if (state && state.generation > since) continue;
      const [before, diagnostics] = [this.before(uri, baseline) ?? [], this.editor.problems(uri)];
      if (!diagnostics.length || same(before, diagnostics)) continue;
      found.push({ uri, freshness: "fresh", diagnostics, before });
      if (found.length === MOST_OTHERS) break;
    }
    return found;
  }
}

/** Return the file extension, which stands for the language of files that are not open. */
function suffix(uri: string): string {
  const name = uri.slice(uri.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(dot) : name;
}

function forgetOldest(map: Map<string, unknown>, most: number): void {
  for (const key of map.keys()) {
    if (map.size <= most) return;
    map.delete(key);
  }
}

/** A clock, replaceable in tests. */
export interface Clock {
  /** Return the time in ms; only differences count. */
  now(): number;
  /** Call back once after `ms`; returns a function that cancels this. */
  after(ms: number, call: () => void): () => void;
}

export const realClock: Clock = {
  now: () => performance.now(),
  after: (ms, call) => {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};

/** Wait for events without polling: a condition is checked again after each event, or when it is due. */
export class Waiting {
  private readonly waiters = new Set<() => void>();
  private ended = false;

  constructor(private readonly clock: Clock) {}

  /** Check all conditions after an event. */
  happened(): void {
    for (const look of [...this.waiters]) look();
  }

  /** End all waits, now and later. */
  end(): void {
    this.ended = true;
    this.happened();
  }

  /**
   * Wait until `due`, at most until `deadline()`. Both are clock times in ms and are read again after each event; `due`
   * is undefined while unknown. Returns whether `due` was reached.
   */
  until(due: () => number | undefined, deadline: () => number): Promise<boolean> {
    return new Promise((resolve) => {
      let callOff = (): void => undefined;
      const look = (): void => {
        callOff();
        const now = this.clock.now();
        const at = due();
        const last = deadline();
        const reached = at !== undefined && at <= now;
        if (reached || this.ended || now >= last) {
          this.waiters.delete(look);
          resolve(reached);
          return;
        }
        callOff = this.clock.after(Math.min(at ?? last, last) - now, look);
      };
      this.waiters.add(look);
      look();
    });
  }
}

/** An extension's answer to a request for a document's problems. */
export interface Pulled<T> {
  items: readonly T[];
  /** Return true if a shown problem has the same source, so that `items` replace it. */
  replaces: (shown: T) => boolean;
}

/** VS Code collects diagnostics events for this long (ms), so an event may describe the state before a change. */
const COLLECTED_MS = 50;
/** Timers count whole milliseconds. */
const EARLY_MS = COLLECTED_MS - 2;

/** One version of an open document, and the diagnostics reported since. */
interface TextState<T> {
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

interface Waits {
  /** Time in ms without events after which an answer is final. */
  settle: number;
  /** Time in ms without events if the answer may describe an older version. */
  doubtful: number;
}

/** Record a diagnostics event for a document. */
function hear<T>(state: TextState<T>, now: number, shown: readonly T[]): void {
  const early = now - state.at < EARLY_MS && same(shown, state.shown);
  state.heard = { at: now, early, shown };
}

/** Return the time (ms) at which the diagnostics for this version are final; undefined without any. */
function settledAt<T>(state: TextState<T>, waits: Waits): number | undefined {
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
