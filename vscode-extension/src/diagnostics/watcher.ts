import type { EditorDiagnosticsParams, EditorFile, Freshness } from "../protocol.gen";
import { hashOf, hear, known, same, settledAt, type Pulled, type TextState, type Waits } from "./documents";
import { Languages } from "./languages";
import { Waiting, type Clock } from "./waiting";

/** As much of an editor as has to do with problems. `T` is the editor's kind of diagnostic. Uris are strings. */
export interface Editor<T> {
  /** Opens a file without showing it, so that extensions look at it. May fail. */
  open(uri: string): Promise<void>;
  /** The text of an open document. */
  text(uri: string): string | undefined;
  /** All that extensions show about a file now. */
  problems(uri: string): readonly T[];
  everything(): Iterable<readonly [string, readonly T[]]>;
  /** Whether an extension with code says that it is for this language. */
  owner(language: string): boolean;
  /** Asks for the problems of a document, where an extension can be asked; undefined: it cannot. */
  pull(uri: string, language: string): Promise<Pulled<T>> | undefined;
}

export interface FileAnswer<T> {
  uri: string;
  freshness: Freshness;
  diagnostics: readonly T[];
  before: readonly T[] | null;
}

export interface Answer<T> {
  generation: number;
  files: FileAnswer<T>[];
  others: FileAnswer<T>[];
}

interface Baseline<T> {
  generation: number;
  /** What was shown, by file; of files changed since then: at the moment of the first change. */
  shown: Map<string, readonly T[]>;
  changed: Set<string>;
  /** Files of whose old text nobody had said anything when it changed. */
  unknown: Set<string>;
  pulled: Map<string, Pulled<T>>;
}

/** Source: `lsp_bridge/language_client/server/fresh_answers.py`, which waits for servers in the same way. */
const SETTLE_MS = 300;
const DOUBTFUL_MS = 1_500;
/** In which extensions answer, if they do. */
const ANSWERS_MS = 10_000;
/** For opening a file; what takes longer is nothing that extensions look at. */
const OPENING_MS = 1_000;
/** For what is said about other files, once those asked about have been answered. */
const AROUND_MS = 500;
/** Until an extension is asked again that has refused. */
const PULL_AGAIN_MS = 300;
const MOST_BASELINES = 16;
const MOST_OTHERS = 20;
const MOST_REMEMBERED = 5_000;

/**
 * Knows of every problem in the editor which text it is about: one counter numbers what happens to documents and
 * diagnostics, and only what is said after a text is there counts as an answer to it. Pure but for `Editor` and `Clock`.
 */
export class ProblemWatcher<T> {
  private generation = 0;
  /** Of the newest text of any document. */
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

  /** `before`: it was open when this began, so what was said of it is not known. */
  opened(uri: string, language: string, before = false): void {
    this.renew(uri, language, false, before ? this.clock.now() - ANSWERS_MS : undefined);
    // What is shown already proves that somebody looks.
    if (this.editor.problems(uri).length) this.languages.heard(language);
    this.languageOf.set(suffix(uri), language);
  }

  /** The text of an open document is another one. */
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
    // After so long an answer to the old text is hardly still to come.
    const open = settled === undefined ? now - old.at < ANSWERS_MS : settled > now;
    this.renew(uri, old.language, open);
  }

  closed(uri: string): void {
    this.generation++;
    this.documents.delete(uri);
    this.waiting.happened();
  }

  /** Extensions said something about these files, perhaps the same as before. */
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
      // A second word about one text; if something else has changed since, it may be about that.
      const again = before?.early === false && state.generation === this.newest && !same(before.shown, this.editor.problems(uri));
      if (!state.heard?.early) this.languages.heard(state.language, again ? at - before.at : 0);
    }
    forgetOldest(this.reportedAt, MOST_REMEMBERED);
    this.waiting.happened();
  }

  /** Answers the daemon. Never fails, and takes no longer than the question allows. */
  async ask(params: EditorDiagnosticsParams): Promise<Answer<T>> {
    return params.since === null ? this.baseline(params.files) : this.changes(params, params.since);
  }

  /** The window closes: nobody waits any longer. */
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

  /** Lets extensions look at the old text, in the background. */
  private async prepare({ uri }: EditorFile, baseline: Baseline<T>): Promise<void> {
    if (this.nobody(uri)) return;
    if (!this.documents.has(uri)) await this.editor.open(uri).catch(() => undefined);
    const state = this.documents.get(uri);
    // Asked before it changes, so it is about the old text whenever the answer comes.
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

  /** An extension that has not taken a new text in yet, or still loads the project, refuses: it is asked again. */
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
    // More, once somebody has spoken.
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
    // When the text became another one meanwhile, no extension could answer: that is not their silence.
    const replaced = there && !this.hasText(file);
    if (language !== undefined && this.editor.owner(language) && !replaced) this.languages.asked(language, answered);
    const state = this.documents.get(uri);
    const freshness = answered ? "fresh" : covered ? "pending" : "uncovered";
    return { uri, freshness, diagnostics: known(state?.pulled, this.editor.problems(uri)), before: this.before(uri, baseline) };
  }

  private async opening(uri: string, deadline: number): Promise<void> {
    if (this.documents.has(uri)) return;
    let failed = false;
    const opened = this.editor.open(uri).catch(() => {
      failed = true;
      this.waiting.happened();
    });
    void opened;
    await this.waiting.until(() => (failed || this.documents.has(uri) ? 0 : undefined), () => deadline);
  }

  private language(uri: string): string | undefined {
    return this.documents.get(uri)?.language ?? this.languageOf.get(suffix(uri));
  }

  /** Whether it is known that nobody ever says anything about such files. */
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
      // Just opened: its problems are news to us, not new.
      if (state && state.generation > since) continue;
      const [before, diagnostics] = [this.before(uri, baseline) ?? [], this.editor.problems(uri)];
      if (!diagnostics.length || same(before, diagnostics)) continue;
      found.push({ uri, freshness: "fresh", diagnostics, before });
      if (found.length === MOST_OTHERS) break;
    }
    return found;
  }
}

/** What files of one language have in common, for those that are not open. */
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
