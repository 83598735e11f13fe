import assert from "node:assert/strict";
import { test } from "node:test";
import { cachedShare, everyDay, finishedShare, lying, standing } from "../../../daemon/api/page/plot.js";
import type { Group } from "../../../daemon/api/page/shapes";

const group = (key: string, fields: Partial<Group> = {}): Group => ({
  key, sessions: 0, finished: 0, calls: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: 0, unpriced: 0, modelMs: 0, ...fields,
});

test("days are in order, with those on which nothing happened", () => {
  const days = everyDay([group("2026-03-02", { cost: 2 }), group("2026-02-27", { cost: 1 }), group("")], "2026-03-03", null);
  assert.deepEqual(days.map((one) => [one.key, one.cost]), [["2026-02-27", 1], ["2026-02-28", 0], ["2026-03-01", 0], ["2026-03-02", 2], ["2026-03-03", 0]]);
  assert.deepEqual(everyDay([group("2026-02-27")], "2026-03-01", 2).map((one) => one.key), ["2026-02-28", "2026-03-01"]);
  assert.equal(everyDay([group("1970-01-01"), group("9999-12-31")], "2026-03-01", null).length, 400);
});

test("shares of nothing are unknown", () => {
  assert.equal(cachedShare(group("a")), null);
  assert.equal(finishedShare(group("a")), null);
  assert.equal(cachedShare(group("a", { input: 60, cacheRead: 30, cacheWrite: 10 })), 0.3);
});

test("bars stand for values, and the smallest can be seen", () => {
  assert.deepEqual(standing([4, 0, null, 0.001], { width: 40, height: 100 }), [
    { x: 1.25, y: 0, width: 7.5, height: 100 }, null, null, { x: 31.25, y: 99, width: 7.5, height: 1 },
  ]);
  assert.deepEqual(standing([0.5], { width: 10, height: 100, top: 1 })[0]?.height, 50);
  assert.deepEqual(standing([], { width: 10, height: 10 }), []);
  assert.deepEqual(standing([0, 0], { width: 10, height: 10 }), [null, null]);
});

test("lying bars begin at the left", () => {
  assert.deepEqual(lying([1, 2], { width: 100, row: 20 }), [{ x: 0, y: 2, width: 50, height: 16 }, { x: 0, y: 22, width: 100, height: 16 }]);
});
