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

/** What the person answers, in order; nothing when the list is empty. */
export const answers: (string | undefined)[] = [];

const show = (text: string): Promise<undefined> => {
  shown.push(text);
  return Promise.resolve(undefined);
};

const ask = (question: string | undefined): Promise<string | undefined> => {
  shown.push(question ?? "");
  return Promise.resolve(answers.shift());
};

export const window = {
  showErrorMessage: show,
  showInformationMessage: show,
  setStatusBarMessage: show,
  showInputBox: (options: { title?: string }) => ask(options.title),
  showWarningMessage: (question: string, { detail }: { detail: string }, ...buttons: string[]) =>
    ask([question, detail, `[${buttons.join("] [")}]`].join("\n")),
};
