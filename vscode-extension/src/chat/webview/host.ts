import type { Attachment } from "../../session/controller";
import type { FromWebview } from "../messages";

interface Api {
  postMessage(message: FromWebview): void;
  /** Older versions kept something else. */
  getState(): Partial<Saved> | undefined;
  setState(state: Saved): void;
}

/** A file for the next prompt. `mention`: how the text names it; when that is deleted, it goes too. */
export type Chip = Attachment & { mention?: string };

export interface Draft {
  text: string;
  files: Chip[];
}

/** What survives when VS Code throws the page away. */
interface Saved {
  /** What is being written, by session; the one to come has an empty id. */
  drafts: Record<string, Draft>;
}

declare function acquireVsCodeApi(): Api;

const api = acquireVsCodeApi();

export function post(message: FromWebview): void {
  api.postMessage(message);
}

/** Drafts of sessions that were left long ago are not kept. */
const MOST_DRAFTS = 50;

export function draftOf(sessionId: string): Draft {
  return api.getState()?.drafts?.[sessionId] ?? { text: "", files: [] };
}

export function saveDraft(sessionId: string, draft: Draft): void {
  const { [sessionId]: _, ...others } = api.getState()?.drafts ?? {};
  const kept = Object.entries(others).slice(-MOST_DRAFTS);
  if (draft.text || draft.files.length > 0) kept.push([sessionId, draft]);
  api.setState({ drafts: Object.fromEntries(kept) });
}
