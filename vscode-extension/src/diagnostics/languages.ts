/** Number of unanswered changes in a row after which a language is left to the daemon's own servers. */
const SILENT_CHANGES = 2;
const MOST_CHANGES_TO_REGAIN = 16;
/** Factor by which an observed pause shrinks at each answer. */
const FORGETTING = 0.9;
/** Longest pause (ms) to wait for between two reports about one version. */
const LONGEST_PAUSE_MS = 1_500;

interface Record {
  /** True when an extension has reported on a document of this language. */
  heard: boolean;
  /** Changes in a row that got no answer, and changes in a row that got one after a failure. */
  unanswered: number;
  answered: number;
  failed: boolean;
  failures: number;
  pause: number;
}

/**
 * Experience with extensions by language. An extension counts as responsible for a language when its manifest says so
 * *and* it answers changes visibly. Some fire no event when a file stays clean, and waiting for those would take the
 * whole timeout at every edit. After each failure it has to answer more changes in a row.
 */
export class Languages {
  private readonly records = new Map<string, Record>();

  /** `owner` tells whether an extension with code declares this language. */
  constructor(private readonly owner: (language: string) => boolean) {}

  /** Record a report about a document, `pause` ms after the previous one about the same version. */
  heard(language: string, pause = 0): void {
    const record = this.of(language);
    record.heard = true;
    // A later report is about something else, e.g. a change of another file.
    if (pause <= LONGEST_PAUSE_MS) record.pause = Math.max(record.pause, pause);
  }

  /** Return how long (ms) extensions pause within an answer, because some clear their problems first. */
  pause(language: string): number {
    const { pause } = this.of(language);
    return Math.min(pause * 1.25, LONGEST_PAUSE_MS);
  }

  /** Record whether a change was answered in time. */
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

  /** Return how long (ms) to wait for an answer, at most `timeout`. */
  patience(language: string, timeout: number, settle: number, patient: boolean): number {
    const record = this.of(language);
    const owned = this.owner(language);
    if (owned && !record.failed && (patient || (record.heard && record.unanswered === 0))) return timeout;
    if (owned && !record.failed) return Math.min(timeout, 1_000);
    // Linters and spell checkers for any language may report while the daemon's own servers work anyway.
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
