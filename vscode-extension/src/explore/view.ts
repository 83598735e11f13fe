/** What the card of an exploration shows. Pure. */
import type { BranchMeta, Goal, PermissionRequest, SubagentMeta, ToolCallPart } from "../protocol.gen";
import { argumentsOf } from "../session/tools";
import type { SessionState } from "../session/state";
import { asksFor, branchesOf } from "./children";
import { branchState, oneLine, type BranchState } from "./words";

export interface BranchView {
  branch: BranchMeta;
  state: BranchState;
  /** Its requests that wait, oldest first. */
  requests: readonly PermissionRequest[];
  /** It was applied, or parts of it were. */
  chosen: boolean;
}

export interface ExplorationView {
  exploreStartId: string;
  branches: readonly BranchView[];
  /** All have ended. */
  ended: boolean;
  /** The daemon waits for the person to choose. */
  awaits: boolean;
  /** What was applied, as it was chosen. */
  selected: string | null;
}

/** The exploration that a call of `explore` began; undefined for a call that chooses, or whose branches are yet to come. */
export function explorationView(state: SessionState, call: ToolCallPart): ExplorationView | undefined {
  const exploreStartId = startOf(state, call);
  return exploreStartId === undefined ? undefined : explorationOf(state, exploreStartId);
}

export function explorationOf(state: SessionState, exploreStartId: string): ExplorationView {
  const { awaits, pending, goalTree } = state;
  const merge = mergeGoal(goalTree.goals, exploreStartId);
  // Chosen while others are at work, the goal that started it has it until there is one for the choice.
  const holder = merge ?? goalTree.goals.find((goal) => goal.id === exploreStartId);
  const selected = holder?.selectedBranch ?? null;
  const branches = branchesOf(state.branches, exploreStartId).map((branch): BranchView => {
    const requests = pending.filter((request) => asksFor(within(state, request.branchId), branch.id));
    return { branch, requests, state: branchState(branch, requests.length > 0), chosen: takes(selected, branch.id) };
  });
  const ended = branches.length > 0 && branches.every(({ branch }) => branch.status !== "exploring");
  return { exploreStartId, branches, ended, awaits: awaits.includes(exploreStartId), selected };
}

/** The merge goal of an exploration, once there is one. */
export function mergeGoal(goals: readonly Goal[], exploreStartId: string): Goal | undefined {
  return goals.find((goal) => goal.type === "explore_merge" && goal.exploreStartId === exploreStartId);
}

/** The sub-agent that a call of `task` started. */
export function subagentOf(state: SessionState, call: ToolCallPart): SubagentMeta | undefined {
  return Object.values(state.subagents).find((agent) => agent.toolCallId === call.id);
}

/** Requests of a sub-agent of this session, or of what works for it. */
export function requestsOf(state: SessionState, id: string): readonly PermissionRequest[] {
  return state.pending.filter((request) => asksFor(within(state, request.branchId), id));
}

/** The id of an asker as this session calls it: a branch's own session knows its sub-agent `A.s1` as `s1`. */
function within(state: SessionState, branchId: string | null): string | null {
  const own = state.session.trace.traceId.split(":")[1];
  if (!own || branchId === null) return branchId;
  return branchId.startsWith(`${own}.`) ? branchId.slice(own.length + 1) : null;
}

/** By what the result says, else by the branches themselves: they are what the call asked for. */
function startOf(state: SessionState, call: ToolCallPart): string | undefined {
  const result = state.results[call.id];
  const said = result?.metadata["explore_start_id"];
  if (typeof said === "string" && branchesOf(state.branches, said).length > 0) return said;
  if (result?.metadata["denied"] === true || result?.metadata["not_run"] === true) return undefined;
  const { branches } = argumentsOf(call.input);
  if (!Array.isArray(branches)) return undefined;
  const wanted = branches.map((one) => oneLine(String(one)));
  // Those of other calls are not this one's, although it may ask for the same.
  const taken = new Set(Object.entries(state.results).flatMap(([id, other]) => (id === call.id ? [] : [other.metadata["explore_start_id"]])));
  const starts = [...new Set(Object.values(state.branches).map((branch) => branch.exploreStartId))].filter((start) => !taken.has(start));
  const same = starts.filter((start) => {
    const found = branchesOf(state.branches, start).map((branch) => oneLine(branch.description));
    return found.length > 0 && found.every((text, index) => text !== "" && (wanted[index] ?? "").startsWith(text));
  });
  // The same may be explored twice; what still runs is the newest.
  return state.results[call.id] ? same[0] : same.at(-1);
}

/** Whether `selected` (`A`, or `A:src/a.py, B:docs`) takes something of a branch. */
function takes(selected: string | null, id: string): boolean {
  return selected?.split(/[\s,]+/).some((part) => part === id || part.startsWith(`${id}:`)) ?? false;
}
