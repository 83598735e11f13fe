import assert from "node:assert/strict";
import { test } from "node:test";
import { branchKey, dagOf, goalKey } from "../../../daemon/api/page/dag.js";
import { layoutOf } from "../../../daemon/api/page/layout.js";
import { findGoals, forkAround, levelOf, wayTo } from "../../../daemon/api/page/levels.js";
import { pictureOf } from "../../../daemon/api/page/picture.js";
import type { Branch, DagNode, Goal, GoalTree, SessionView } from "../../../daemon/api/page/shapes";
import { spoken } from "../../../daemon/api/page/format.js";
import { STATE_WORDS } from "../../src/explore/format";
import { sent } from "../fakes/plans";

const goal = (id: string, fields: Partial<Goal> = {}): Goal => ({ id, description: `Goal ${id}`, status: "completed", ...fields });
const tree = (...goals: Goal[]): GoalTree => sent({ mission: "Sell things", goals });

const inner: Branch = { id: "A", exploreStartId: "2", description: "A quick way", status: "completed", goalTree: tree(goal("1"), goal("2", { parentId: "1" })) };
const state = {
  trace: {}, lastEventId: 0, subagents: {}, spent: {},
  goalTree: tree(goal("1"), goal("2", { parentId: "1", type: "explore_start", branchIds: ["A"] }), goal("3", { parentId: "2", description: "Needle" }), goal("4", { status: "pending" })),
  branches: { A: inner },
} as unknown as SessionView;

test("the way to a level leads through the goals and branches around it", () => {
  const names = (root: string | null) => wayTo(state, root).map(({ name }) => name);
  assert.deepEqual(names(null), ["Plan"]);
  assert.deepEqual(names(goalKey("2")), ["Plan", "1 Goal 1", "1.1 Goal 2"]);
  assert.deepEqual(names(goalKey("1", "A")), ["Plan", "1 Goal 1", "A A quick way", "A.1 Goal 1"]);
  assert.deepEqual(names(goalKey("77")), ["Plan"], "a goal that is gone");
});

test("a goal is drawn at the level of the goal it is within, a branch beside the goal that began it", () => {
  assert.equal(levelOf(state, goalKey("1")), null);
  assert.equal(levelOf(state, goalKey("3")), goalKey("2"));
  assert.equal(levelOf(state, goalKey("1", "A")), branchKey("A"));
  assert.equal(levelOf(state, branchKey("A")), goalKey("1"));
  assert.equal(forkAround(state, branchKey("A")), "fork:2");
});

test("a level has the goals within a goal or branch alone", () => {
  const keys = (root: string | null) => dagOf(state.goalTree, state.branches, new Set(), { root }).nodes.map(({ key }) => key);
  assert.deepEqual(keys(null), ["start", "goal:1", "goal:4"]);
  assert.deepEqual(keys(goalKey("1")), ["start", "goal:2"]);
  assert.deepEqual(keys(branchKey("A")), ["start", "goal:A/1"]);
  const [start] = dagOf(state.goalTree, state.branches, new Set(), { root: goalKey("2") }).nodes;
  assert.deepEqual([start?.label, start?.title, start?.goalId], ["1.1", "Goal 2", "2"]);
  const unknown = { A: { ...inner, goalTree: undefined } } as unknown as Record<string, Branch>;
  assert.deepEqual(dagOf(state.goalTree, unknown, new Set(), { root: branchKey("A") }).nodes.map((node) => [node.key, node.loading]), [["start", true]]);
});

test("a search finds texts and numbers at every level", () => {
  assert.deepEqual(findGoals(state, "needle"), [goalKey("3")]);
  assert.deepEqual(findGoals(state, "1.1"), [goalKey("2"), goalKey("2", "A")]);
  assert.deepEqual(findGoals(state, "QUICK"), [branchKey("A")]);
  assert.deepEqual(findGoals(state, "  "), []);
});

test("a branch has one word everywhere", () => {
  const node = (status: DagNode["status"]) => spoken({ ...(dagOf(state.goalTree, state.branches, new Set(["goal:1", "fork:2"])).nodes.find(({ kind }) => kind === "branch") as DagNode), abandoned: false, status }, undefined);
  for (const [status, word] of [["in_progress", STATE_WORDS.exploring], ["completed", STATE_WORDS.completed], ["abandoned", STATE_WORDS.abandoned], ["removed", STATE_WORDS.removed]] as const) {
    assert.equal(node(status).split(", ")[1], word);
  }
});

test("a picture is a whole file with the colours in it, and texts stay texts", () => {
  const nasty = tree(goal("1", { description: `<script>"&\u0001 ${"long words ".repeat(20)}` }), goal("2", { status: "abandoned" }), goal("3", { status: "pending" }));
  const dag = dagOf(nasty);
  const colours = { back: "#101010", node: "#202020", ink: "#eeeeee", muted: "#999999", border: "#444444", line: "#555555", grey: "#666666", done: "#00aa00", doing: "#0000aa", fork: "#aa00aa" };
  for (const wrap of [300, 900]) {
    const svg = pictureOf(dag, layoutOf(dag, { wrap }), colours, "Plan & more");
    assert.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" width="\d+" height="\d+" viewBox="/);
    assert.doesNotMatch(svg, /<script|var\(|NaN|undefined|\u0001|href|url\((?!#arrow)/);
    assert.equal((svg.match(/<g transform/g) ?? []).length, dag.nodes.length);
    for (const colour of [colours.back, colours.node, colours.ink, colours.done, colours.grey]) assert.ok(svg.includes(colour), colour);
    const opened = (svg.match(/<(?!\/)[a-z]+[^>]*[^/]>/g) ?? []).length;
    assert.equal(opened, (svg.match(/<\//g) ?? []).length, "every element is closed");
  }
});
