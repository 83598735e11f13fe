import { ApiError } from "../../../../daemon/api/page/api.js";
import type { TraceMessagesParams } from "../../protocol.gen";
import type { FromGraph, SavedGraph, ToGraph } from "../panel";

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

type MessagePage = Pick<Extract<ToGraph, { type: "messages" }>, "messages" | "hasEarlier">;

/** Asks the extension host for messages, because the page has no access token. */
export class HostMessages {
  private readonly waiting = new Map<number, { resolve(page: MessagePage): void; reject(error: ApiError): void }>();
  private asked = 0;

  /** Read a page of messages. Rejects with ApiError, like the web page's API. */
  read(wanted: TraceMessagesParams): Promise<MessagePage> {
    const request = ++this.asked;
    return new Promise((resolve, reject) => {
      this.waiting.set(request, { resolve, reject });
      post({ type: "messages", request, wanted });
    });
  }

  /** Handle an answer from the host; other messages are ignored. */
  answered(message: ToGraph): void {
    if (message.type !== "messages" && message.type !== "messagesFailed") return;
    const waiting = this.waiting.get(message.request);
    this.waiting.delete(message.request);
    if (message.type === "messages") waiting?.resolve(message);
    else waiting?.reject(new ApiError(0, message.text));
  }
}
