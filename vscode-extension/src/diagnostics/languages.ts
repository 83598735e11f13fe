/** Two changes that nobody answered visibly, and the language is left to the daemon's own servers. */
const SILENT_CHANGES = 2;
const MOST_CHANGES_TO_REGAIN = 16;
/** What is left of a pause that was seen, at each answer. */
const FORGETTING = 0.9;
/** The longest pause (ms) between two words about one text that is waited for. */
const LONGEST_PAUSE_MS = 1_500;

interface Record {
  /** Whether anything was ever said about the text of such a document. */
  heard: boolean;
  /** Changes in a row that got no answer, or, after it failed, that got one. */
  unanswered: number;
  answered: number;
  failed: boolean;
  failures: number;
  pause: number;
}

/**
 * What extensions have shown about languages. That one looks after a language is believed when it says so in its
 * manifest *and* answers changes visibly: some fire no event when a file is as clean as before, and waiting for those
 * would cost the whole deadline at every edit. One that failed has to answer more changes in a row each time.
 */
export class Languages {
  private readonly records = new Map<string, Record>();

  /** `owner`: whether an extension with code says that it is for this language. */
  constructor(private readonly owner: (language: string) => boolean) {}

  /** Something was said about the text of such a document, `pause` ms after what was said about it before. */
  heard(language: string, pause = 0): void {
    const record = this.of(language);
    record.heard = true;
    // Later than that it is news of something else, e.g. of another file.
    if (pause <= LONGEST_PAUSE_MS) record.pause = Math.max(record.pause, pause);
  }

  /** How long (ms) extensions were seen to pause in the middle of an answer: some clear their problems first. */
  pause(language: string): number {
    const { pause } = this.of(language);
    return Math.min(pause * 1.25, LONGEST_PAUSE_MS);
  }

  /** A change of such a document was waited for. */
  asked(language: string, answered: boolean): void {
    const record = this.of(language);
    if (answered) {
      record.pause *= FORGETTING;
      record.unanswered = 0;
      record.answered++;
      if (record.failed && record.answered >= Math.min(2 ** record.failures, MOST_CHANGES_TO_REGAIN)) record.failed = false;
      return;
    }
    record.answered = 0;
    record.unanswered++;
    if (!record.failed && record.unanswered >= SILENT_CHANGES) {
      record.failed = true;
      record.failures++;
    }
  }

  covered(language: string): boolean {
    const record = this.of(language);
    return record.heard && !record.failed && this.owner(language);
  }

  /** How long (ms) an answer about such a document is worth waiting for, of at most `timeout`. */
  patience(language: string, timeout: number, settle: number, patient: boolean): number {
    const record = this.of(language);
    const owned = this.owner(language);
    if (owned && !record.failed && (patient || (record.heard && record.unanswered === 0))) return timeout;
    if (owned && !record.failed) return Math.min(timeout, 1_000);
    // Linters and spell checkers of any language: heard while the daemon's own servers are at work anyway.
    return record.heard ? Math.min(timeout, 2 * settle) : 0;
  }

  private of(language: string): Record {
    let record = this.records.get(language);
    if (!record) {
      record = { heard: false, unanswered: 0, answered: 0, failed: false, failures: 0, pause: 0 };
      this.records.set(language, record);
    }
    return record;
  }
}
