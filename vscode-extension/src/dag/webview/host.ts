import type { Message } from "../../../../daemon/api/page/shapes";
import { ApiError, type Api } from "../../../../daemon/api/page/api.js";
import type { FromGraph, SavedGraph, ToGraph } from "../messages";
import { t } from "../../l10n";

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

interface MessagePage {
  messages: Message[];
  hasEarlier: boolean;
}

const TRACE = /^traces\/([^/]+)\/messages$/;
type Query = Record<string, string | number | boolean | null | undefined>;

/** A replacement for the web page's `Api`: it asks the extension host for messages, because the page has no access token. */
export class HostApi {
  private readonly waiting = new Map<number, { resolve(page: MessagePage): void; reject(error: ApiError): void }>();
  private asked = 0;

  /** Return this object as the type that the pane expects. */
  get api(): Api {
    return this as unknown as Api;
  }

  /** Read a page of messages. Rejects with ApiError, like the web page's API. */
  get(path: string, query: Query = {}): Promise<MessagePage> {
    const found = TRACE.exec(path)?.[1];
    if (!found) return Promise.reject(new ApiError(404, t("There is no {0} here.", path)));
    const request = ++this.asked;
    const { internal_goal_id: goal, branch_id: branch, before, limit } = query;
    const wanted = {
      sessionId: decodeURIComponent(found),
      goalId: typeof goal === "string" ? goal : null,
      branchId: typeof branch === "string" ? branch : null,
      descendants: query["descendants"] === true,
      withoutGoal: query["without_goal"] === true,
      inherited: query["inherited"] !== false,
      before: typeof before === "number" ? before : null,
      limit: typeof limit === "number" ? limit : 50,
    };
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
    if (message.type === "messages") waiting?.resolve({ messages: message.messages, hasEarlier: message.hasEarlier });
    else waiting?.reject(new ApiError(0, message.text));
  }
}
