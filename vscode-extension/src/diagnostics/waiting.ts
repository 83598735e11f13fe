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
