/** The webview's copy of the state: components read it, messages from the host update it. */
import { NOTHING_EXPLORED } from "../../explore/view";
import { apply, firstSequence, prepend, trim } from "../../session/state";
import type { Shown, ToWebview } from "../messages";

export interface ViewState extends Shown {
  loadingEarlier: boolean;
}

const MOST_ITEMS = 500;
const KEPT_ITEMS = 300;

export const EMPTY: ViewState = {
  surrounding: {
    connection: { phase: "starting", text: "", actions: [] },
    model: "",
    demo: false, examples: [], local: [],
    notice: "",
    folder: "",
    folderNote: "",
    recent: [],
    places: { home: "", folder: "" },
    mode: "ask",
    agent: "build",
    restricted: false,
    keys: { accept: "", reject: "" },
    active: null,
  },
  session: null,
  previewed: false,
  outbox: [],
  choices: {},
  changes: {},
  explored: NOTHING_EXPLORED,
  record: null,
  loadingEarlier: false,
};

/** Return the state after a message from the host. With `following`, the reader is at the end, so old lines can be dropped. */
export function reduce(state: ViewState, message: ToWebview, following: boolean): ViewState {
  switch (message.type) {
    case "state":
      // Another session or record is shown, so an answer for the one before is not awaited any more.
      return { ...state, ...message.state, ...("session" in message.state || "record" in message.state ? { loadingEarlier: false } : {}) };
    case "updates": {
      const before = state[message.of];
      if (!before) return state;
      const after = message.updates.reduce(apply, before);
      return { ...state, [message.of]: message.of === "session" && following ? trim(after, MOST_ITEMS, KEPT_ITEMS) : after };
    }
    case "earlier": {
      const of = (["record", "session"] as const).find((one) => state[one]?.session.trace.traceId === message.sessionId);
      const shown = of && state[of];
      if (!of || !shown) return state;
      // The oldest lines may have been dropped or loaded again since, and a gap would never be filled.
      const fits = firstSequence(shown) === message.before;
      return { ...state, [of]: fits ? prepend(shown, message.earlier) : shown, loadingEarlier: false };
    }
    default:
      return state;
  }
}
