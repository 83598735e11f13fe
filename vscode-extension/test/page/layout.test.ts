import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { branchKey, dagOf, forkKey, goalKey } from "../../../daemon/api/page/dag.js";
import { layoutOf } from "../../../daemon/api/page/layout.js";
import { vendored } from "../../scripts/vendor.mjs";
import type { Branch, Dag, Goal, GoalTree, LayoutOptions } from "../../../daemon/api/page/shapes";
import { sent } from "../fakes/plans";

const goal = (id: string, fields: Partial<Goal> = {}): Goal => ({ id, description: `Goal ${id}`, status: "completed", ...fields });
const tree = (goals: Goal[]): GoalTree => sent({ mission: "", goals });
const branch = (id: string, goals = 0): Branch => ({
  id, exploreStartId: "2", description: id, status: "completed",
  ...(goals ? { goalTree: tree(Array.from({ length: goals }, (_, at) => goal(String(at + 1)))) } : {}),
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
  tree([goal("1"), goal("9", { status: "abandoned" }), goal("2", { type: "explore_start", branchIds: ["A", "B", "C"] }), goal("8", { status: "abandoned" }), goal("3", { type: "explore_merge", exploreStartId: "2" }), goal("4")]),
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

test("the goals of a branch stand in a line, and the branches in their order", () => {
  for (const [a, b] of [[2, 0], [1, 5], [4, 2]] as const) for (const wrap of [300, 1500]) {
    const dag = forked(a, b);
    const { places, down } = layoutOf(dag, { wrap });
    const lane = (key: string) => (down ? places.get(key)?.x : places.get(key)?.y) ?? NaN;
    const branches: [string, number][] = [["A", a], ["B", b], ["C", 0]];
    const lanes = branches.map(([id, goals]) => new Set(goals ? Array.from({ length: goals }, (_, at) => lane(goalKey(String(at + 1), id))) : [lane(branchKey(id))]));
    assert.deepEqual(lanes.map(({ size }) => size), [1, 1, 1], `${a} ${b} ${wrap}`);
    const [first, second, third] = lanes.map((one) => [...one][0] ?? NaN);
    assert.ok((first ?? 0) < (second ?? 0) && (second ?? 0) < (third ?? 0), `${first} ${second} ${third}`);
  }
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

function randomGoals(random: (below: number) => number): { goals: Goal[]; open: Set<string> } {
  const goals: Goal[] = [];
  const open = new Set<string>();
  for (let at = 1; at <= 3 + random(25); at++) {
    const parent = at > 1 && random(3) === 0 ? String(1 + random(at - 1)) : null;
    const kind = random(8);
    const fields: Partial<Goal> = { parentId: parent, status: random(5) === 0 ? "abandoned" : "completed" };
    if (kind === 0) Object.assign(fields, { type: "explore_start", branchIds: [`A${"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[at]}`, `B${"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[at]}`] });
    if (kind === 1 && at > 1) Object.assign(fields, { type: "explore_merge", exploreStartId: String(1 + random(at - 1)) });
    goals.push(goal(String(at), fields));
    if (random(2)) open.add(goalKey(String(at)));
    open.add(forkKey(String(at)));
  }
  return { goals, open };
}

test("random plans are laid out without covering", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 60; round++) {
    const { goals, open } = randomGoals(random);
    const branches: Record<string, Branch> = {};
    for (const one of goals) for (const id of one.branchIds ?? []) {
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

test("a narrow graph is read downwards, with the main line straight and abandoned goals beside it", () => {
  const goals = ["1", "2", "3", "4", "5"].map((id) => goal(id, id === "3" ? { status: "abandoned" } : {}));
  const dag = dagOf(tree(goals));
  const { places, down, width } = layoutOf(dag, { wrap: 300 });
  assert.ok(down);
  assert.equal(new Set(["start", ...["1", "2", "4", "5"].map((id) => goalKey(id))].map((key) => places.get(key)?.x)).size, 1);
  assert.equal(places.get(goalKey("3"))?.y, places.get(goalKey("4"))?.y);
  assert.ok(width < 450);
  for (const [a, b] of [[0, 0], [1, 7], [7, 1]] as const) sound(forked(a, b), { wrap: 300 });
});

test("the page has the layout library as it is in the packages", () => {
  assert.equal(readFileSync("../daemon/api/page/dagre.js", "utf8"), vendored());
});

for (const count of [100, 300]) {
  test(`${count} goals are placed, whatever is abandoned or explored`, (context) => {
    const goals = Array.from({ length: count }, (_, at) => goal(String(at + 1), {
      status: at % 7 === 6 ? "abandoned" : "completed", ...(at % 20 === 5 ? { type: "explore_start", branchIds: [`A${at}`, `B${at}`] } : {}),
    }));
    const branches = Object.fromEntries(goals.flatMap((one) => (one.branchIds ?? []).map((id) => [id, { ...branch(id, 3), exploreStartId: one.id }])));
    const dag = dagOf(tree(goals), branches, new Set(goals.flatMap((one) => [forkKey(one.id), ...(one.branchIds ?? []).map(branchKey)])));
    for (const wrap of [300, 900]) {
      const begun = performance.now();
      layoutOf(dag, { wrap });
      context.diagnostic(`${dag.nodes.length} nodes at ${wrap} px: ${Math.round(performance.now() - begun)} ms`);
      sound(dag, { wrap });
    }
  });
}
