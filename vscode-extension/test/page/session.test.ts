import assert from "node:assert/strict";
import { test } from "node:test";
import { camelKeys } from "../../../daemon/api/page/keys.js";
import { applyEvent, changesOf, viewOf } from "../../../daemon/api/page/session.js";
import { amount, clip, duration, money, statsLine, statsWords, workTime } from "../../../daemon/api/page/format.js";
import type { Changed, Frame, SessionView, TraceDetail } from "../../../daemon/api/page/shapes";

const STATS = { messageCount: 4, totalTokens: 2000, totalCost: 0.03, preview: "read → edit × 2" };
const detail = (): TraceDetail => ({
  traceId: "t", title: "", status: "running", totalMessages: 1, totalTokens: 100, totalCost: 0.5, lastEventId: 10,
  goalTree: { mission: "m", currentId: "1", goals: [{ id: "1", description: "one", status: "in_progress" }, { id: "2", description: "two", status: "pending" }] },
  branches: { A: { id: "A", exploreStartId: "1", description: "a", status: "exploring" } },
  subagents: { s1: { id: "s1", agent: "explore", prompt: "look", status: "running" } },
});
const begun = (): SessionView => viewOf(detail());
const after = (...frames: Frame[]): SessionView => frames.reduce(applyEvent, begun());
const changes = (state: SessionView, frame: Frame): Changed => changesOf(state, applyEvent(state, frame), frame);
const ids = (state: SessionView): string[] => state.goalTree.goals.map((goal) => goal.id);

test("goals come where the event says, and once", () => {
  const goal = { id: "3", description: "three", status: "pending" };
  const state = after({ event: "goal_added", eventId: 11, goal, index: 1 }, { event: "goal_added", eventId: 11, goal, index: 0 });
  assert.deepEqual(ids(state), ["1", "3", "2"]);
  assert.equal(state.lastEventId, 11);
});

test("an update takes its ancestors along, with their status and numbers", () => {
  const state = after({
    event: "goal_updated", eventId: 11, goalId: "2", updates: { status: "completed", summary: "done" }, currentId: null,
    affectedGoals: [{ goalId: "1", status: "completed", cumulativeStats: STATS }],
  });
  assert.deepEqual(state.goalTree.goals.map((goal) => goal.status), ["completed", "completed"]);
  assert.deepEqual(state.goalTree.goals[0]?.cumulativeStats, STATS);
  assert.equal(state.goalTree.currentId, null);
});

test("goals move and go", () => {
  const moved = after({ event: "goal_moved", eventId: 11, goalId: "2", parentId: null, beforeId: "1", affectedGoals: [] });
  assert.deepEqual(ids(moved), ["2", "1"]);
  assert.deepEqual(ids(after({ event: "goal_removed", eventId: 11, goalId: "2", currentId: "1" })), ["1"]);
});

test("a message counts once, tells where it belongs, and sets the numbers of its goals", () => {
  const frame: Frame = { event: "message_added", eventId: 11, message: { goalId: "1", tokens: 5, usage: { input: 40, output: 5, cacheRead: 3, cacheWrite: 2, unpriced: 0 }, cost: 0.25 }, view: { totalMessages: 2, totalTokens: 150, totalCost: 0.75 }, affectedGoals: [{ goalId: "1", selfStats: STATS, cumulativeStats: STATS }] };
  assert.deepEqual(changes(begun(), frame), { told: true, graph: true, message: { branchId: null, goalId: "1" }, staleBranch: null });
  assert.deepEqual(changes(after(frame), frame), { told: false, graph: false, message: null, staleBranch: null });
  const state = after(frame, frame);
  assert.deepEqual([state.trace.totalMessages, state.trace.totalTokens, state.trace.totalCost], [2, 150, 0.75]);
  assert.deepEqual(state.goalTree.goals[0]?.selfStats, STATS);
});

test("the graph is drawn again when the work begins or ends, as it marks where the agent is", () => {
  let state = begun();
  const graph = (frame: Frame): boolean => {
    const changed = changes(state, frame);
    state = applyEvent(state, frame);
    return changed.graph;
  };
  assert.equal(graph({ event: "permission_asked", view: { status: "waiting" }, eventId: 11 }), false);
  assert.equal(graph({ event: "permission_replied", view: { status: "running" }, eventId: 12 }), false);
  assert.equal(graph({ event: "turn_ended", view: { status: "completed" }, eventId: 13 }), true);
  assert.equal(graph({ event: "trace_completed", eventId: 14 }), false);
  assert.equal(graph({ event: "turn_started", view: { status: "running" }, eventId: 15 }), true);
});

test("names of fields are those of the protocol at every depth, but for what a tool was given and gave", () => {
  const message = { message_id: "m", content: [{ type: "tool_call", input: { old_string: 1 } }, { type: "tool_result", metadata: { job_id: 2 } }] };
  assert.deepEqual(camelKeys({ s1: [{ branch_ids: null, A_b: 1, message }], data: { a_b: 1 } }), {
    s1: [{ branchIds: null, A_b: 1, message: { messageId: "m", content: message.content } }], data: { a_b: 1 },
  });
});

test("connected replaces what is known, and older events change it no more", () => {
  const state = after(
    { event: "connected", traceId: "t", currentEventId: 40, goalTree: { mission: "new", goals: [] }, branches: {}, trace: { title: "T", status: "completed" } },
    { event: "goal_added", eventId: 12, goal: { id: "9", description: "", status: "pending" } },
  );
  assert.deepEqual([ids(state), state.goalTree.mission, state.trace.title, state.lastEventId], [[], "new", "T", 40]);
  assert.deepEqual(state.branches, {});
});

test("a branch whose goals are shown keeps them when the connection is back, and is fetched anew when it has ended", () => {
  const goalTree = { mission: "", goals: [] };
  const state = { ...begun(), branches: { A: { ...begun().branches["A"]!, goalTree } } };
  const back = applyEvent(state, { event: "connected", currentEventId: 12, branches: { A: { id: "A", status: "exploring" } } });
  assert.deepEqual(back.branches["A"]?.goalTree, goalTree);
  const ended: Frame = { event: "branch_completed", eventId: 13, branchId: "A", status: "completed" };
  assert.equal(changes(back, ended).staleBranch, "A");
  assert.equal(applyEvent(back, ended).branches["A"]?.status, "completed");
});

test("branches begin, work and end", () => {
  const state = after(
    { event: "branch_started", eventId: 11, exploreStartId: "2", branch: { id: "B", description: "b", status: "exploring" } },
    { event: "branch_message_added", eventId: 12, branchId: "B", message: { tokens: 10 }, affectedGoals: [], view: { branches: { B: { ...STATS, messageCount: 1, durationMs: 700 }, gone: STATS } } },
    { event: "branch_goal_added", eventId: 13, branchId: "B", goal: { id: "1", description: "x", status: "pending" } },
    { event: "branch_completed", eventId: 14, branchId: "A", summary: "fine", cumulativeStats: STATS, lastMessage: null },
    { event: "branch_removed", eventId: 15, branchId: "A" },
  );
  const { A, B } = state.branches;
  assert.deepEqual([B?.exploreStartId, B?.goalCount, B?.cumulativeStats?.messageCount], ["2", 1, 1]);
  assert.equal(B?.cumulativeStats?.durationMs, 700);
  assert.deepEqual([A?.status, A?.summary, A?.removed, A?.cumulativeStats], ["completed", "fine", true, STATS]);
});

test("status and totals are what the daemon says beside an event; what it leaves out stays", () => {
  const told = after({ event: "turn_ended", eventId: 11, view: { status: "completed", totalTokens: 150, usage: null, totalCost: null } }).trace;
  assert.deepEqual([told.status, told.totalMessages, told.totalTokens, told.totalCost], ["completed", 1, 150, 0.5]);
  // An event that was applied before brings nothing back.
  const late = after({ event: "notice", eventId: 10, view: { status: "failed" } });
  assert.equal(late.trace.status, "running");
  // An event that could not be stored has no id, and what it says counts.
  const failed = after({ event: "notice", level: "error", view: { status: "failed", awaitsChoice: [] } });
  assert.equal(failed.trace.status, "failed");
});

test("frames that are unknown, of another trace, or lack what they should have change nothing", () => {
  const before = JSON.stringify(after());
  const frames: Frame[] = [
    { event: "delta", text: "x" }, { event: "made_up" }, { event: "constructor" }, { event: "goal_removed", traceId: "other", goalId: "1" },
    { event: "branch_goal_added", branchId: "__proto__", goal: { id: "1" } }, { event: "goal_added" }, { event: "branch_started" }, { event: "message_added" },
    { event: "goal_updated", goalId: "1" },
  ];
  const state = after(...frames);
  assert.equal(JSON.stringify(state), before);
});

test("amounts are short", () => {
  assert.deepEqual([0, 999, 1000, 6800, 99_960, 999_999, 12_300_000].map(amount), ["0", "999", "1k", "6.8k", "100k", "1M", "12.3M"]);
  assert.deepEqual([0, 0.001, 0.08, 12.5, 12345].map((one) => money(one)), ["", "$0.001", "$0.08", "$12.50", "$12,345"]);
  assert.deepEqual([money(0, 5), money(12.5, 5)], ["unknown price", "≥ $12.50"]);
  assert.deepEqual([null, 50, 1234, 61_000, 3_700_000].map(duration), ["", "50 ms", "1.2 s", "1 min 1 s", "1 h 1 min"]);
  assert.deepEqual([59_700, 119_600, 7_190_000].map(duration), ["1 min 0 s", "2 min 0 s", "1 h 59 min"]);
  assert.equal(statsLine(STATS), "4 msgs · 2k · $0.03");
  assert.equal(statsLine({ ...STATS, totalCost: 0, unpricedTokens: 2000 }), "4 msgs · 2k · unknown price");
  assert.deepEqual([STATS, { ...STATS, durationMs: 61_000 }].map(workTime), ["", "1 min 1 s"]);
  assert.equal(statsWords({ ...STATS, durationMs: 61_000 }), `${statsWords(STATS)}, 1 min 1 s`);
  assert.equal(clip("用户认证功能用户认证功能", 10), "用户认证功…");
});
