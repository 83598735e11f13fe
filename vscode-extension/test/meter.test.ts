import assert from "node:assert/strict";
import { test } from "node:test";
import { budgets, cacheWords, changed, choices, complaint, details, isBudget, line, merged, spentWords, warningWords } from "../src/meter/model";
import type { GoalMeter, GoalTree } from "../src/protocol.gen";
import { goal, meter, NO_BUDGET, request } from "./fakes/protocol";
import { sent } from "./fakes/plans";

const NOTHING = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, unpriced: 0 };
const NO_TREE: GoalTree = { mission: "", currentId: null, goals: [] };
const tree: GoalTree = sent({ ...NO_TREE, currentId: "2", goals: [goal("1"), goal("2", { status: "in_progress" })] });

function goalMeter(goalId: string, cost: number): GoalMeter {
  return { goalId, usage: { input: 1_000, output: 500, cacheRead: 3_000, cacheWrite: 0, unpriced: 0 }, cost, contextTokens: 12_000 };
}

test("the share from cache is of all that was sent", () => {
  assert.equal(cacheWords({ input: 10, output: 999, cacheRead: 80, cacheWrite: 10, unpriced: 0 }), "80 % cache hits");
  assert.equal(cacheWords({ ...NOTHING, output: 5 }), "");
});

test("the line says how full, what it cost, and how much came from cache", () => {
  const shown = line(meter(), NO_TREE);
  assert.deepEqual([shown.context, shown.cost, shown.cache, shown.near, shown.costly], ["42k of 150k", "$0.12", "83 % cache hits", false, ""]);
  assert.equal(shown.filled, 0.28);
});

test("a context beyond the threshold fills the bar and no more", () => {
  const shown = line(meter({ contextTokens: 190_000 }), NO_TREE);
  assert.deepEqual([shown.filled, shown.near], [1, true]);
});

test("a model without window, price or usage has a line all the same", () => {
  const shown = line(meter({ compactAt: 0, contextWindow: 0, usage: NOTHING, cost: 0, costKnown: false }), NO_TREE);
  assert.deepEqual([shown.context, shown.filled, shown.cost, shown.cache], ["42k", 0, "", ""]);
  assert.equal(line(meter({ costKnown: false }), NO_TREE).cost, "≥ $0.12");
  assert.equal(line(meter({ costKnown: false, cost: 0 }), NO_TREE).cost, "unknown price");
});

test("a notification brings the goals that changed; the others stay", () => {
  const before = meter({ goals: [goalMeter("1", 0.1), goalMeter("2", 0.2)] });
  const after = merged(before, meter({ cost: 0.5, goals: [goalMeter("2", 0.3)] }));
  assert.deepEqual(after.goals.map((one) => [one.goalId, one.cost]), [["1", 0.1], ["2", 0.3]]);
  assert.equal(after.cost, 0.5);
  assert.equal(merged(null, before), before);
});

test("limits say what is used of them, and warn when little is left", () => {
  const budget = { ...NO_BUDGET, sessionUsd: 0.13, goalTokens: 100_000 };
  const found = budgets(meter({ budget, goals: [goalMeter("2", 0.1)] }), tree);
  assert.deepEqual(found.map((one) => [one.what, one.words, one.near]), [
    ["This session", "$0.12 of $0.13", true],
    ["Goal 2", "4.5k of 100k tokens", false],
  ]);
  assert.equal(line(meter({ budget }), tree).costly, "the budget is nearly used up");
  assert.equal(budgets(meter({ budget }), NO_TREE)[1]?.what, "Each goal");
});

test("a session without a budget stands out from the amount at which it warns", () => {
  assert.equal(line(meter({ warningUsd: 0.13 }), tree).costly, "");
  assert.equal(line(meter({ warningUsd: 0.12 }), tree).costly, "no budget is set");
  assert.equal(warningWords(meter({ warningUsd: 5 })), "a warning every $5");
  assert.equal(warningWords(meter()), "");
});

test("the details tell window, tokens, cost and the goal in focus", () => {
  const rows = details(meter({ goals: [goalMeter("2", 0.03)] }), tree);
  assert.deepEqual(rows.map((row) => [row.label, row.words.join(" · ")]), [
    ["Context", "42k used · 200k window · auto-compacts at 150k"],
    ["Tokens", "100k in · 83k from the cache · 7k written to the cache · 2k out"],
    ["Cost", "$0.12"],
    ["Goal 2", "4.5k tokens · $0.03 · 75 % cache hits · 12k of the context"],
  ]);
  const withoutGoal = { ...NOTHING, input: 900, output: 100 };
  const first = details(meter({ withoutGoal, withoutGoalCost: 0.01 }), tree)[3];
  assert.deepEqual([first?.label, first?.words.join(" · ")], ["Without a goal", "1k tokens · $0.01 · 0 % cache hits"]);
  const unknown = details(meter({ cost: 0, costKnown: false }), NO_TREE);
  assert.equal(unknown[2]?.words[0], "not known");
});

test("nothing spent is not told of a goal", () => {
  assert.equal(spentWords({ usage: NOTHING, cost: 0 }), "");
});

test("the four limits are offered with what they are and what was used", () => {
  const budget = { ...NO_BUDGET, sessionUsd: 5, goalTokens: 200_000 };
  const offered = choices(meter({ budget, goals: [goalMeter("2", 0.03)] }), tree);
  assert.deepEqual(offered.map((one) => [one.key, one.description, one.detail]), [
    ["sessionUsd", "$5", "Used so far: $0.12"],
    ["sessionTokens", "no limit", "Used so far: 102k tokens"],
    ["goalUsd", "no limit", "Goal 2: $0.03"],
    ["goalTokens", "200k tokens", "Goal 2: 4.5k tokens"],
  ]);
  assert.deepEqual(choices(null, NO_TREE).map((one) => one.detail), ["", "", "", ""]);
});

test("Enter in the box of a limit leaves the limit as it is", () => {
  for (const limit of [200_000, 123_456, 1_500_000, 1_234_567, 999_999]) {
    const before = { ...NO_BUDGET, sessionTokens: limit };
    const value = choices(meter({ budget: before }), NO_TREE).find(({ key }) => key === "sessionTokens")?.value ?? "";
    assert.deepEqual(changed(before, "sessionTokens", value), before, value);
  }
});

test("one limit changes, the others stay; nothing written takes it away", () => {
  const before = { ...NO_BUDGET, goalTokens: 200_000 };
  assert.deepEqual(changed(before, "sessionUsd", "$2.50"), { ...before, sessionUsd: 2.5 });
  assert.deepEqual(changed(before, "goalTokens", " "), NO_BUDGET);
  assert.deepEqual(changed(undefined, "sessionTokens", "1.5M"), { ...NO_BUDGET, sessionTokens: 1_500_000 });
});

test("what is no amount is complained about", () => {
  assert.equal(complaint("sessionUsd", "2.50"), undefined);
  assert.equal(complaint("sessionUsd", ""), undefined);
  assert.match(complaint("sessionUsd", "much") ?? "", /US dollars/);
  assert.match(complaint("goalTokens", "$5") ?? "", /number of tokens/);
});

test("a question about the budget is told from others", () => {
  assert.equal(isBudget(request("r", { permission: "budget" })), true);
  assert.equal(isBudget(request("r")), false);
});
