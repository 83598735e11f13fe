/** Branches and sub-agents for tests. */
import type { BranchMeta, Event, Score, SubagentMeta } from "../../src/protocol.gen";
import { NO_STATS } from "./protocol";

const TIME = "2026-01-01T00:00:00Z";

export function branch(id: string, over: Partial<BranchMeta> = {}): BranchMeta {
  return {
    id,
    exploreStartId: "1",
    description: `Way ${id}`,
    status: "exploring",
    summary: null,
    cumulativeStats: NO_STATS,
    goalCount: 0,
    lastMessage: null,
    score: null,
    node: "",
    removed: false,
    ...over,
  };
}

export function score(over: Partial<Score> = {}): Score {
  return { newProblems: null, fixedProblems: null, test: null, files: 1, added: 2, removed: 1, tokens: 12_300, cost: 0.04, unpricedTokens: 0, durationMs: 65_000, ...over };
}

export function subagent(id: string, over: Partial<SubagentMeta> = {}): SubagentMeta {
  return {
    id,
    agent: "explore",
    prompt: "Look",
    toolCallId: `call-${id}`,
    goalId: null,
    status: "running",
    summary: "",
    stopReason: null,
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, unpriced: 0 },
    cost: 0,
    messageCount: 0,
    iteration: null,
    successRate: null,
    startedAt: TIME,
    ...over,
  };
}

export function started(eventId: number, meta: BranchMeta): Event {
  return { event: "branch_started", eventId, traceId: "s1", time: TIME, exploreStartId: meta.exploreStartId, branch: meta };
}

export function completed(eventId: number, branchId: string, over: object = {}): Event {
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, unpriced: 0 };
  const plain = { status: "completed", summary: "Done.", cumulativeStats: NO_STATS, lastMessage: null, score: score(), usage, cost: 0 } as const;
  return { event: "branch_completed", eventId, traceId: "s1", time: TIME, branchId, ...plain, ...over };
}
