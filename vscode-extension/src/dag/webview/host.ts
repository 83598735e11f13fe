import { ApiError } from "../../../../daemon/api/page/api.js";
import type { Asked, FromGraph, SavedGraph, ToGraph } from "../panel";

interface VSCode {
  postMessage(message: FromGraph): void;
  getState(): SavedGraph | undefined;
  setState(state: SavedGraph): void;
}

declare function acquireVsCodeApi(): VSCode;

const vscode = acquireVsCodeApi();

export const post = (message: FromGraph): void => vscode.postMessage(message);
export const saved = (): SavedGraph | undefined => vscode.getState();
export const save = (state: SavedGraph): void => vscode.setState(state);

const waiting = new Map<number, { resolve(answer: unknown): void; reject(error: ApiError): void }>();
let asked = 0;

/** Ask the extension host, because the page has no access token. Rejects with ApiError, like the web page's API. */
export function ask<W extends keyof Asked>(what: W, params: Asked[W]["params"]): Promise<Asked[W]["answer"]> {
  const request = ++asked;
  return new Promise((resolve, reject) => {
    waiting.set(request, { resolve: resolve as (answer: unknown) => void, reject });
    post({ type: "ask", request, what, params });
  });
}

/** Handle an answer of the host. */
export function answered(message: Extract<ToGraph, { request: number }>): void {
  const one = waiting.get(message.request);
  waiting.delete(message.request);
  if (message.type === "answer") one?.resolve(message.answer);
  else one?.reject(new ApiError(0, message.text));
}
