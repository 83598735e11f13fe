/** As much of VS Code's API as the session controller touches. */
type Listener<T> = (value: T) => void;

export class EventEmitter<T> {
  private readonly listeners = new Set<Listener<T>>();

  readonly event = (listener: Listener<T>): { dispose(): void } => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };

  fire(value: T): void {
    for (const listener of this.listeners) listener(value);
  }

  dispose(): void {
    this.listeners.clear();
  }
}

export class Disposable {
  static from(...all: { dispose(): unknown }[]): Disposable {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }

  constructor(private readonly call: () => void) {}

  dispose(): void {
    this.call();
  }
}

/** What was shown, for the test to look at. */
export const shown: string[] = [];

const show = (text: string): Promise<undefined> => {
  shown.push(text);
  return Promise.resolve(undefined);
};

export const window = { showErrorMessage: show, showInformationMessage: show };
