import assert from "node:assert/strict";
import { test } from "node:test";
import { drop, goalNumbers, step } from "../src/goals/tree";
import { apply, fromLoad, type SessionState, type Update } from "../src/session/state";
import type { Goal, GoalTree } from "../src/protocol.gen";
import { event, goal, loaded, message, NO_STATS, text } from "./fakes/protocol";
import { numbersIn } from "./fakes/plans";

const goals = [
  goal("1"),
  goal("2", { parentId: "1" }),
  goal("3", { parentId: "1", status: "abandoned" }),
  goal("4", { parentId: "1" }),
  goal("5"),
  goal("6", { parentId: "5" }),
];
const tree: GoalTree = { mission: "", currentId: "2", goals };
const play = (updates: Update[]): SessionState => updates.reduce(apply, fromLoad(loaded({ goalTree: tree })));
const moved = (goalId: string, parentId: string | null, beforeId: string | null, by = ""): Update =>
  event(1, "goal_moved", { goalId, parentId, beforeId, affectedGoals: [], by });
/** Goals by their places in the tree. */
const placed = (state: SessionState): Record<string, string> => Object.fromEntries(Object.entries(numbersIn(state.goalTree)).map(([id, number]) => [number, id]));
const said = (state: SessionState): string[] => state.items.map((item) => (item.kind === "notice" ? item.text : item.key));

test("a goal moves before a sibling, behind all, and below another with all that is below it", () => {
  assert.deepEqual(placed(play([moved("4", "1", "2")])), { 1: "1", "1.1": "4", "1.2": "2", 2: "5", "2.1": "6" });
  assert.deepEqual(placed(play([moved("1", null, null)])), { 1: "5", "1.1": "6", 2: "1", "2.1": "2", "2.2": "4" });
  assert.deepEqual(placed(play([moved("5", "2", null)])), { 1: "1", "1.1": "2", "1.1.1": "5", "1.1.1.1": "6", "1.2": "4" });
});

test("a move before a goal that stands elsewhere goes to the end, and of an unknown goal changes nothing", () => {
  assert.deepEqual(placed(play([moved("6", "1", "5")])), { 1: "1", "1.1": "2", "1.2": "4", "1.3": "6", 2: "5" });
  assert.deepEqual(play([moved("9", null, null)]).goalTree, play([]).goalTree);
});

test("goals have the numbers that the daemon sends, and lose them", () => {
  const numbers = (state: SessionState): Record<string, string> => Object.fromEntries(goalNumbers(state.goalTree));
  const before = { 1: "1", 2: "1.1", 4: "1.2", 5: "2", 6: "2.1" };
  assert.deepEqual(numbers(play([])), before);
  const removed = { goalId: "2", currentId: null, description: "", reason: "", by: "" };
  assert.deepEqual(numbers(play([event(1, "goal_removed", removed, { goalNumbers: { 2: null, 4: "1.1" } })])), { 1: "1", 4: "1.1", 5: "2", 6: "2.1" });
  const added: Update = { ...event(1, "goal_added", { goal: goal("7", { parentId: "5" }), parentId: "5", index: null, by: "" }, { goalNumbers: { 7: "2.2" } }) };
  assert.deepEqual(numbers(play([added])), { ...before, 7: "2.2" });
});

test("old and new parents get their numbers with a move", () => {
  const stats = { ...NO_STATS, messageCount: 7 };
  const change = { goalId: "5", status: "in_progress" as const, summary: null, selfStats: null, cumulativeStats: stats };
  const state = play([event(1, "goal_moved", { goalId: "4", parentId: "5", beforeId: "6", affectedGoals: [change], by: "" })]);
  const parent = state.goalTree.goals.find((one) => one.id === "5");
  assert.deepEqual([parent?.status, parent?.cumulativeStats.messageCount], ["in_progress", 7]);
  assert.equal(placed(state)["2.1"], "4");
});

test("up and down pass over abandoned goals, and end at the ends", () => {
  assert.deepEqual(step(tree, "4", "up"), { parentId: "1", beforeId: "2" });
  assert.deepEqual(step(tree, "2", "down"), { parentId: "1", beforeId: null });
  assert.deepEqual(step(tree, "1", "down"), { parentId: null, beforeId: null });
  for (const [id, by] of [["2", "up"], ["4", "down"], ["6", "up"], ["9", "up"]] as const) assert.equal(step(tree, id, by), undefined);
});

test("a goal that is dropped on another goes below it, and below all rows to the end", () => {
  assert.deepEqual(drop(tree, "4", "5"), { parentId: "5", beforeId: null });
  assert.deepEqual(drop(tree, "6", undefined), { parentId: null, beforeId: null });
  assert.deepEqual(drop(tree, "1", undefined), { parentId: null, beforeId: null });
});

test("a drop that changes nothing, or puts a goal below itself, is none", () => {
  for (const [id, onto] of [["4", "1"], ["1", "1"], ["1", "4"], ["5", undefined], ["9", "1"]] as const) assert.equal(drop(tree, id, onto), undefined);
});

const updated = (goalId: string, updates: Record<string, unknown>, over: { by?: string; currentId?: string | null } = {}): Update =>
  event(1, "goal_updated", { goalId, updates, affectedGoals: [], currentId: "2", by: "VS Code", ...over });
const added = (one: Goal, by: string): Update => event(1, "goal_added", { goal: one, parentId: one.parentId, index: null, by });

test("what the person did to the plan is one line each", () => {
  const lines = (update: Update): string[] => said(play([update]));
  assert.deepEqual(lines(added(goal("7", { parentId: "5", description: "Publish\nit" }), "VS Code")), ["You added the goal “Publish it”"]);
  assert.deepEqual(lines(updated("4", { description: "Other" })), ["You renamed the goal “Goal 4” to “Other”"]);
  assert.deepEqual(lines(updated("4", { status: "completed", summary: "ok" })), ["You marked the goal “Goal 4” as done"]);
  assert.deepEqual(lines(updated("4", { status: "abandoned", summary: "no" })), ["You abandoned the goal “Goal 4”: “no”"]);
  assert.deepEqual(lines(updated("4", { status: "in_progress" }, { currentId: "4" })), ["Now working on goal “Goal 4”"]);
  assert.deepEqual(lines(moved("4", "5", "6", "VS Code")), ["You moved the goal “Goal 4” before “Goal 6”"]);
  const removed = event(1, "goal_removed", { goalId: "4", currentId: "2", description: "Goal 4", reason: "", by: "VS Code" });
  assert.deepEqual(lines(removed), ["You removed the goal “Goal 4” (not started)"]);
  const why = event(1, "goal_removed", { goalId: "4", currentId: "2", description: "Goal 4", reason: "too early", by: "VS Code" });
  assert.deepEqual(lines(why), ["You removed the goal “Goal 4”: “too early”"]);
});

test("after a reload a removed goal has its name and the reason still", () => {
  const why = { event: "goal_removed", eventId: 1, traceId: "s1", time: "", goalId: "gone", currentId: null, description: "Publish", reason: "too early", by: "VS Code" } as const;
  const state = fromLoad(loaded({ messages: [message("user", 1, [text("hi")])], goalTree: tree, notices: [{ after: 1, event: why }] }));
  assert.deepEqual(said(state).slice(1), ["You removed the goal “Publish”: “too early”"]);
});

test("what the agent does to its plan is no line", () => {
  const silent = [
    added(goal("7"), ""),
    updated("4", { status: "completed" }, { by: "" }),
    moved("4", "5", null),
    // Numbers of a goal change with each message; nobody did that.
    updated("4", { self_stats: NO_STATS }),
  ];
  for (const update of silent) assert.deepEqual(said(play([update])), []);
});

test("a long description is cut where it only names a goal", () => {
  const [line] = said(play([added(goal("7", { description: "x".repeat(200) }), "VS Code")]));
  assert.ok(line && line.length < 90 && line.endsWith("…”"), line);
});
