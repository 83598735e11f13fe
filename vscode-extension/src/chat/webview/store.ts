/** The webview's copy of the state: components read it, messages from the host update it. */
import { NOTHING_EXPLORED, type Explored } from "../../explore/outcomes";
import type { Outgoing } from "../../session/controller";
import { apply, prepend, trim, type SessionState } from "../../session/state";
import type { Changes, Choices, Surrounding, ToWebview } from "../messages";

export interface ViewState {
  surrounding: Surrounding;
  session: SessionState | null;
  outbox: readonly Outgoing[];
  choices: Choices;
  changes: Changes;
  explored: Explored;
  /** The record of a branch or sub-agent that is shown instead of the session. */
  record: SessionState | null;
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
    case "all":
      return {
        surrounding: message.surrounding,
        session: message.session,
        outbox: message.outbox,
        choices: message.choices,
        changes: message.changes,
        explored: message.explored,
        record: message.record,
        loadingEarlier: false,
      };
    case "surrounding":
      return { ...state, surrounding: message.surrounding };
    case "outbox":
      return { ...state, outbox: message.outbox };
    case "choices":
      return { ...state, choices: message.choices };
    case "changes":
      return { ...state, changes: message.changes };
    case "explored":
      return { ...state, explored: message.explored };
    case "record":
      return { ...state, record: message.record };
    case "recordUpdates":
      return state.record ? { ...state, record: message.updates.reduce(apply, state.record) } : state;
    case "updates": {
      if (!state.session) return state;
      const session = message.updates.reduce(apply, state.session);
      return { ...state, session: following ? trim(session, MOST_ITEMS, KEPT_ITEMS) : session };
    }
    case "earlier":
      if (state.record?.session.trace.traceId === message.sessionId) return { ...state, record: prepend(state.record, message.earlier), loadingEarlier: false };
      if (!state.session || state.session.session.trace.traceId !== message.sessionId) return state;
      return { ...state, session: prepend(state.session, message.earlier), loadingEarlier: false };
    case "focus":
    case "showGoal":
    case "insert":
    case "restore":
    case "attach":
    case "unattached":
    case "completions":
      return state;
  }
}

/** Return true while a turn runs or waits for an answer. */
export function isBusy(state: ViewState): boolean {
  return state.session !== null && state.session.session.status !== "idle";
}
