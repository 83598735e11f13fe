// Asks the API. The token stays in this tab: in its session storage, and out of the address bar.

import { camelKeys } from "./keys.js";
import { t } from "./l10n.js";

const KEY = "goalwright.token";
/** Of what pages of this address tell each other; daemon/api/page_files.py asks for the token there. */
const CHANNEL = "goalwright";

export const LOCKED = t("The daemon was restarted, so this page's token is no longer valid. Run `goalwright trace page` again and open the address that it prints.");

/** What the API refused or could not do, in its own words. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP; 0: there was no answer
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Takes the token out of the address bar. A reload then finds it in the session storage, see daemon/api/page_files.py. */
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
 * Tabs that were opened from this one begin without the token, and ask those that have it. Only pages of this very
 * address hear them.
 * @param {() => string} token empty: this tab has none that is good
 */
export function shareToken(token) {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }) => {
    if (data?.wanted === true && token()) channel.postMessage({ token: token() });
  };
}

export class Api {
  /**
   * @param {string} token
   * @param {() => void} [onLocked] the token is not that of the daemon that answers: it was started anew
   */
  constructor(token, onLocked = () => {}) {
    this.token = token;
    this.onLocked = onLocked;
    this.locked = false;
  }

  /**
   * @param {string} path below `/api/`
   * @param {Record<string, string | number | boolean | null | undefined>} [query] null and undefined are left out
   * @returns {Promise<any>} with keys in camelCase. Raises ApiError.
   */
  async get(path, query = {}) {
    let answer;
    try {
      answer = await fetch(`/api/${path}${text(query)}`, { headers: { authorization: `Bearer ${this.token}` }, cache: "no-store" });
    } catch {
      throw new ApiError(0, t("The daemon does not answer. When it has stopped, run `goalwright trace page` again."));
    }
    if (answer.status === 401) {
      this.locked = true;
      this.onLocked();
      throw new ApiError(401, LOCKED);
    }
    const body = await answer.json().catch(() => null);
    if (!answer.ok) throw new ApiError(answer.status, detailOf(body) ?? t("The API answered {0}.", answer.status));
    return camelKeys(body);
  }

  /**
   * @param {string} traceId
   * @param {Record<string, string | number | boolean | null | undefined>} query
   */
  watchAddress(traceId, query) {
    const address = new URL(`/api/traces/${encodeURIComponent(traceId)}/watch${text({ ...query, token: this.token })}`, location.href);
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

/** @param {any} body */
const detailOf = (body) => (typeof body?.detail === "string" ? body.detail : undefined);
