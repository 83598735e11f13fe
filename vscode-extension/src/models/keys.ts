import * as vscode from "vscode";

/** The entry in the secret storage: all variables as one JSON object. */
const ENTRY = "goalwright.providers";
/** In the memory of all windows: there is such an entry. */
const KEPT = "goalwright.keysKept";

export type Variables = Readonly<Record<string, string>>;

/**
 * Keys and addresses of model providers that were entered in VS Code, by the names of environment variables. They are
 * kept in VS Code's secret storage and go to the daemon over its socket; no file, argument or log has them.
 */
export class ProviderKeys implements vscode.Disposable {
  private values: Variables = {};
  /** VS Code has lost what was entered: some windows in a browser keep secrets only until they are loaded again. */
  lost = false;
  private readonly changed = new vscode.EventEmitter<void>();
  /** Also when another window changed them. */
  readonly onDidChange = this.changed.event;
  /** Resolves when they have been read. */
  readonly ready: Promise<void>;
  private readonly listener: vscode.Disposable;

  constructor(
    private readonly secrets: vscode.SecretStorage,
    private readonly memory: Pick<vscode.Memento, "get" | "update">,
    private readonly log: (text: string) => void,
  ) {
    this.ready = this.read();
    this.listener = secrets.onDidChange(({ key }) => {
      if (key === ENTRY) void this.read();
    });
  }

  get variables(): Variables {
    return this.values;
  }

  /** Stores variables; `undefined` forgets one. Throws what the secret storage throws. */
  async set(changes: Readonly<Record<string, string | undefined>>): Promise<void> {
    await this.ready;
    const next = Object.fromEntries(Object.entries({ ...this.values, ...changes }).filter((entry): entry is [string, string] => !!entry[1]));
    await this.secrets.store(ENTRY, JSON.stringify(next));
    await this.memory.update(KEPT, Object.keys(next).length > 0);
    this.lost = false;
    this.take(next);
  }

  dispose(): void {
    this.listener.dispose();
    this.changed.dispose();
  }

  private async read(): Promise<void> {
    try {
      const entry = await this.secrets.get(ENTRY);
      this.lost = entry === undefined && this.memory.get<boolean>(KEPT, false);
      const stored: unknown = JSON.parse(entry ?? "{}");
      const entries = Object.entries(stored && typeof stored === "object" ? stored : {});
      this.take(Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string")));
    } catch (error) {
      // A key ring that is locked or damaged: the environment's keys still count.
      this.log(`the stored keys cannot be read: ${String(error)}`);
    }
  }

  private take(values: Variables): void {
    if (JSON.stringify(values) === JSON.stringify(this.values)) return;
    this.values = values;
    this.changed.fire();
  }
}
