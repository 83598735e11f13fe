import assert from "node:assert/strict";
import { test } from "node:test";
import { branchKey, forkKey, goalKey } from "../../../daemon/api/page/dag.js";
import { stateOf } from "../../../daemon/api/page/live.js";
import { Fetches, aroundWork, everything, takeBranch } from "../../../daemon/api/page/opening.js";
import type { Branch, Goal, LiveState } from "../../../daemon/api/page/shapes";

const goal = (id: string, parent_id: string | null = null, fields: Partial<Goal> = {}): Goal => ({ id, parent_id, description: id, status: "in_progress", ...fields });
const branch = (id: string, explore_start_id: string, fields: Partial<Branch> = {}): Branch => ({ id, explore_start_id, description: id, status: "exploring", ...fields });
const state = (branches: Record<string, Branch>): LiveState =>
  stateOf({
    trace_id: "t", title: "", status: "running", total_messages: 0, total_tokens: 0, total_cost: 0, branches,
    goal_tree: { mission: "", goals: [goal("1"), goal("2", "1"), goal("3", "2", { type: "explore_start", branch_ids: ["A"] })] },
  });

test("a branch at work opens its exploration and the goals and branches around it, one that ended opens nothing", () => {
  const known = state({
    A: branch("A", "3", { goal_tree: { mission: "", goals: [goal("1"), goal("2", "1", { type: "explore_start", branch_ids: ["B"] })] } }),
    "A.B": branch("A.B", "2"),
  });
  const around = [forkKey("3"), goalKey("2"), goalKey("1")];
  assert.deepEqual(aroundWork(known, known.branches["A"]), around);
  assert.deepEqual(aroundWork(known, known.branches["A.B"]), [forkKey("2", "A"), goalKey("1", "A"), branchKey("A"), ...around]);
  assert.deepEqual(aroundWork(known, branch("A", "3", { status: "completed" })), []);
  assert.deepEqual(aroundWork(known, undefined), []);
});

test("goals around that form a circle end", () => {
  const known = state({ A: branch("A", "1") });
  known.goal_tree.goals = [goal("1", "2"), goal("2", "1")];
  assert.deepEqual(aroundWork(known, known.branches["A"]), [forkKey("1"), goalKey("2"), goalKey("1")]);
});

test("everything is what has something within, also in branches and theirs", () => {
  const known = state({ A: branch("A", "3") });
  takeBranch(known, "A", { goal_tree: { mission: "", goals: [goal("1"), goal("2", "1", { type: "explore_start" })] }, branches: { B: branch("B", "2") } }, false);
  assert.deepEqual(new Set(everything(known)), new Set([goalKey("1"), goalKey("2"), forkKey("3"), branchKey("A"), goalKey("1", "A"), forkKey("2", "A"), branchKey("A.B")]));
});

test("an answer that may be older is asked for again, and takes nothing back that events told meanwhile", () => {
  const fetches = new Fetches();
  assert.equal(fetches.begin("A"), true);
  fetches.happened("B");
  assert.equal(fetches.begin("B"), true);
  assert.equal(fetches.end("A"), false);
  fetches.happened("A");
  assert.equal(fetches.begin("A"), true);
  fetches.happened("A");
  assert.equal(fetches.end("A"), true);
  assert.equal(fetches.begin("B"), false, "one request at a time");
  assert.equal(fetches.end("B"), true, "but the second is not lost");

  const known = state({ A: branch("A", "3", { status: "completed", summary: "done", goal_count: 2 }) });
  const older = { status: "exploring" as const, summary: null, goal_count: 1, goal_tree: { mission: "", goals: [goal("1")] } };
  takeBranch(known, "A", older, true);
  assert.deepEqual([known.branches["A"]?.status, known.branches["A"]?.summary, known.branches["A"]?.goal_count, known.branches["A"]?.goal_tree?.goals.length], ["completed", "done", 2, 1]);
  takeBranch(known, "A", { ...older, explore_start_id: "" }, false);
  assert.deepEqual([known.branches["A"]?.status, known.branches["A"]?.explore_start_id], ["exploring", "3"]);
});
