import assert from "node:assert/strict";
import { test } from "node:test";
import { branchKey, dagOf, forkKey, goalKey } from "../../../daemon/api/page/dag.js";
import { layoutOf } from "../../../daemon/api/page/layout.js";
import type { Branch, Dag, Goal, GoalTree, LayoutOptions } from "../../../daemon/api/page/shapes";

const goal = (id: string, fields: Partial<Goal> = {}): Goal => ({ id, description: `Goal ${id}`, status: "completed", ...fields });
const tree = (goals: Goal[]): GoalTree => ({ mission: "", goals });
const branch = (id: string, goals = 0): Branch => ({
  id, explore_start_id: "2", description: id, status: "completed",
  ...(goals ? { goal_tree: tree(Array.from({ length: goals }, (_, at) => goal(String(at + 1)))) } : {}),
});

/** No two nodes cover each other, and each edge goes to the right or into a later row. */
function sound(dag: Dag, options: LayoutOptions = {}): void {
  const layout = layoutOf(dag, options);
  const taken = new Set<string>();
  for (const node of dag.nodes) {
    const place = layout.places.get(node.key);
    assert.ok(place, node.key);
    assert.ok(place.x >= 0 && place.x + layout.nodeWidth <= layout.width + 1, `${node.key} is outside: ${place.x} of ${layout.width}`);
    assert.ok(place.y >= 0 && place.y + layout.nodeHeight <= layout.height + 1, `${node.key} is outside: ${place.y} of ${layout.height}`);
    for (const other of dag.nodes) {
      const there = layout.places.get(other.key);
      if (other === node || !there) continue;
      const apart = Math.abs(there.x - place.x) >= layout.nodeWidth || Math.abs(there.y - place.y) >= layout.nodeHeight;
      assert.ok(apart, `${node.key} covers ${other.key}`);
    }
    taken.add(node.key);
  }
  for (const edge of dag.edges) {
    assert.match(layout.routes.get(edge.key)?.d ?? "", /^M[\d.-]/, edge.key);
    assert.doesNotMatch(layout.routes.get(edge.key)?.d ?? "", /NaN|undefined|Infinity/);
  }
}

const forked = (a: number, b: number): Dag => dagOf(
  tree([goal("1"), goal("9", { status: "abandoned" }), goal("2", { type: "explore_start", branch_ids: ["A", "B", "C"] }), goal("8", { status: "abandoned" }), goal("3", { type: "explore_merge", explore_start_id: "2" }), goal("4")]),
  { A: branch("A", a), B: branch("B", b), C: branch("C") },
  new Set([forkKey("2"), branchKey("A"), branchKey("B"), branchKey("C")]),
);

test("a line of goals stands in one row", () => {
  const dag = dagOf(tree(Array.from({ length: 6 }, (_, at) => goal(String(at)))));
  const { places } = layoutOf(dag);
  assert.equal(new Set([...places.values()].map((place) => place.y)).size, 1);
  sound(dag);
});

test("branches stand side by side around the line, and meet behind the longest", () => {
  const dag = forked(4, 2);
  const { places } = layoutOf(dag);
  const y = (key: string) => places.get(key)?.y ?? NaN;
  assert.ok(y(goalKey("1", "A")) < y(goalKey("2")) && y(branchKey("C")) > y(goalKey("2")));
  assert.equal(y(goalKey("3")), y(goalKey("2")));
  assert.ok((places.get(goalKey("3"))?.x ?? 0) > (places.get(goalKey("4", "A"))?.x ?? Infinity));
  sound(dag);
});

test("nothing covers anything, whatever is open and however wide a row may be", () => {
  for (const [a, b] of [[0, 0], [1, 7], [7, 1], [12, 12]] as const) for (const wrap of [0, 700, 1500, 4000]) sound(forked(a, b), { wrap });
});

test("abandoned goals one after the other stand below each other", () => {
  const dag = dagOf(tree([goal("1"), ...["2", "3", "4"].map((id) => goal(id, { status: "abandoned" })), goal("5")]));
  const { places } = layoutOf(dag);
  assert.deepEqual(new Set(["2", "3", "4"].map((id) => places.get(goalKey(id))?.x)).size, 1);
  sound(dag);
});

test("random plans are laid out without covering", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 60; round++) {
    const goals: Goal[] = [];
    const open = new Set<string>();
    for (let at = 1; at <= 3 + random(25); at++) {
      const parent = at > 1 && random(3) === 0 ? String(1 + random(at - 1)) : null;
      const kind = random(8);
      const fields: Partial<Goal> = { parent_id: parent, status: random(5) === 0 ? "abandoned" : "completed" };
      if (kind === 0) Object.assign(fields, { type: "explore_start", branch_ids: [`A${"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[at]}`, `B${"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[at]}`] });
      if (kind === 1 && at > 1) Object.assign(fields, { type: "explore_merge", explore_start_id: String(1 + random(at - 1)) });
      goals.push(goal(String(at), fields));
      if (random(2)) open.add(goalKey(String(at)));
      open.add(forkKey(String(at)));
    }
    const branches: Record<string, Branch> = {};
    for (const one of goals) for (const id of one.branch_ids ?? []) {
      branches[id] = branch(id, random(4));
      if (random(2)) open.add(branchKey(id));
    }
    sound(dagOf(tree(goals), branches, open), { wrap: random(2) * (600 + random(3000)) });
  }
});

test("2 000 goals are a block of rows that begins anew at the left", () => {
  const goals = Array.from({ length: 2000 }, (_, at) => goal(String(at + 1), { status: at % 97 === 96 ? "abandoned" : "completed" }));
  const dag = dagOf(tree(goals));
  const layout = layoutOf(dag, { wrap: 1400 });
  const rows = new Set([...layout.places.values()].map((place) => place.y));
  assert.ok(rows.size > 20, String(rows.size));
  assert.ok(layout.width < 20_000 && layout.height < 20_000, `${layout.width} × ${layout.height}`);
});
