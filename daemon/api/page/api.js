// Calls the API. The token of a daemon stays in this tab: in its session storage, never in the address bar. On a shared
// server there is none here: the browser sends a cookie that scripts cannot read.

import { camelKeys } from "./keys.js";
import { t } from "./l10n.js";

/** @import { Message, MessagesQuery } from "./shapes.js" */

const KEY = "goalwright.token";
/** Channel on which tabs of this origin share the token; daemon/api/page_files.py asks for it there. */
const CHANNEL = "goalwright";

export const LOCKED = t("The daemon was restarted, so this page's token is no longer valid. Run `goalwright trace page` again and open the address that it prints.");

/** An error answer of the API, with the API's own message, or a request that got no answer. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status; 0: no answer
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Moves the token from the address bar to the session storage, where a reload finds it (see daemon/api/page_files.py). */
export function takeToken() {
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
  return given ?? sessionStorage.getItem(KEY) ?? "";
}

/**
 * Gives the token to tabs that ask for it: a tab opened from this one starts without one. Only tabs of the same origin
 * can listen to the channel.
 * @param {() => string} token empty when this tab has no valid token
 */
export function shareToken(token) {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }) => {
    if (data?.wanted === true && token()) channel.postMessage({ token: token() });
  };
}

export class Api {
  /**
   * @param {string} token empty: a cookie stands for it
   * @param {() => void} [onLocked] called when the token is not valid: the daemon was restarted, or nobody has signed in
   */
  constructor(token, onLocked = () => {}) {
    this.token = token;
    this.onLocked = onLocked;
    this.locked = false;
  }

  /**
   * @param {string} path below `/api/`
   * @param {Record<string, string | number | boolean | null | undefined>} [query] null and undefined are left out
   * @returns {Promise<any>} body of the answer with keys in camelCase. Throws ApiError.
   */
  async get(path, query = {}) {
    let answer;
    try {
      answer = await fetch(`/api/${path}${text(query)}`, { headers: this.token ? { authorization: `Bearer ${this.token}` } : {}, cache: "no-store" });
    } catch {
      throw new ApiError(0, this.token ? t("The daemon does not answer. When it has stopped, run `goalwright trace page` again.") : t("The server does not answer."));
    }
    if (answer.status === 401) {
      this.locked = true;
      this.onLocked();
      throw new ApiError(401, this.token ? LOCKED : t("Sign in to see the sessions."));
    }
    const body = await answer.json().catch(() => null);
    if (!answer.ok) throw new ApiError(answer.status, detailOf(body) ?? t("The API answered {0}.", answer.status));
    return camelKeys(body);
  }

  /**
   * @param {MessagesQuery} wanted
   * @returns {Promise<{ messages: Message[], hasEarlier: boolean }>} throws ApiError
   */
  messages({ sessionId, goalId, branchId, descendants, withoutGoal, inherited, before, limit }) {
    const query = { internal_goal_id: goalId, branch_id: branchId, descendants, without_goal: withoutGoal, inherited, before, limit };
    return this.get(`traces/${encodeURIComponent(sessionId)}/messages`, query);
  }

  /**
   * @param {string} traceId
   * @param {Record<string, string | number | boolean | null | undefined>} query
   */
  watchAddress(traceId, query) {
    const address = new URL(`/api/traces/${encodeURIComponent(traceId)}/watch${text({ ...query, token: this.token || null })}`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    return address.href;
  }
}

/** @param {Record<string, string | number | boolean | null | undefined>} query */
function text(query) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  const line = params.toString();
  return line ? `?${line}` : "";
}

/**
 * Signs in to a shared server, or out of it.
 * @param {"sign-in" | "sign-out"} what
 * @param {string} [token]
 * @returns {Promise<string>} why it failed; empty when it worked
 */
export async function sign(what, token) {
  try {
    const answer = await fetch(`/${what}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
    return answer.ok ? "" : detailOf(await answer.json().catch(() => null)) ?? t("The API answered {0}.", answer.status);
  } catch {
    return t("The server does not answer.");
  }
}

/** @param {any} body */
const detailOf = (body) => (typeof body?.detail === "string" ? body.detail : undefined);
