/** Messages between the extension host and the webview. */
import type { ActionId } from "../daemon/problems";
import type { Choice } from "../diff/choice";
import type { Explored } from "../explore/view";
import type { Places } from "../permission/format";
import type { HistoryChange, Mode, QuestionAnswer, SessionMessagesResult } from "../protocol.gen";
import type { Attachment, Outgoing } from "../session/controller";
import type { ActiveFile } from "../composer/active";
import type { Completion } from "../composer/text";
import type { SessionState, Update } from "../session/state";
import type { ChatView } from "./view";

/** State outside the session: connection, model, folder, recent sessions. */
export interface Surrounding {
  connection: {
    phase: "idle" | "noFolder" | "starting" | "connected" | "reconnecting" | "stopped" | "failed" | "installing";
    text: string;
    actions: readonly { id: ActionId; label: string }[];
  };
  /** Empty while there is no connection. */
  model: string;
  demo: boolean;
  /** Suggested prompts for this folder and model, shown as buttons. */
  examples: readonly string[];
  /** Ids of model servers that run on this machine. */
  local: readonly string[];
  /** The daemon's notice about the model. */
  notice: string;
  folder: string;
  /** A note for windows with more than one folder. */
  folderNote: string;
  recent: readonly { id: string; title: string; when: string; needs: boolean }[];
  keys: { accept: string; reject: string };
  /** Folders that are cut from file names on display. */
  places: Places;
  /** Mode of a new session. */
  mode: Mode;
  /** Agent of a new session. */
  agent: string;
  /** True in VS Code's restricted mode, when the user does not trust the folder. */
  restricted: boolean;
  /** The file in the active editor. */
  active: ActiveFile | null;
}

/** A file for the next prompt. `mention` is its name in the text; deleting that removes the file, too. */
export type Chip = Attachment & { mention?: string };

export interface Draft {
  text: string;
  files: Chip[];
  /** Id of the earlier message that this draft replaces. */
  instead?: string;
}

/** An edit of a queued prompt. `original`: the prompt's own text. */
export interface QueueEdit {
  sessionId: string;
  text: string;
  original: string;
}

/** Text that the user has written in the page but not sent. */
export interface Written {
  /** Drafts by session; the draft of a new session has an empty id. */
  drafts: Readonly<Record<string, Omit<Draft, "files">>>;
  /** Files of the drafts. They can be large, so they are sent and stored apart, only when they change. */
  files: Readonly<Record<string, Chip[]>>;
  /** Unsent answers by request. */
  answers: Readonly<Record<string, { feedback?: string; answers?: QuestionAnswer[] }>>;
  /** Edits of queued prompts, by prompt. */
  edits: Readonly<Record<string, QueueEdit>>;
  /** Parts of the page that are expanded. */
  unfolded: readonly string[];
}

/** The user's choices in pending requests, by request. */
export type Choices = Readonly<Record<string, Choice>>;
/** Changes that can be undone or redone, by tool call. */
export type Changes = Readonly<Record<string, HistoryChange>>;

/** Commands for a goal of the plan. */
export type GoalCommand = "focusGoal" | "renameGoal" | "abandonGoal" | "undoGoal" | "moveGoal" | "moveGoalUp" | "moveGoalDown" | "goalActions";

/** Commands of the page that only ask the user for a choice or a text: the focus returns to the chat. */
export const ASKING_COMMANDS = ["setMode", "chooseAgent", "chooseModel", "renameSession", "addGoal", "renameGoal"] as const;
/** The other commands that the page may run. */
export const OTHER_COMMANDS = [
  "focusGoal", "abandonGoal", "undoGoal", "moveGoal", "moveGoalUp", "moveGoalDown", "goalActions", "buildPlan", "connectModel",
  "managePermissions", "openSession", "chooseFolder", "manageTrust", "compact", "showContext", "setBudget",
] as const;
export type PageCommand = (typeof ASKING_COMMANDS | typeof OTHER_COMMANDS)[number];

/** The state on display in the page. */
export interface Shown {
  surrounding: Surrounding;
  session: SessionState | null;
  /** True while messages from the disk stand for the session: its requests and queue are not known yet. */
  previewed: boolean;
  outbox: readonly Outgoing[];
  choices: Choices;
  changes: Changes;
  explored: Explored;
  /** The record of a branch or sub-agent that is shown instead of the session. */
  record: SessionState | null;
}

export type ToWebview =
  /** The parts that changed; all of them at the start and for another session. */
  | { type: "state"; state: Partial<Shown> }
  | { type: "updates"; of: "session" | "record"; updates: readonly Update[] }
  /** `before`: as in the question. */
  | { type: "earlier"; sessionId: string; before: number; earlier: SessionMessagesResult }
  /** `last`: focus what had the focus last, instead of the composer. */
  | { type: "focus"; last?: boolean }
  | { type: "showGoal"; goalId: string }
  | { type: "insert"; text: string }
  /** `sessionId`: the session whose draft takes it, empty for a new one; without it, the session on display. */
  | { type: "restore"; sessionId?: string; text: string; attachments: Attachment[]; instead?: string }
  /** The daemon rejected the answer to a request, which keeps its card. */
  | { type: "refused"; requestId: string }
  /** `sessionId`: as above, of the session whose draft has the mention. */
  | { type: "attach"; sessionId?: string; attachments: Attachment[]; mention?: string }
  | { type: "unattached"; sessionId?: string; mention: string; reason: string }
  | { type: "completions"; id: number; rows: readonly Completion[]; nothing: string };

type Handlers = ReturnType<ChatView["handlersOf"]>;
type MessageOf<T extends keyof Handlers> = Parameters<Handlers[T]> extends [infer Fields] ? { type: T } & Fields : { type: T };
/** A message for each handler of the host, with the fields that the handler takes. */
export type FromWebview = { [T in keyof Handlers]: MessageOf<T> }[keyof Handlers];
