import { type Answer, type Clock, type Editor, hashOf, ProblemWatcher, type Pulled } from "../../src/diagnostics/watcher";
import type { EditorDiagnosticsParams } from "../../src/protocol.gen";

/** A diagnostic is an object, so that it is known again; its words are enough. */
export interface Said {
  said: string;
}

/** Time that passes when a test says so. */
export class FakeClock implements Clock {
  private time = 1_000;
  private timers: { at: number; call: () => void }[] = [];

  now(): number {
    return this.time;
  }

  after(ms: number, call: () => void): () => void {
    const timer = { at: this.time + ms, call };
    this.timers.push(timer);
    return () => (this.timers = this.timers.filter((other) => other !== timer));
  }

  async pass(ms: number): Promise<void> {
    const end = this.time + ms;
    await settled();
    for (;;) {
      const next = this.timers.filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0];
      if (!next) break;
      this.time = Math.max(this.time, next.at);
      this.timers = this.timers.filter((timer) => timer !== next);
      next.call();
      await settled();
    }
    this.time = end;
    await settled();
  }

  get waiting(): number {
    return this.timers.length;
  }
}

/** Everything that follows at once has happened. */
async function settled(): Promise<void> {
  for (let n = 0; n < 3; n++) await new Promise((resolve) => setImmediate(resolve));
}

/** An editor whose extensions say what a test wants, when it wants. */
export class FakeEditor implements Editor<Said> {
  readonly clock = new FakeClock();
  readonly watcher = new ProblemWatcher<Said>(this, this.clock);
  readonly disk = new Map<string, string>();
  readonly texts = new Map<string, string>();
  readonly shown = new Map<string, Said[]>();
  readonly owned = new Set(["bad"]);
  /** How a language is asked, for those that can be. */
  readonly pulls = new Map<string, (text: string) => Promise<Pulled<Said>>>();
  opens = 0;

  open(uri: string): Promise<void> {
    this.opens++;
    const text = this.disk.get(uri);
    if (text === undefined) return Promise.reject(new Error("no such file"));
    this.appear(uri, text);
    return Promise.resolve();
  }

  text(uri: string): string | undefined {
    return this.texts.get(uri);
  }

  problems(uri: string): readonly Said[] {
    return this.shown.get(uri) ?? [];
  }

  everything(): Iterable<readonly [string, readonly Said[]]> {
    return this.shown;
  }

  owner(language: string): boolean {
    return this.owned.has(language);
  }

  pull(uri: string, language: string): Promise<Pulled<Said>> | undefined {
    return this.pulls.get(language)?.(this.texts.get(uri) ?? "");
  }

  /** The person opens a file. */
  appear(uri: string, text: string): void {
    this.texts.set(uri, text);
    this.watcher.opened(uri, uri.slice(uri.lastIndexOf(".") + 1));
  }

  change(uri: string, text: string): void {
    this.texts.set(uri, text);
    this.watcher.changed(uri);
  }

  /** An extension sets its problems, and VS Code tells of it. */
  say(uri: string, ...words: string[]): void {
    this.set(uri, ...words);
    this.watcher.reported([uri]);
  }

  set(uri: string, ...words: string[]): void {
    this.shown.set(uri, words.map((said) => ({ said })));
  }

  ask(text: string | null, since: number | null, more: Partial<EditorDiagnosticsParams> = {}): Asked {
    const files = [{ uri: FILE, textHash: text === null ? null : hashOf(text) }];
    return new Asked(this.watcher.ask({ files, since, settleMs: 300, timeoutMs: 2_500, patient: false, ...more }));
  }

  /** A baseline's generation. */
  async baseline(): Promise<number> {
    return (await this.ask(null, null).answer).generation;
  }

  /** An extension has shown that it looks after the language, by the file that is open then. */
  async proven(text = "old"): Promise<void> {
    this.appear(FILE, text);
    await this.clock.pass(100);
    this.say(FILE);
    await this.clock.pass(1_000);
  }
}

export const FILE = "file:///w/a.bad";

/** A question under way. */
export class Asked {
  done = false;

  constructor(readonly answer: Promise<Answer<Said>>) {
    void answer.then(() => (this.done = true));
  }

  /** In short: how fresh, and what is said. */
  async words(): Promise<string> {
    const { files } = await this.answer;
    return files.map(({ freshness, diagnostics }) => [freshness, ...diagnostics.map(({ said }) => said)].join(" ")).join(", ");
  }
}
