import { createHash } from "node:crypto";
import type * as vscode from "vscode";
import type { PermissionRequest } from "../protocol.gen";
import { ALL, type Choice } from "./choice";

/** The user's unsent choices and edits in a pending request, kept when the window reloads. */
export interface Draft {
  /** Session of the request. */
  traceId: string;
  /** Hash of the proposal, see `proposalOf`. */
  proposal: string;
  choice: Choice;
  /** The user's edited texts by path. */
  texts: Readonly<Record<string, string>>;
}

const KEY = "goalwright.drafts";
/** Number of drafts to keep; those of abandoned sessions would accumulate. */
const MOST = 20;
/** Longest text to keep, in characters; VS Code's own backup of unsaved editors keeps longer ones. */
const LONGEST = 1_000_000;

/** Drafts by request, in the workspace's storage. */
export class Drafts {
  private readonly drafts: Map<string, Draft>;

  constructor(private readonly memory: Pick<vscode.Memento, "get" | "update">) {
    this.drafts = new Map(Object.entries(memory.get<Record<string, Draft>>(KEY, {})));
  }

  /** Return the ids of the requests of a session that have a draft. */
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

  setChoice(request: PermissionRequest, choice: Choice): void {
    this.set(request, { choice });
  }

  /** Store an edited text; undefined discards the edits. */
  setText(request: PermissionRequest, path: string, text: string | undefined): void {
    const { [path]: old, ...others } = this.texts(request.requestId);
    if (old === text) return;
    this.set(request, { texts: text === undefined ? others : { ...others, [path]: text } });
  }

  /**
   * Take over the draft of an earlier, identical request from a daemon that was killed. `pending`: request ids. True
   * when there was one.
   */
  adopt(request: PermissionRequest, pending: ReadonlySet<string>): boolean {
    if (this.drafts.has(request.requestId)) return false;
    const proposal = proposalOf(request);
    const earlier = this.of(request.traceId).find((id) => !pending.has(id) && this.drafts.get(id)?.proposal === proposal);
    if (earlier === undefined) return false;
    this.set(request, { choice: { ...this.choice(earlier), error: "" }, texts: this.texts(earlier) });
    this.drop(earlier);
    return true;
  }

  drop(requestId: string): void {
    if (this.drafts.delete(requestId)) this.save();
  }

  private set(request: PermissionRequest, change: Partial<Pick<Draft, "choice" | "texts">>): void {
    const { requestId, traceId } = request;
    const before = this.drafts.get(requestId) ?? { choice: ALL, texts: {} };
    // Move the draft to the end, so that the oldest ones are dropped first.
    this.drafts.delete(requestId);
    this.drafts.set(requestId, { ...before, ...change, traceId, proposal: proposalOf(request) });
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

/** Identify a proposal by its call and diffs: hunks are chosen by number, so the diffs must be equal. */
function proposalOf({ toolCallId, branchId, permission, files }: PermissionRequest): string {
  const proposed = files.map(({ path, diff }) => [path, diff]);
  return createHash("sha256").update(JSON.stringify([toolCallId, branchId, permission, proposed])).digest("hex");
}
