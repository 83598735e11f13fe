/** Time, so that tests can have their own. */
export interface Clock {
  /** In ms; only differences count. */
  now(): number;
  /** Calls back once after so many ms; returns how to call that off. */
  after(ms: number, call: () => void): () => void;
}

export const realClock: Clock = {
  now: () => performance.now(),
  after: (ms, call) => {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};

/** Waits for events, not by polling: who waits is looked at again when something happened, or when it is due. */
export class Waiting {
  private readonly waiters = new Set<() => void>();
  private ended = false;

  constructor(private readonly clock: Clock) {}

  /** Something happened. */
  happened(): void {
    for (const look of [...this.waiters]) look();
  }

  /** Nobody waits any longer, now and later. */
  end(): void {
    this.ended = true;
    this.happened();
  }

  /**
   * Until `due` is reached, at most until `deadline()`; both in ms of the clock, and asked again after each event.
   * `due` is undefined as long as nobody knows. Returns whether it was reached.
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
