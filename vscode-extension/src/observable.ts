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
