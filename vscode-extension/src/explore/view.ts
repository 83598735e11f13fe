/** Branches and sub-agents of a session, and the state of an exploration's card. Pure. */
import type { BranchMeta, FileDiff, PermissionRequest, SubagentMeta, ToolCallPart } from "../protocol.gen";
import { argumentsOf } from "../session/tools";
import type { Branches, SessionState } from "../session/state";
import { branchState, oneLine } from "./format";

export type ExplorationView = ReturnType<typeof explorationOf>;
export type BranchView = ExplorationView["branches"][number];

/** Return the exploration that a call of `explore` started; undefined for a call that chooses, or without branches yet. */
export function explorationView(state: SessionState, call: ToolCallPart): ExplorationView | undefined {
  const exploreStartId = startOf(state, call);
  return exploreStartId === undefined ? undefined : explorationOf(state, exploreStartId);
}

export function explorationOf(state: SessionState, exploreStartId: string) {
  const { awaits, pending, goalTree } = state;
  const merge = goalTree.goals.find((goal) => goal.type === "explore_merge" && goal.exploreStartId === exploreStartId);
  // For a choice made while other branches run, the goal that started the exploration has it until there is a merge
  // goal.
  const holder = merge ?? goalTree.goals.find((goal) => goal.id === exploreStartId);
  const selected = holder?.selectedBranch ?? null;
  const branches = branchesOf(state.branches, exploreStartId).map((branch) => {
    const requests = pending.filter((request) => asksFor(within(state, request.branchId), branch.id));
    // `requests`: pending ones, oldest first. `chosen`: the branch was applied, in whole or in part.
    return { branch, requests, state: branchState(branch, requests.length > 0), chosen: takes(selected, branch.id) };
  });
  /** True when all branches have ended. */
  const ended = branches.length > 0 && branches.every(({ branch }) => branch.status !== "exploring");
  // `awaits`: the daemon waits for the user's choice.
  return { exploreStartId, branches, ended, awaits: awaits.includes(exploreStartId) };
}

/** Return the sub-agent that a call of `task` started. */
export function subagentOf(state: SessionState, call: ToolCallPart): SubagentMeta | undefined {
  return Object.values(state.subagents).find((agent) => agent.toolCallId === call.id);
}

/** Return the requests of a sub-agent of this session, including sessions below it. */
export function requestsOf(state: SessionState, id: string): readonly PermissionRequest[] {
  return state.pending.filter((request) => asksFor(within(state, request.branchId), id));
}

/** Return a requester's id relative to this session: within branch A, its sub-agent `A.s1` is `s1`. */
function within(state: SessionState, branchId: string | null): string | null {
  const own = state.session.trace.traceId.split(":")[1];
  if (!own || branchId === null) return branchId;
  return branchId.startsWith(`${own}.`) ? branchId.slice(own.length + 1) : null;
}

/** Find a call's exploration by its result, or else by comparing its branches with the requested ones. */
function startOf(state: SessionState, call: ToolCallPart): string | undefined {
  const result = state.results[call.id];
  const said = result?.metadata["explore_start_id"];
  if (typeof said === "string" && branchesOf(state.branches, said).length > 0) return said;
  if (result?.metadata["denied"] === true || result?.metadata["not_run"] === true) return undefined;
  const { branches } = argumentsOf(call.input);
  if (!Array.isArray(branches)) return undefined;
  const wanted = branches.map((one) => oneLine(String(one)));
  // Explorations of other calls do not count, even if they are identical.
  const taken = new Set(Object.entries(state.results).flatMap(([id, other]) => (id === call.id ? [] : [other.metadata["explore_start_id"]])));
  const starts = [...new Set(Object.values(state.branches).map((branch) => branch.exploreStartId))].filter((start) => !taken.has(start));
  const same = starts.filter((start) => {
    const found = branchesOf(state.branches, start).map((branch) => oneLine(branch.description));
    return found.length > 0 && found.every((text, index) => text !== "" && (wanted[index] ?? "").startsWith(text));
  });
  // Identical explorations are possible; the running one is the newest.
  return state.results[call.id] ? same[0] : same.at(-1);
}

/** Return true if `selected` (`A`, or `A:src/a.py, B:docs`) includes something of a branch. */
function takes(selected: string | null, id: string): boolean {
  return selected?.split(/[\s,]+/).some((part) => part === id || part.startsWith(`${id}:`)) ?? false;
}

/** The result of a choice. `busy`: the daemon is still applying it. */
export interface Outcome {
  state: "busy" | "applied" | "refused";
  title: string;
  detail: string;
}

/** The current activity of a running sub-agent. */
export interface Glimpse {
  line: string;
  messages: number;
}

export interface Explored {
  /** Glimpses of running sub-agents by session. */
  live: Readonly<Record<string, Glimpse>>;
  /** Files that a branch changed, by its session; undefined until requested. */
  files: Readonly<Record<string, readonly FileDiff[]>>;
  /** Errors from listing the files of branches, by session. */
  problems: Readonly<Record<string, string>>;
  /** Results by session and exploration, see `outcomeKey`. */
  outcomes: Readonly<Record<string, Outcome>>;
}

export const NOTHING_EXPLORED: Explored = { live: {}, files: {}, problems: {}, outcomes: {} };

export function outcomeKey(sessionId: string, exploreStartId: string): string {
  return `${sessionId} ${exploreStartId}`;
}

/** Return the branches of one exploration. */
export function branchesOf(branches: Branches, exploreStartId: string): BranchMeta[] {
  return Object.values(branches).filter((branch) => branch.exploreStartId === exploreStartId);
}

/** Return the session id of a branch or sub-agent (`daemon/model/branches.py: child_id`). */
export function childSession(sessionId: string, id: string): string {
  return sessionId.includes(":") ? `${sessionId}.${id}` : `${sessionId}:${id}`;
}

/** Return true if a request of branch `asking` (`A.s1`) comes from the branch or from a session below it. */
export function asksFor(asking: string | null, branchId: string): boolean {
  return asking !== null && (asking === branchId || asking.startsWith(`${branchId}.`));
}
