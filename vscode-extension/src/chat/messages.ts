/** What the extension host and the webview say to each other. */
import type { ActionId } from "../daemon/problems";
import type { Choice } from "../diff/choice";
import type { Answer } from "../permission/grants";
import type { Explored } from "../explore/shown";
import type { Places } from "../permission/words";
import type { HistoryChange, Mode, QuestionAnswer, SessionMessagesResult } from "../protocol.gen";
import type { Attachment, Outgoing } from "../session/controller";
import type { ActiveFile } from "../composer/active";
import type { Completion } from "../composer/text";
import type { SessionState, Update } from "../session/state";

/** What surrounds the session: connection, model, folder, recent sessions. */
export interface Surrounding {
  connection: {
    phase: "idle" | "noFolder" | "starting" | "connected" | "reconnecting" | "stopped" | "failed" | "installing";
    text: string;
    actions: readonly { id: ActionId; label: string }[];
  };
  /** Empty while there is no connection. */
  model: string;
  demo: boolean;
  /** Prompts that fit this folder and model, as buttons. */
  examples: readonly string[];
  /** Servers of models that answer on this machine, by id. */
  local: readonly string[];
  /** What the daemon has to say about the model. */
  notice: string;
  folder: string;
  /** Said when the window has more than one folder. */
  folderNote: string;
  recent: readonly { id: string; title: string; when: string; needs: boolean }[];
  keys: { accept: string; reject: string };
  /** What names of files are shortened by. */
  places: Places;
  /** Of a new session. */
  mode: Mode;
  /** Of a new session. */
  agent: string;
  /** VS Code's restricted mode: the person does not trust the folder. */
  restricted: boolean;
  /** What the active editor shows. */
  active: ActiveFile | null;
}

/** A file for the next prompt. `mention`: how the text names it; when that is deleted, it goes too. */
export type Chip = Attachment & { mention?: string };

export interface Draft {
  text: string;
  files: Chip[];
  /** The earlier message that it is to take the place of, by its id. */
  instead?: string;
}

/** What the user has written in the page and not sent. */
export interface Written {
  /** Prompts by session; the one to come has an empty id. */
  drafts: Readonly<Record<string, Draft>>;
  /** By request. */
  answers: Readonly<Record<string, { feedback?: string; answers?: QuestionAnswer[] }>>;
  /** Texts of queued prompts that are being edited, by prompt. */
  edits: Readonly<Record<string, string>>;
  /** Parts of the page that are unfolded. */
  unfolded: readonly string[];
}

/** What the person chose of each pending request that was touched, by request. */
export type Choices = Readonly<Record<string, Choice>>;
/** What can be undone and redone, by tool call. */
export type Changes = Readonly<Record<string, HistoryChange>>;

/** Commands that the page's buttons run. */
export type PageCommand = "setMode" | "chooseAgent" | "buildPlan" | "chooseModel" | "managePermissions" | "renameSession" | "chooseFolder" | "manageTrust";

/** What the meter's buttons do: commands of the same names. */
export type MeterAction = "compact" | "showContext" | "setBudget";

/** What the plan in the chat can do to a goal: commands of similar names. */
export type GoalAction = "add" | "focus" | "rename" | "abandon" | "undo" | "moveUp" | "moveDown" | "more";

export type ToWebview =
  | {
      type: "all";
      surrounding: Surrounding;
      session: SessionState | null;
      outbox: readonly Outgoing[];
      choices: Choices;
      changes: Changes;
      explored: Explored;
      record: SessionState | null;
    }
  | { type: "explored"; explored: Explored }
  | { type: "record"; record: SessionState | null }
  | { type: "recordUpdates"; updates: readonly Update[] }
  | { type: "surrounding"; surrounding: Surrounding }
  | { type: "outbox"; outbox: readonly Outgoing[] }
  | { type: "choices"; choices: Choices }
  | { type: "changes"; changes: Changes }
  | { type: "updates"; updates: readonly Update[] }
  | { type: "earlier"; sessionId: string; earlier: SessionMessagesResult }
  | { type: "focus" }
  | { type: "showGoal"; goalId: string }
  | { type: "insert"; text: string }
  | { type: "restore"; text: string; attachments: Attachment[]; instead?: string }
  | { type: "attach"; attachments: Attachment[]; mention?: string }
  | { type: "unattached"; mention: string; reason: string }
  | { type: "completions"; id: number; rows: readonly Completion[]; nothing: string };

export type FromWebview =
  | { type: "ready" }
  | { type: "written"; written: Written }
  | { type: "stopCommand"; callId: string }
  | { type: "prompt"; text: string; attachments: Attachment[]; steer?: boolean; instead?: string }
  | { type: "complete"; id: number; sign: "@" | "/"; query: string; begins: boolean }
  | { type: "mention"; key: string; text: string; written?: boolean }
  | { type: "includeActive"; on: boolean }
  | { type: "openChip"; name: string }
  | { type: "pickFiles" }
  | { type: "cancel" }
  | { type: "sendQueue" }
  | { type: "holdQueue"; promptId: string; held: boolean }
  | { type: "reply"; requestId: string; answer: Answer }
  | { type: "openDiff"; requestId: string; path?: string; quietly?: boolean }
  | { type: "choose"; requestId: string; path: string; hunk?: number; accepted: boolean }
  | { type: "decideFile"; requestId: string; path: string; accepted: boolean }
  | { type: "answerAll"; requestId: string; accepted: boolean }
  | { type: "discardEdits"; requestId: string; path: string }
  | { type: "step"; action: "undo" | "redo"; changeId: string }
  | { type: "restoreBefore"; messageId: string }
  | { type: "reviewSince"; messageId: string }
  | { type: "resend"; messageId: string; text: string; attachments: Attachment[] }
  | { type: "fork"; messageId: string; text: string; attachments: Attachment[] }
  | { type: "retry" }
  | { type: "continue" }
  | { type: "editQueue"; promptId: string; text: string | null }
  | { type: "earlier"; sessionId: string; before: number }
  | { type: "openSession"; sessionId: string }
  | { type: "branchFiles"; sessionId: string; branchId: string }
  | { type: "showBranch"; sessionId: string; branchId: string; path?: string }
  | { type: "useBranch"; sessionId: string; exploreStartId: string; choice: readonly string[] }
  | { type: "leaveChoice"; sessionId: string; exploreStartId: string; none: boolean }
  | { type: "removeBranch"; sessionId: string; branchId: string }
  | { type: "openRecord"; sessionId: string }
  | { type: "closeRecord" }
  | { type: "moreSessions" }
  | { type: "connectModel"; provider: string }
  | { type: "action"; id: ActionId }
  | { type: "command"; command: PageCommand }
  | { type: "meter"; action: MeterAction }
  | { type: "goal"; action: GoalAction; goalId?: string }
  | { type: "moveGoal"; goalId: string; parentId: string | null; beforeId: string | null }
  | { type: "openLink"; href: string }
  | { type: "openFile"; path: string; line?: number; column?: number }
  | { type: "copy"; text: string }
  | { type: "insertCode"; text: string }
  | { type: "terminal"; text: string }
  | { type: "stopJob"; sessionId: string; jobId: string };
