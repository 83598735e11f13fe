import type { Attachment } from "../../session/controller";
import type { FromWebview } from "../messages";

interface Api {
  postMessage(message: FromWebview): void;
  getState(): Saved | undefined;
  setState(state: Saved): void;
}

/** What survives when VS Code throws the page away. */
export interface Saved {
  draft: string;
  /** Files for the next prompt. */
  attachments?: Attachment[];
}

declare function acquireVsCodeApi(): Api;

const api = acquireVsCodeApi();

export function post(message: FromWebview): void {
  api.postMessage(message);
}

export function saved(): Saved {
  return api.getState() ?? { draft: "" };
}

export function save(change: Partial<Saved>): void {
  api.setState({ ...saved(), ...change });
}
