import type * as vscode from "vscode";
import { ALL, type Choice } from "./choice";

/** What the person has done to a request that still waits: kept when the window reloads. */
export interface Draft {
  /** The session of the request. */
  traceId: string;
  choice: Choice;
  /** By path: the texts as the person edited them. */
  texts: Readonly<Record<string, string>>;
}

const KEY = "goalwright.drafts";
/** Requests whose drafts are kept; those of sessions that were never opened again would pile up. */
const MOST = 20;
/** A longer text is left to VS Code's own backup of unsaved editors. */
const LONGEST = 1_000_000;

/** Drafts by request, in the memory of the workspace. */
export class Drafts {
  private readonly drafts: Map<string, Draft>;

  constructor(private readonly memory: Pick<vscode.Memento, "get" | "update">) {
    this.drafts = new Map(Object.entries(memory.get<Record<string, Draft>>(KEY, {})));
  }

  /** Ids of the requests of a session that have a draft. */
  of(traceId: string): string[] {
    return [...this.drafts].filter(([, draft]) => draft.traceId === traceId).map(([requestId]) => requestId);
  }

  choice(requestId: string): Choice {
    return this.drafts.get(requestId)?.choice ?? ALL;
  }

  texts(requestId: string): Readonly<Record<string, string>> {
    return this.drafts.get(requestId)?.texts ?? {};
  }

  choices(): Record<string, Choice> {
    return Object.fromEntries([...this.drafts].map(([requestId, { choice }]) => [requestId, choice]));
  }

  setChoice(requestId: string, traceId: string, choice: Choice): void {
    this.set(requestId, { traceId, choice, texts: this.texts(requestId) });
  }

  /** `text` undefined: the person takes the edits back. */
  setText(requestId: string, traceId: string, path: string, text: string | undefined): void {
    const { [path]: old, ...others } = this.texts(requestId);
    if (old === text) return;
    this.set(requestId, { traceId, choice: this.choice(requestId), texts: text === undefined ? others : { ...others, [path]: text } });
  }

  drop(requestId: string): void {
    if (this.drafts.delete(requestId)) this.save();
  }

  private set(requestId: string, draft: Draft): void {
    // The one that was touched last is the last to go.
    this.drafts.delete(requestId);
    this.drafts.set(requestId, draft);
    for (const old of [...this.drafts.keys()].slice(0, -MOST)) this.drafts.delete(old);
    this.save();
  }

  private save(): void {
    const kept = [...this.drafts].map(([requestId, draft]) => [
      requestId,
      { ...draft, texts: Object.fromEntries(Object.entries(draft.texts).filter(([, text]) => text.length <= LONGEST)) },
    ]);
    void this.memory.update(KEY, Object.fromEntries(kept));
  }
}
