import assert from "node:assert/strict";
import { test } from "node:test";
import type { GoalTree, Message } from "../src/protocol.gen";
import { planAnswers, planned, plannedParts, plannedWork, planChanges, planLine } from "../src/session/plan";
import { fromLoad } from "../src/session/state";
import { goal, loaded, message, result, session, text } from "./fakes/protocol";
import { sent } from "./fakes/plans";

const note = (inner: string): Message["content"] => [{ type: "note", text: `<planning>\n${inner}\n</planning>` }];
const ASK = 'Before you begin: plan the work.\nAnswer with JSON and call no tools: {"steps": [{"goal": "what will be achieved", "reason": "why"}]}';
const PLAN = '{"steps": [{"goal": "Read it", "steps": ["a", {"goal": "b"}]}, {"keep": 2}]}';

test("the answer to a question for a plan is known by the note before it, and nothing else is", () => {
  const messages = [
    message("user", 1, [text("go")]),
    message("user", 2, note(ASK)),
    message("assistant", 3, [text(PLAN)]),
    message("user", 4, note("Work on goal 1 Read it")),
    message("assistant", 5, [text(PLAN)]),
  ];
  const all = planAnswers(fromLoad(loaded({ messages })).items);
  assert.deepEqual([...all.keys].length, 1);
  assert.ok([...all.keys][0]?.includes(messages[2]?.messageId ?? "?"));
  assert.equal(all.awaited, false);
  assert.equal(planAnswers(fromLoad(loaded({ messages: messages.slice(0, 2) })).items).awaited, true);
});

test("steps are read with those below them and the goals that are kept, fenced or not", () => {
  const steps = [
    { goal: "Read it", steps: [{ goal: "a", steps: [] }, { goal: "b", steps: [] }] },
    { goal: "Goal 2, unchanged", steps: [] },
  ];
  assert.deepEqual(planned(PLAN), steps);
  assert.deepEqual(planned("```json\n" + PLAN + "\n```"), steps);
  assert.deepEqual(planned('["one", "two"]')?.map((step) => step.goal), ["one", "two"]);
  assert.deepEqual(planned('{"steps": []}'), []);
});

test("what is no plan, or not only a plan, stays as it was written", () => {
  for (const other of ["Here: " + PLAN, '{"steps": null}', '{"answer": 1}', '{"steps": [{"why": "x"}]}', "7", ""]) assert.equal(planned(other), undefined);
  assert.equal(plannedParts([text("I think"), text(PLAN)]), undefined);
  assert.equal(plannedParts([{ type: "reasoning", text: "hm", signature: null } as never, text(PLAN)])?.length, 2);
});

test("a plan can be built when its session changes nothing and something is left to do", () => {
  const tree = (status: string): GoalTree => ({ mission: "", currentId: null, goals: [{ id: "1", status }] }) as unknown as GoalTree;
  const usual = session();
  const planner = { ...usual, trace: { ...usual.trace, agent: "plan" } };
  assert.equal(plannedWork(planner, tree("pending")), "goals");
  assert.equal(plannedWork({ ...usual, mode: "plan" }, tree("in_progress")), "goals");
  assert.equal(plannedWork(planner, { mission: "", currentId: null, goals: [] }), "text");
  assert.equal(plannedWork(planner, tree("completed")), undefined);
  assert.equal(plannedWork({ ...usual, mode: "ask" }, tree("pending")), undefined);
});

test("a plan call is its changes, by the number that the goal has now", () => {
  const plan = [{ operation: "completed", goal_id: "2", description: "Find it" }, { operation: "removed", goal_id: "9", description: "Publish" }, { operation: "made_up", goal_id: "1" }, null];
  const changes = planChanges(result("c1", { name: "goal", metadata: { plan } }));
  assert.deepEqual(changes.map(({ operation, goalId }) => [operation, goalId]), [["completed", "2"], ["removed", "9"]]);
  const tree = sent({ mission: "", currentId: null, goals: [goal("1", { status: "abandoned" }), goal("2", { status: "completed", summary: "a typo" })] });
  const told = changes.map((change) => planLine(change, tree));
  assert.deepEqual(told.map(({ number, summary, spoken }) => [number, summary, spoken]), [["1", "a typo", "Completed goal 1 Find it"], ["", "", "Removed goal Publish"]]);
  assert.deepEqual(planChanges(result("c1", {})), []);
});
