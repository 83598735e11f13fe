/** Values of the protocol for tests, complete enough for the types. */
import type {
  Event,
  FileDiff,
  Goal,
  GoalStats,
  Message,
  Meter,
  Part,
  PermissionRequest,
  Reason,
  Role,
  Rule,
  SessionInfo,
  SessionLoadResult,
  ShownHunk,
  StoredGrant,
  ToolResultPart,
  Trace,
  ViewUpdate,
} from "../../src/protocol.gen";
import { numbersIn } from "./plans";

const TIME = "2026-01-01T00:00:00Z";
export const NO_STATS: GoalStats = { messageCount: 0, totalTokens: 0, totalCost: 0, unpricedTokens: 0, durationMs: 0, preview: null };

export function session(over: Partial<SessionInfo> = {}): SessionInfo {
  return {
    trace: {
      traceId: "s1",
      format: 1,
      title: "",
      summary: "",
      workspace: "/w",
      agent: "build",
      model: "demo/demo",
      createdAt: TIME,
      updatedAt: TIME,
      messageCount: 0,
      usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, unpriced: 0 },
      totalCost: 0,
      lastEventId: 0,
      lastStopReason: null,
      running: false,
      // What else the daemon keeps there is nothing to the extension.
    } as Trace,
    status: "idle",
    demo: false,
    foreign: false,
    model: "demo/demo",
    mode: "ask",
    trust: "trusted",
    ...over,
  };
}

/** What changed of what is shown. */
export function view(over: Partial<ViewUpdate>): ViewUpdate {
  return { status: null, awaitsChoice: null, totalMessages: null, totalTokens: null, totalCost: null, unpricedTokens: null, usage: null, goalNumbers: null, branches: null, ...over };
}

export function loaded(over: Partial<SessionLoadResult> = {}): SessionLoadResult {
  return {
    session: session(),
    messages: [],
    hasEarlier: false,
    streaming: null,
    goalTree: { mission: "", currentId: null, goals: [] },
    view: null,
    goalNumbers: numbersIn(over.goalTree ?? { mission: "", goals: [] }),
    pending: [],
    queue: [],
    lastEventId: 0,
    meter: null,
    branches: {},
    subagents: {},
    awaitsChoice: [],
    sealed: "",
    notices: [],
    underWay: [],
    compacting: false,
    ...over,
  };
}

export const NO_BUDGET = { sessionUsd: null, sessionTokens: null, goalUsd: null, goalTokens: null };

export function meter(over: Partial<Meter> = {}): Meter {
  return {
    contextTokens: 42_000,
    contextWindow: 200_000,
    windowAssumed: false,
    compactAt: 150_000,
    usage: { input: 10_000, output: 2_000, cacheRead: 83_000, cacheWrite: 7_000, unpriced: 0 },
    cost: 0.12,
    costKnown: true,
    budget: NO_BUDGET,
    warningUsd: 0,
    withoutGoal: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, unpriced: 0 },
    withoutGoalCost: 0,
    goals: [],
    ...over,
  };
}

export function message(role: Role, sequence: number, content: Part[], over: Partial<Message> = {}): Message {
  return {
    messageId: `m${sequence}`,
    traceId: "s1",
    branchId: null,
    role,
    sequence,
    goalId: null,
    toolCallId: null,
    content,
    description: "",
    tokens: null,
    cost: null,
    createdAt: TIME,
    model: null,
    usage: null,
    durationMs: null,
    overlapMs: null,
    ...over,
  };
}

export const text = (value: string): Part => ({ type: "text", text: value });

export function call(id: string, name: string, input: object = {}): Part & { type: "tool_call" } {
  return { type: "tool_call", id, name, input: JSON.stringify(input), finished: true };
}

export function result(toolCallId: string, over: Partial<ToolResultPart> = {}): ToolResultPart {
  return {
    type: "tool_result",
    toolCallId,
    name: "edit",
    content: "Edit applied.",
    metadata: {},
    isError: false,
    title: "",
    images: [],
    ...over,
  };
}

export function request(requestId: string, over: Partial<PermissionRequest> = {}): PermissionRequest {
  return {
    requestId,
    traceId: "s1",
    branchId: null,
    goalId: null,
    toolCallId: `call-${requestId}`,
    tool: "edit",
    permission: "edit",
    targets: ["a.py"],
    title: "Edit a.py (+1 -1)",
    detail: "",
    modelSays: "",
    notes: [],
    files: [file("a.py")],
    suggestions: [{ permission: "edit", pattern: "a.py" }],
    rule: rule("edit", "*"),
    reasons: [],
    warnings: [],
    questions: [],
    createdAt: TIME,
    ...over,
  };
}

export function rule(permission: string, pattern: string, over: Partial<Rule> = {}): Rule {
  return { permission, pattern, action: "ask", source: "shipped", file: "", words: "", ...over };
}

export function reason(permission: string, target: string, over: Partial<Reason> = {}): Reason {
  return { permission, target, action: "ask", rule: rule(permission, "*"), why: "", ...over };
}

export function grant(grantId: string, over: Partial<StoredGrant> = {}): StoredGrant {
  return { grantId, permission: "bash", pattern: "git log *", scope: "session", grantedAt: TIME, by: "VS Code", title: "Run git log", ...over };
}

export function file(path: string, over: Partial<FileDiff> = {}): FileDiff {
  const diff = `--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-a\n+b\n`;
  return { path, kind: "update", diff, added: 1, removed: 1, movedFrom: null, hunks: 1, shownHunks: [hunk(2, 3, 1, 1, 1, 1)], ...over };
}

export function hunk(row: number, rows: number, oldStart: number, oldLines: number, newStart: number, newLines: number): ShownHunk {
  return { row, rows, oldStart, oldLines, newStart, newLines };
}

export function goal(id: string, over: Partial<Goal> = {}): Goal {
  return {
    id,
    parentId: null,
    branchId: null,
    type: "normal",
    description: `Goal ${id}`,
    reason: "",
    status: "pending",
    summary: null,
    needs: null,
    parallel: false,
    branchIds: null,
    exploreStartId: null,
    mergeSummary: null,
    selectedBranch: null,
    selfStats: NO_STATS,
    cumulativeStats: NO_STATS,
    ...over,
  };
}

type Kind = Event["event"];
type Of<K extends Kind> = Extract<Event, { event: K }>;

/** An event with its id; the rest as given. */
/** No model was asked for the title or summary that a `session_updated` brings. */
export const UNPAID = { usage: null, cost: null, model: null, durationMs: null };

export function event<K extends Kind>(eventId: number, kind: K, rest: Omit<Of<K>, "event" | "eventId" | "traceId" | "time">, shown?: Partial<ViewUpdate>): {
  event: Of<K>;
  view?: ViewUpdate;
} {
  return { event: { eventId, traceId: "s1", time: TIME, event: kind, ...rest } as unknown as Of<K>, ...(shown && { view: view(shown) }) };
}
