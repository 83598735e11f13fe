import assert from "node:assert/strict";
import { test } from "node:test";
import { branchKey, forkKey, goalKey } from "../../../daemon/api/page/dag.js";
import { viewOf } from "../../../daemon/api/page/session.js";
import { Fetches, aroundWork, everything, takeBranch } from "../../../daemon/api/page/expansion.js";
import type { Branch, Goal, SessionView } from "../../../daemon/api/page/shapes";

const goal = (id: string, parentId: string | null = null, fields: Partial<Goal> = {}): Goal => ({ id, parentId, description: id, status: "in_progress", ...fields });
const branch = (id: string, exploreStartId: string, fields: Partial<Branch> = {}): Branch => ({ id, exploreStartId, description: id, status: "exploring", ...fields });
const state = (branches: Record<string, Branch>): SessionView =>
  viewOf({
    traceId: "t", title: "", status: "running", totalMessages: 0, totalTokens: 0, totalCost: 0, branches, subagents: {},
    goalTree: { mission: "", goals: [goal("1"), goal("2", "1"), goal("3", "2", { type: "explore_start", branchIds: ["A"] })] },
  });

test("a branch at work opens its exploration and the goals and branches around it, one that ended opens nothing", () => {
  const known = state({
    A: branch("A", "3", { goalTree: { mission: "", goals: [goal("1"), goal("2", "1", { type: "explore_start", branchIds: ["B"] })] } }),
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
  known.goalTree.goals = [goal("1", "2"), goal("2", "1")];
  assert.deepEqual(aroundWork(known, known.branches["A"]), [forkKey("1"), goalKey("2"), goalKey("1")]);
});

test("everything is what has something within, also in branches and theirs", () => {
  let known = state({ A: branch("A", "3") });
  known = takeBranch(known, "A", { goalTree: { mission: "", goals: [goal("1"), goal("2", "1", { type: "explore_start" })] }, branches: { B: branch("B", "2") } }, false);
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

  let known = state({ A: branch("A", "3", { status: "completed", summary: "done", goalCount: 2 }) });
  const older = { status: "exploring" as const, summary: null, goalCount: 1, goalTree: { mission: "", goals: [goal("1")] } };
  known = takeBranch(known, "A", older, true);
  assert.deepEqual([known.branches["A"]?.status, known.branches["A"]?.summary, known.branches["A"]?.goalCount, known.branches["A"]?.goalTree?.goals.length], ["completed", "done", 2, 1]);
  known = takeBranch(known, "A", { ...older, exploreStartId: "" }, false);
  assert.deepEqual([known.branches["A"]?.status, known.branches["A"]?.exploreStartId], ["exploring", "3"]);
});
