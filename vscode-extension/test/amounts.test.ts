import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { statusIcon, statusWord } from "../../daemon/api/page/format.js";
import { duration, limitOf, money, percent, readMoney, readTokens, short } from "../src/amounts";

test("amounts are written as in the terminal", () => {
  const cases = JSON.parse(readFileSync("../tests/contract/amounts.json", "utf8")) as Record<"money" | "amount" | "duration", [number, string][]>;
  for (const [name, written] of Object.entries({ money: (one: number) => money(one), amount: short, duration }) as [keyof typeof cases, (one: number) => string][])
    assert.deepEqual(cases[name].map(([value]) => [value, written(value)]), cases[name], name);
  assert.deepEqual([money(0, 5), money(1.234, 5)], ["unknown price", "≥ $1.23"]);
  assert.deepEqual([5, 0.25, 0.005, 12.5, 0.1 + 0.2].map(limitOf), ["$5", "$0.25", "$0.005", "$12.50", "$0.30"]);
});

test("states of goals are shown as in the terminal", () => {
  const states = JSON.parse(readFileSync("../tests/contract/goal_states.json", "utf8")) as Record<string, string[]>;
  assert.deepEqual(Object.fromEntries(Object.keys(states).map((status) => [status, [statusIcon(status), statusWord(status)]])), states);
});

test("what is not all of it is not called a hundred per cent", () => {
  assert.deepEqual([0, 0.834, 0.9999, 1].map(percent), ["0 %", "83 %", "99 %", "100 %"]);
});

test("money is read as people write it", () => {
  assert.deepEqual(["5", "$2.50", " 0,25 $", "$ .5", "3 usd", "10 dollars"].map(readMoney), [5, 2.5, 0.25, 0.5, 3, 10]);
  for (const text of ["", "0", "-1", "five", "1.2.3", "5 €", "1e3", "$"]) assert.equal(readMoney(text), undefined, text);
});

test("tokens are read as people write them", () => {
  const written = ["200000", "200 000", "200,000", "200k", "1.5M", "1,5m", "300 tokens", "200k tokens", "1_000"];
  assert.deepEqual(written.map(readTokens), [200_000, 200_000, 200_000, 200_000, 1_500_000, 1_500_000, 300, 200_000, 1_000]);
  for (const text of ["", "0", "-5", "k", "many", "1e6", "1.2.3M"]) assert.equal(readTokens(text), undefined, text);
});
