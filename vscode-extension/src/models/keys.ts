import type * as vscode from "vscode";
import { Observable } from "../observable";

/** Name of the entry in the secret storage: all variables as one JSON object. */
const ENTRY = "goalwright.providers";
/** Name of the flag in the global storage that the entry exists. */
const KEPT = "goalwright.keysKept";

export type Variables = Readonly<Record<string, string>>;

/**
 * Keys and addresses of model providers that the user entered, by names of environment variables. They are kept in VS
 * Code's secret storage and sent to the daemon over its socket, never in files, arguments or logs. They change also when
 * another window changes them.
 */
export class ProviderKeys extends Observable {
  variables: Variables = {};
  /** True when VS Code has lost the keys: some browser windows keep secrets only until a reload. */
  lost = false;
  /** Resolves when the variables have been read. */
  readonly ready: Promise<void>;

  constructor(
    private readonly secrets: vscode.SecretStorage,
    private readonly memory: Pick<vscode.Memento, "get" | "update">,
    private readonly log: (text: string) => void,
  ) {
    super();
    this.ready = this.read();
    this.disposables.push(
      secrets.onDidChange(({ key }) => {
        if (key === ENTRY) void this.read();
      }),
    );
  }

  /** Store variables; `undefined` removes one. Throws errors of the secret storage. */
  async set(changes: Readonly<Record<string, string | undefined>>): Promise<void> {
    // Read again, because the key ring may have been locked at the start: what is not known here would be lost.
    const next = Object.fromEntries(Object.entries({ ...(await this.stored()), ...changes }).filter((entry): entry is [string, string] => !!entry[1]));
    await this.secrets.store(ENTRY, JSON.stringify(next));
    await this.memory.update(KEPT, Object.keys(next).length > 0);
    this.lost = false;
    this.take(next);
  }

  private async read(): Promise<void> {
    try {
      this.take(await this.stored());
    } catch (error) {
      // The key ring is locked; keys from the environment still work.
      this.log(`the stored keys cannot be read: ${String(error)}`);
    }
  }

  /** Return the stored variables; none if the entry is damaged. Throws errors of the secret storage. */
  private async stored(): Promise<Variables> {
    const entry = await this.secrets.get(ENTRY);
    this.lost = entry === undefined && this.memory.get<boolean>(KEPT, false);
    try {
      const stored: unknown = JSON.parse(entry ?? "{}");
      const entries = Object.entries(stored && typeof stored === "object" ? stored : {});
      return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
    } catch (error) {
      this.log(`the stored keys are damaged: ${String(error)}`);
      return {};
    }
  }

  private take(variables: Variables): void {
    if (JSON.stringify(variables) === JSON.stringify(this.variables)) return;
    this.variables = variables;
    this.changed.fire();
  }
}
