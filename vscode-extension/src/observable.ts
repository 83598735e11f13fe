import * as vscode from "vscode";

/** An object that tells others when it changes, and that ends what it began when the window closes. */
export abstract class Observable<T = void> implements vscode.Disposable {
  protected readonly changed = new vscode.EventEmitter<T>();
  readonly onDidChange = this.changed.event;
  protected readonly disposables: vscode.Disposable[] = [this.changed];

  dispose(): void {
    vscode.Disposable.from(...this.disposables).dispose();
  }
}

/** Calls `work` once for many requests: some milliseconds after the first of them. */
export class Soon implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly milliseconds: number,
    private readonly work: () => void,
  ) {}

  request(): void {
    this.timer ??= setTimeout(() => {
      this.dispose();
      this.work();
    }, this.milliseconds);
  }

  /** Cancel a requested call. */
  dispose(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
