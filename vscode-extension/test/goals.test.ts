import assert from "node:assert/strict";
import { test } from "node:test";
import { type GoalContext, type GoalRow, row, stats, tooltip } from "../src/goals/model";
import { chain, changedGoals, childrenOf, goalNumbers, matchingGoals, nowWords, progress, shownGoals } from "../src/goals/tree";
import { goal, NO_STATS } from "./fakes/protocol";
import { sent } from "./fakes/plans";

const tree = sent({
  mission: "Ship it",
  currentId: "4",
  goals: [
    goal("1", { status: "completed", summary: "found\n`it`" }),
    goal("2", { status: "abandoned" }),
    goal("3", { status: "in_progress" }),
    goal("4", { parentId: "3", status: "in_progress" }),
    goal("5", { parentId: "3" }),
    goal("6", { parentId: "2" }),
  ],
});

const rows = (context: GoalContext, parentId: string | null): GoalRow[] =>
  childrenOf(context.tree, parentId).map((one) => row(context, one, goalNumbers(context.tree).get(one.id)));

test("abandoned goals are left out of the numbers", () => {
  assert.deepEqual(Object.fromEntries(goalNumbers(tree)), { 1: "1", 3: "2", 4: "2.1", 5: "2.2" });
});

test("the chain of the focus ends at the top, also when links run in a circle", () => {
  assert.deepEqual(chain(tree, "4").map((one) => one.id), ["4", "3"]);
  const circle = { ...tree, goals: [goal("a", { parentId: "b" }), goal("b", { parentId: "a" })] };
  assert.deepEqual(chain(circle, "a").map((one) => one.id), ["a", "b"]);
});

test("rows say number, status and summary", () => {
  const top = rows({ tree, running: false }, null);
  assert.deepEqual(top.map((row) => row.spoken), ["1 Goal 1, completed, found it", "Goal 2, abandoned", "2 Goal 3, in progress"]);
  assert.deepEqual(top.map((row) => row.state), ["leaf", "collapsed", "expanded"]);
  assert.equal(top[0]?.description, "found it");
  assert.equal(top[1]?.abandoned, true);
});

test("only the current goal of a running turn spins", () => {
  const icons = (running: boolean): (string | undefined)[] => rows({ tree, running }, "3").map((row) => row.icon.id);
  assert.deepEqual(icons(true), ["loading~spin", "circle-large-outline"]);
  assert.deepEqual(icons(false), ["arrow-circle-right", "circle-large-outline"]);
});

test("a tooltip cannot be made a link by what a goal is called", () => {
  const text = tooltip(goal("1", { description: "[click](command:evil) <b>$(zap)</b>", reason: "a|b" }), "1");
  assert.ok(text.includes("\\[click\\]\\(command:evil\\)"), text);
  assert.ok(text.includes("\\<b\\>\\$\\(zap\\)"), text);
});

test("a tooltip names what a step needs, as far as it is in the plan", () => {
  const tree = sent({ mission: "", currentId: null, goals: [goal("1", { description: "Look" }), goal("2"), goal("3", { needs: ["1", "2", "9"] })] });
  assert.ok(tooltip(tree.goals[2]!, "3", undefined, tree).includes("**Needs:** 1 Look, 2 Goal 2"));
  assert.ok(!tooltip(tree.goals[1]!, "2", undefined, tree).includes("Needs"));
});

test("a tooltip says why, what came of it and what it took, in words of the user", () => {
  const own = { ...NO_STATS, messageCount: 1, totalTokens: 950, preview: "read → edit × 2" };
  const all = { ...own, messageCount: 12, totalTokens: 12_400, totalCost: 0.02, durationMs: 185_000 };
  const about = goal("1", { reason: "why", summary: "done", selfStats: own, cumulativeStats: all });
  const text = tooltip(about, "2.1");
  assert.match(text, /\*\*Why:\*\* why/);
  assert.match(text, /\*\*Summary:\*\* done/);
  assert.match(text, /3 min 5 s · 12 messages · 12.4k tokens · \$0\.02$/);
  const usage = { input: 10_000, output: 1_000, cacheRead: 29_000, cacheWrite: 0, unpriced: 0 };
  const measured = tooltip(about, "2.1", { goalId: "1", usage, cost: 0.5, contextTokens: 28 });
  assert.match(measured, /12 messages · 40k tokens · \$0\.50$/);
  for (const words of [text, measured]) assert.doesNotMatch(words, /×|context|cache|own:/);
});

test("a filter finds goals by words and number, with the goals above them", () => {
  const found = (query: string): string[] => [...matchingGoals(tree, query).shown].sort();
  assert.deepEqual(found("FOUND"), ["1"]);
  assert.deepEqual(found("goal 4"), ["3", "4"]);
  assert.deepEqual(found("2.2"), ["3", "5"]);
  assert.deepEqual(found("goal nothing"), []);
  assert.equal(matchingGoals(tree, "2.2").count, 1);
});

test("nothing spent is not told", () => {
  assert.equal(stats(NO_STATS), "");
});

test("the rows of a large plan come without counting the whole plan for each", () => {
  const goals = Array.from({ length: 5_000 }, (_, n) => goal(String(n), { parentId: n < 100 ? null : String(n % 100) }));
  const large = sent({ mission: "", currentId: "4999", goals });
  assert.equal(rows({ tree: large, running: false }, null).length, 100);
  assert.equal(goalNumbers(large), goalNumbers(large));
  assert.equal(goalNumbers(large).get("4999"), "100.49");
});

test("the plan in the chat folds what has ended, until somebody opens it", () => {
  const shown = (folded: [string, boolean][] = []): string[] => shownGoals(tree, new Map(folded)).map(({ goal: { id }, level, number, isFolded }) => `${"  ".repeat(level - 1)}${id}${isFolded ? "+" : ""} ${number}`.trimEnd());
  assert.deepEqual(shown(), ["1 1", "2+", "3 2", "  4 2.1", "  5 2.2"]);
  assert.deepEqual(shown([["2", false], ["3", true]]), ["1 1", "2", "  6", "3+ 2"]);
  assert.deepEqual(progress(tree), { done: 1, all: 5 });
  const circle = sent({ ...tree, goals: [goal("a", { parentId: "b" }), goal("b", { parentId: "a" })] });
  assert.deepEqual(shownGoals(circle, new Map()).map(({ goal: { id }, number }) => `${id} ${number}`), ["a 1", "b 1.1"], "a damaged plan is seen, as in the graph");
});

test("a plan says how it ended", () => {
  const of = (...statuses: ("completed" | "abandoned" | "pending")[]): string =>
    nowWords({ mission: "", currentId: null, goals: statuses.map((status, index) => goal(String(index + 1), { status })) });
  assert.equal(of("completed", "abandoned"), "All goals are finished");
  assert.equal(of("abandoned", "abandoned"), "All goals were abandoned");
  assert.equal(of("completed", "pending"), "No goal is being worked on");
});

test("goals with changed files are those of changes that are not undone, and the goals above them", () => {
  const of = (goalId: string | null, state: "applied" | "undone"): { goalId: string | null; state: "applied" | "undone" } => ({ goalId, state });
  assert.deepEqual([...changedGoals(tree, [of("4", "applied"), of("1", "undone"), of(null, "applied"), of("gone", "applied")])], ["4", "3"]);
});
