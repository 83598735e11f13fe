import assert from "node:assert/strict";
import { test } from "node:test";
import { extendedPreview } from "../../../daemon/api/page/goals.js";
import { applyFrame, stateOf } from "../../../daemon/api/page/live.js";
import { amount, clip, duration, money, statsLine, statsWords, workTime } from "../../../daemon/api/page/words.js";
import type { Frame, LiveState, TraceDetail } from "../../../daemon/api/page/shapes";

const STATS = { message_count: 4, total_tokens: 2000, total_cost: 0.03, preview: "read → edit × 2" };
const detail = (): TraceDetail => ({
  trace_id: "t", title: "", status: "running", total_messages: 1, total_tokens: 100, total_cost: 0.5, last_event_id: 10,
  goal_tree: { mission: "m", current_id: "1", goals: [{ id: "1", description: "one", status: "in_progress" }, { id: "2", description: "two", status: "pending" }] },
  branches: { A: { id: "A", explore_start_id: "1", description: "a", status: "exploring" } },
  subagents: [{ id: "s1", agent: "explore", prompt: "look", status: "running" }],
});
const after = (...frames: Frame[]): LiveState => {
  const state = stateOf(detail());
  for (const frame of frames) applyFrame(state, frame);
  return state;
};
const ids = (state: LiveState): string[] => state.goal_tree.goals.map((goal) => goal.id);

test("goals come where the event says, and once", () => {
  const goal = { id: "3", description: "three", status: "pending" };
  const state = after({ event: "goal_added", event_id: 11, goal, index: 1 }, { event: "goal_added", event_id: 11, goal, index: 0 });
  assert.deepEqual(ids(state), ["1", "3", "2"]);
  assert.equal(state.last_event_id, 11);
});

test("an update takes its ancestors along, with their status and numbers", () => {
  const state = after({
    event: "goal_updated", event_id: 11, goal_id: "2", updates: { status: "completed", summary: "done" }, current_id: null,
    affected_goals: [{ goal_id: "1", status: "completed", cumulative_stats: STATS }],
  });
  assert.deepEqual(state.goal_tree.goals.map((goal) => goal.status), ["completed", "completed"]);
  assert.deepEqual(state.goal_tree.goals[0]?.cumulative_stats, STATS);
  assert.equal(state.goal_tree.current_id, null);
});

test("goals move and go", () => {
  const moved = after({ event: "goal_moved", event_id: 11, goal_id: "2", parent_id: null, before_id: "1", affected_goals: [] });
  assert.deepEqual(ids(moved), ["2", "1"]);
  assert.deepEqual(ids(after({ event: "goal_removed", event_id: 11, goal_id: "2", current_id: "1" })), ["1"]);
});

test("a message counts once, tells where it belongs, and sets the numbers of its goals", () => {
  const state = stateOf(detail());
  const frame: Frame = { event: "message_added", event_id: 11, message: { goal_id: "1", tokens: 5, usage: { input: 40, output: 5, cache_read: 3, cache_write: 2 }, cost: 0.25 }, affected_goals: [{ goal_id: "1", self_stats: STATS, cumulative_stats: STATS }] };
  assert.deepEqual(applyFrame(state, frame), { graph: true, shape: false, trace: true, message: { branch_id: null, goal_id: "1" }, stale_branch: null });
  assert.deepEqual(applyFrame(state, frame).message, null);
  assert.deepEqual([state.trace.total_messages, state.trace.total_tokens, state.trace.total_cost], [2, 150, 0.75]);
  assert.deepEqual(state.goal_tree.goals[0]?.self_stats, STATS);
});

test("the graph is drawn again when the work begins or ends, as it marks where the agent is", () => {
  const state = stateOf(detail());
  const graph = (frame: Frame): boolean => applyFrame(state, frame).graph;
  assert.equal(graph({ event: "permission_asked", event_id: 11 }), false);
  assert.equal(graph({ event: "permission_replied", event_id: 12 }), false);
  assert.equal(graph({ event: "turn_ended", event_id: 13, stop_reason: "end_turn" }), true);
  assert.equal(graph({ event: "trace_completed", event_id: 14, status: "completed" }), false);
  assert.equal(graph({ event: "turn_started", event_id: 15 }), true);
});

test("connected replaces what is known, and older events change it no more", () => {
  const state = after(
    { event: "connected", trace_id: "t", current_event_id: 40, goal_tree: { mission: "new", goals: [] }, branches: {}, trace: { title: "T", status: "completed" } },
    { event: "goal_added", event_id: 12, goal: { id: "9", description: "", status: "pending" } },
  );
  assert.deepEqual([ids(state), state.goal_tree.mission, state.trace.title, state.last_event_id], [[], "new", "T", 40]);
  assert.deepEqual(state.branches, {});
});

test("a branch whose goals are shown is fetched anew after the connection was lost", () => {
  const state = stateOf(detail());
  state.branches["A"] = { ...state.branches["A"]!, goal_tree: { mission: "", goals: [] } };
  const changed = applyFrame(state, { event: "connected", current_event_id: 12, branches: { A: { id: "A", status: "completed" } } });
  assert.equal(changed.stale_branch, "A");
  assert.equal(state.branches["A"]?.status, "completed");
});

test("branches begin, work and end", () => {
  const state = after(
    { event: "branch_started", event_id: 11, explore_start_id: "2", branch: { id: "B", description: "b", status: "exploring" } },
    { event: "branch_message_added", event_id: 12, branch_id: "B", message: { tokens: 10, cost: 1, duration_ms: 900, overlap_ms: 200 }, affected_goals: [] },
    { event: "branch_goal_added", event_id: 13, branch_id: "B", goal: { id: "1", description: "x", status: "pending" } },
    { event: "branch_completed", event_id: 14, branch_id: "A", summary: "fine", cumulative_stats: STATS, last_message: null },
    { event: "branch_removed", event_id: 15, branch_id: "A" },
  );
  const { A, B } = state.branches;
  assert.deepEqual([B?.explore_start_id, B?.goal_count, B?.cumulative_stats?.message_count], ["2", 1, 1]);
  assert.equal(B?.cumulative_stats?.duration_ms, 700);
  assert.deepEqual([A?.status, A?.summary, A?.removed, A?.cumulative_stats], ["completed", "fine", true, STATS]);
});

test("what a branch did is in its preview as it works, word for word as the daemon says it at the end", () => {
  const preview = (before: string | null, ...names: string[]) => extendedPreview(before, { content: names.map((name) => ({ type: "tool_result", name })) });
  // The cases of tests/unit/daemon/plan/test_counting.py.
  assert.equal(preview(null), null);
  assert.equal(preview(null, "glob", "read", "read"), "glob → read × 2");
  assert.equal(preview("read", "goal", "step", "read_progress", "read"), "read × 2");
  assert.equal(preview("read → edit × 9", "edit"), "read → edit × 10");
  assert.equal(preview("read → edit × 2", "read"), "read → edit × 2 → read");
  assert.equal(preview("read", "a → b × x"), "read → a - b - x");
  assert.equal(preview("read × x", "read", " "), "read × 2 → ?");
  assert.equal(preview("a → b → c → d → e → f → g → h", "i"), "… → c → d → e → f → g → h → i");
  assert.equal(preview("… → c → d → e → f → g → h → i", "j"), "… → d → e → f → g → h → i → j");
  const content = [{ type: "text", text: "I look." }, { type: "tool_result", name: "ls" }, { type: "tool_result", name: "ls" }];
  const state = after({ event: "branch_message_added", event_id: 11, branch_id: "A", message: { content } });
  assert.equal(state.branches["A"]?.cumulative_stats?.preview, "ls × 2");
});

test("the status follows turns, questions and the end", () => {
  const status = (...frames: Frame[]): string => after(...frames).trace.status;
  assert.equal(status({ event: "permission_asked", event_id: 11 }), "waiting");
  assert.equal(status({ event: "permission_asked", event_id: 11 }, { event: "permission_replied", event_id: 12 }), "running");
  const ended_as = ["end_turn", "tool_use", "canceled", "permission_denied", "error", "max_tokens"].map((stop_reason) => status({ event: "turn_ended", event_id: 11, stop_reason }));
  assert.deepEqual(ended_as, ["completed", "completed", "canceled", "canceled", "failed", "failed"]);
  const ended = after({ event: "trace_completed", event_id: 11, status: "completed", total_messages: 7, total_tokens: 8, total_cost: 9 });
  assert.deepEqual([ended.trace.status, ended.trace.total_messages, ended.trace.total_cost], ["completed", 7, 9]);
});

test("frames that are unknown, of another trace, or lack what they should have change nothing", () => {
  const before = JSON.stringify(after());
  const frames: Frame[] = [
    { event: "delta", text: "x" }, { event: "made_up" }, { event: "constructor" }, { event: "goal_removed", trace_id: "other", goal_id: "1" },
    { event: "branch_goal_added", branch_id: "__proto__", goal: { id: "1" } }, { event: "goal_added" }, { event: "branch_started" }, { event: "message_added" },
    { event: "goal_updated", goal_id: "1" },
  ];
  const state = after(...frames);
  state.trace.total_messages = 1;
  assert.equal(JSON.stringify(state), before);
});

test("amounts are short", () => {
  assert.deepEqual([0, 999, 1000, 6800, 99_960, 999_999, 12_300_000].map(amount), ["0", "999", "1k", "6.8k", "100k", "1M", "12.3M"]);
  assert.deepEqual([0, 0.001, 0.08, 12.5, 12345].map(money), ["", "<$0.01", "$0.08", "$12.50", "$12345"]);
  assert.deepEqual([null, 50, 1234, 61_000, 3_700_000].map(duration), ["", "50 ms", "1.2 s", "1 min 1 s", "1 h 2 min"]);
  assert.equal(statsLine(STATS), "4 msgs · 2k · $0.03");
  assert.deepEqual([STATS, { ...STATS, duration_ms: 61_000 }].map(workTime), ["", "1 min 1 s"]);
  assert.equal(statsWords({ ...STATS, duration_ms: 61_000 }), `${statsWords(STATS)}, 1 min 1 s`);
  assert.equal(clip("用户认证功能用户认证功能", 10), "用户认证功…");
});

test("totals are those of the API: all that was sent and received, also by branches and sub-agents", () => {
  const usage = (input: number) => ({ input, output: 0, cache_read: 0, cache_write: 0 });
  const state = after(
    { event: "branch_started", event_id: 11, branch: { id: "B", explore_start_id: "1", description: "b", status: "exploring" } },
    { event: "branch_message_added", event_id: 12, branch_id: "B", message: { tokens: 7, usage: usage(30), cost: 0.25 } },
    { event: "branch_message_added", event_id: 13, branch_id: "A", message: { tokens: 7, usage: usage(5) } },
    { event: "branch_completed", event_id: 14, branch_id: "B", status: "completed", usage: usage(50), cost: 0.5 },
    // It was heard from the middle on: what else it took is not known here.
    { event: "branch_completed", event_id: 15, branch_id: "A", status: "completed", usage: usage(900), cost: 9 },
    { event: "session_updated", event_id: 17, updates: { title: "T" }, usage: usage(7), cost: 0.5 },
    { event: "subagent_completed", event_id: 18, subagent: { id: "s1", agent: "explore", prompt: "p", status: "completed", usage: usage(20), cost: 0.25 } },
  );
  assert.deepEqual([state.trace.total_messages, state.trace.total_tokens, state.trace.total_cost], [1, 182, 1.75]);
});
