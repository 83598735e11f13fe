import assert from "node:assert/strict";
import { test } from "node:test";
import { branchKey, dagOf, forkKey, goalKey, placeOfWork } from "../../../daemon/api/page/dag.js";
import { indexOf } from "../../../daemon/api/page/goals.js";
import type { Branch, Dag, DagEdge, Goal, GoalStats, GoalTree } from "../../../daemon/api/page/shapes";
import { sent } from "../fakes/plans";

const stats = (count: number): GoalStats => ({ messageCount: count, totalTokens: count * 100, totalCost: count / 100, preview: null });

function goal(id: string, fields: Partial<Goal> = {}): Goal {
  return { id, description: `Goal ${id}`, status: "pending", selfStats: stats(1), cumulativeStats: stats(10), ...fields };
}

const tree = (...goals: Goal[]): GoalTree => sent({ mission: "Ship it", currentId: null, goals });
const branch = (id: string, fields: Partial<Branch> = {}): Branch => ({
  id, exploreStartId: "2", description: `Way ${id}`, status: "completed", cumulativeStats: stats(8), goalCount: 2, ...fields,
});
/** `[1]→[2]` by what people see. */
function drawn(dag: Dag): string[] {
  const names = new Map(dag.nodes.map((node) => [node.key, node.kind === "start" ? "START" : node.label || `x${node.goalId}`]));
  return dag.edges.map((edge) => `${names.get(edge.from)}→${names.get(edge.to)}${edge.abandoned ? " grey" : ""}`);
}
function edgeTo(dag: Dag, key: string): DagEdge {
  const found = dag.edges.find((edge) => edge.to === key && !edge.shared);
  assert.ok(found, key);
  return found;
}

// The tree of seed 000's REST answer.
const nested = tree(
  goal("1", { status: "completed" }), goal("2", { status: "in_progress" }), goal("3", { parentId: "2", status: "completed" }),
  goal("4", { parentId: "2", status: "in_progress" }), goal("5"), goal("6", { parentId: "3" }),
);

test("collapsed, only the top goals are nodes, and edges have the cumulative numbers", () => {
  const dag = dagOf(nested);
  assert.deepEqual(drawn(dag), ["START→1", "1→2", "2→3"]);
  const edge = edgeTo(dag, goalKey("2"));
  assert.equal(edge.counts, "cumulative");
  assert.equal(edge.stats.messageCount, 10);
  assert.equal(edge.expand, goalKey("2"));
  assert.equal(edgeTo(dag, goalKey("5")).expand, null);
});

test("an open goal gives way to those within it, and its own numbers are kept where it begins", () => {
  const dag = dagOf(nested, {}, new Set([goalKey("2")]));
  assert.deepEqual(drawn(dag), ["START→1", "1→2.1", "2.1→2.2", "2.2→3"]);
  const first = edgeTo(dag, goalKey("3"));
  assert.deepEqual(first.begins, [goalKey("2")]);
  assert.deepEqual(first.own.map(({ key, stats: own }) => [key, own]), [[goalKey("2"), stats(1)]]);
  assert.deepEqual(edgeTo(dag, goalKey("4")).own, []);
  assert.deepEqual(dag.nodes.find((node) => node.goalId === "4")?.within, [goalKey("2")]);
});

test("goals open within open goals, and the first edge can close both", () => {
  const dag = dagOf(nested, {}, new Set([goalKey("2"), goalKey("3")]));
  assert.deepEqual(drawn(dag), ["START→1", "1→2.1.1", "2.1.1→2.2", "2.2→3"]);
  assert.deepEqual(edgeTo(dag, goalKey("6")).begins, [goalKey("3"), goalKey("2")]);
});

test("all numbers of a plan are on its edges, whatever is open", () => {
  const leaf = (id: string, parent: string | null, own: number, all = own) => goal(id, { parentId: parent, selfStats: stats(own), cumulativeStats: stats(all) });
  const plan = tree(leaf("1", null, 5), leaf("2", null, 3, 22), leaf("3", "2", 4, 9), leaf("4", "3", 5), leaf("5", "2", 10));
  for (const open of [[], ["2"], ["2", "3"], ["3"]]) {
    const dag = dagOf(plan, {}, new Set(open.map((id) => goalKey(id))));
    const sum = dag.edges.reduce((total, edge) => total + edge.stats.messageCount + edge.own.reduce((all, one) => all + one.stats.messageCount, 0), 0);
    assert.equal(sum, 27, open.join());
  }
});

test("abandoned goals are grey, lead nowhere, have no number, and open to grey ones", () => {
  const plan = tree(
    goal("1", { status: "completed" }), goal("2", { status: "abandoned" }), goal("7", { parentId: "2", status: "completed" }),
    goal("4", { status: "in_progress" }), goal("3"),
  );
  assert.deepEqual(drawn(dagOf(plan)), ["START→1", "1→x2 grey", "1→2", "2→3"]);
  const open = dagOf(plan, {}, new Set([goalKey("2")]));
  assert.deepEqual(drawn(open), ["START→1", "1→x7 grey", "1→2", "2→3"]);
  assert.equal(open.nodes.find((node) => node.goalId === "7")?.abandoned, true);
});

test("an open goal all of whose goals are abandoned stays, with its own numbers", () => {
  const plan = tree(goal("1"), goal("2", { parentId: "1", status: "abandoned" }), goal("3"));
  const dag = dagOf(plan, {}, new Set([goalKey("1")]));
  assert.deepEqual(drawn(dag), ["START→x2 grey", "START→1", "1→2"]);
  assert.equal(edgeTo(dag, goalKey("1")).counts, "self");
  assert.equal(edgeTo(dag, goalKey("1")).stats.messageCount, 1);
});

// The exploration of seed 000.
const explored = tree(
  goal("1", { status: "completed" }), goal("2", { type: "explore_start", branchIds: ["A", "B"], status: "completed" }),
  goal("3", { type: "explore_merge", exploreStartId: "2", selectedBranch: "A" }), goal("4"),
);
const both = { A: branch("A"), B: branch("B", { status: "abandoned" }) };

test("an exploration is a fork and a join when it is open, and a line when not", () => {
  const closed = dagOf(explored, both);
  assert.deepEqual(drawn(closed), ["START→1", "1→2", "2→3", "3→4"]);
  assert.equal(edgeTo(closed, goalKey("3")).expand, forkKey("2"));
  const open = dagOf(explored, both, new Set([forkKey("2")]));
  assert.deepEqual(drawn(open), ["START→1", "1→2", "2→A", "2→B grey", "A→3", "B→3 grey", "3→4"]);
  assert.deepEqual(open.edges.filter((edge) => edge.to === goalKey("3")).map((edge) => edge.shared), [false, true]);
  assert.equal(open.nodes.find((node) => node.key === branchKey("A"))?.selected, true);
  assert.equal(edgeTo(open, branchKey("A")).stats.messageCount, 8);
});

test("a branch opens to its own goals, numbered behind its letter", () => {
  const inner = tree(goal("1", { status: "completed" }), goal("2"), goal("3", { parentId: "2" }));
  const branches = { ...both, A: branch("A", { goalTree: inner }) };
  const dag = dagOf(explored, branches, new Set([forkKey("2"), branchKey("A")]));
  assert.deepEqual(drawn(dag), ["START→1", "1→2", "2→A.1", "A.1→A.2", "2→B grey", "A.2→3", "B→3 grey", "3→4"]);
  assert.deepEqual(dag.nodes.find((node) => node.label === "A.2")?.within, [branchKey("A"), forkKey("2")]);
  const deeper = dagOf(explored, branches, new Set([forkKey("2"), branchKey("A"), goalKey("2", "A")]));
  assert.ok(drawn(deeper).includes("A.1→A.2.1"));
});

test("a branch that is opened before its goals are there says that they are loading", () => {
  const dag = dagOf(explored, both, new Set([forkKey("2"), branchKey("A")]));
  assert.equal(dag.nodes.find((node) => node.key === branchKey("A"))?.loading, true);
});

test("while nothing merges the branches they lead to what comes next", () => {
  const running = tree(goal("1"), goal("2", { type: "explore_start", branchIds: ["A", "B"] }), goal("4"));
  const dag = dagOf(running, { A: branch("A"), B: branch("B") }, new Set([forkKey("2")]));
  assert.deepEqual(drawn(dag), ["START→1", "1→2", "2→A", "2→B", "A→3", "B→3"]);
});

test("an exploration within a branch is found by its full id", () => {
  const inner = tree(goal("1", { type: "explore_start", branchIds: ["A"] }));
  const branches = { A: branch("A", { goalTree: inner }), "A.A": branch("A.A", { exploreStartId: "1" }) };
  const plan = tree(goal("2", { type: "explore_start", branchIds: ["A"] }));
  const dag = dagOf(plan, branches, new Set([forkKey("2"), branchKey("A"), forkKey("1", "A")]));
  assert.deepEqual(drawn(dag), ["START→1", "1→A.1", "A.1→A.A"]);
});

test("the focus is on what is seen of it", () => {
  const focused = { ...nested, currentId: "6" };
  const marked = (open: string[]) => dagOf(focused, {}, new Set(open)).nodes.filter((node) => node.current).map((node) => node.label);
  assert.deepEqual(marked([]), ["2"]);
  assert.deepEqual(marked([goalKey("2")]), ["2.1"]);
  assert.deepEqual(marked([goalKey("2"), goalKey("3")]), ["2.1.1"]);
});

test("damaged plans are drawn as far as possible: circles, lost parents, ids twice, branches that are not there", () => {
  const plan = tree(
    goal("1", { parentId: "2" }), goal("2", { parentId: "1" }), goal("3", { parentId: "gone" }), goal("3"), goal("4", { parentId: "4" }),
    goal("5", { type: "explore_start", branchIds: ["A", "A", "constructor"] }), goal("6", { type: "explore_merge", exploreStartId: "9" }),
  );
  const { children } = indexOf(plan);
  const reached = [...children.values()].flat().map((one) => one.id).sort();
  assert.deepEqual(reached, ["1", "2", "3", "4", "5", "6"]);
  const everything = new Set(["1", "2", "3", "4"].map((id) => goalKey(id)).concat(forkKey("5"), branchKey("A")));
  const dag = dagOf(plan, { A: branch("A", { goalTree: plan }) }, everything);
  assert.equal(new Set(dag.nodes.map((node) => node.key)).size, dag.nodes.length);
  assert.equal(new Set(dag.edges.map((edge) => edge.key)).size, dag.edges.length);
});

test("goals nested without end do not break it", () => {
  const deep = tree(...Array.from({ length: 20_000 }, (_, at) => goal(String(at), at ? { parentId: String(at - 1) } : {})));
  const dag = dagOf(deep, {}, new Set(deep.goals.map((one) => goalKey(one.id))));
  assert.ok(dag.nodes.length > 1);
});

test("each edge comes behind the nodes that it joins, so nothing has to be searched", () => {
  const dag = dagOf(explored, both, new Set([forkKey("2")]));
  const places = new Map(dag.nodes.map((node, at) => [node.key, at]));
  for (const edge of dag.edges) assert.ok((places.get(edge.from) ?? Infinity) < (places.get(edge.to) ?? -1), edge.key);
});

test("work of an open goal or branch itself is found where it begins, with the messages it stands for", () => {
  const [own] = edgeTo(dagOf(nested, {}, new Set([goalKey("2")])), goalKey("3")).own;
  assert.deepEqual([own?.node.goalId, own?.node.branchId, own?.node.label, own?.stats.messageCount], ["2", null, "2", 1]);
  const inner = tree(goal("1", { cumulativeStats: stats(3) }), goal("2", { cumulativeStats: stats(4) }));
  const dag = dagOf(explored, { ...both, A: branch("A", { goalTree: inner, cumulativeStats: stats(9) }) }, new Set([forkKey("2"), branchKey("A")]));
  const [beside] = edgeTo(dag, goalKey("1", "A")).own;
  assert.deepEqual([beside?.key, beside?.stats.messageCount, beside?.node.branchId, beside?.node.goalId], [branchKey("A"), 2, "A", null]);
});

test("branches meet at the closed goal that hides where they meet, also when what is around it is open", () => {
  const hidden = tree(
    goal("2", { type: "explore_start", branchIds: ["A", "B"] }), goal("9"), goal("8", { parentId: "9" }),
    goal("3", { parentId: "8", type: "explore_merge", exploreStartId: "2" }), goal("4"),
  );
  const lines = (...open: string[]) => drawn(dagOf(hidden, both, new Set([forkKey("2"), ...open])));
  assert.deepEqual(lines(), ["START→1", "1→A", "1→B grey", "A→2", "B→2 grey", "2→3"]);
  assert.deepEqual(lines(goalKey("9")), ["START→1", "1→A", "1→B grey", "A→2.1", "B→2.1 grey", "2.1→3"]);
  assert.deepEqual(lines(goalKey("9"), goalKey("8")), ["START→1", "1→A", "1→B grey", "A→2.1.1", "B→2.1.1 grey", "2.1.1→3"]);
});

test("branches that would meet before they part lead to what comes next", () => {
  const odd = tree(goal("9"), goal("3", { parentId: "9", type: "explore_merge", exploreStartId: "2" }), goal("2", { type: "explore_start", branchIds: ["A"] }), goal("4"));
  assert.deepEqual(drawn(dagOf(odd, { A: branch("A") }, new Set([forkKey("2")]))), ["START→1", "1→2", "2→A", "A→3"]);
});

test("no two edges are the same, also to an abandoned goal where branches met", () => {
  const gone = tree(goal("2", { type: "explore_start", branchIds: ["A", "B"] }), goal("3", { type: "explore_merge", status: "abandoned", exploreStartId: "2" }), goal("4"));
  const { edges } = dagOf(gone, both, new Set([forkKey("2")]));
  assert.equal(new Set(edges.map((edge) => edge.key)).size, edges.length);
  assert.ok(edges.some((edge) => edge.from === branchKey("A") && edge.to === goalKey("3")));
});

test("what lies too deep to be opened has nothing to open it with", () => {
  const deep = tree(...Array.from({ length: 500 }, (_, at) => goal(String(at), at ? { parentId: String(at - 1) } : {})));
  const dag = dagOf(deep, {}, new Set(deep.goals.map((one) => goalKey(one.id))));
  assert.equal(dag.nodes.at(-1)?.expand, null);
  assert.equal(dag.nodes.at(-1)?.inside, 1);
});

test("when nobody is at work the agent is nowhere, and in a branch that ended it is no more", () => {
  const focused = { ...nested, currentId: "4" };
  const current = (dag: Dag) => dag.nodes.filter((node) => node.current).map((node) => node.key);
  assert.deepEqual(current(dagOf(focused)), [goalKey("2")]);
  const atRest = dagOf(focused, {}, new Set(), { working: false });
  assert.deepEqual(current(atRest), []);
  // The view still finds the place where it goes on.
  assert.equal(placeOfWork(atRest)?.key, goalKey("2"));
  assert.equal(placeOfWork(dagOf(nested)), undefined);
  const inner = { ...tree(goal("1")), currentId: "1" };
  const opened = new Set([forkKey("2"), branchKey("A")]);
  const of = (status: Branch["status"], working = true) => current(dagOf(explored, { A: branch("A", { status, goalTree: inner }) }, opened, { working }));
  assert.deepEqual(of("exploring"), [goalKey("1", "A")]);
  assert.deepEqual(of("completed"), []);
  assert.deepEqual(of("exploring", false), []);
});

test("texts of a forged plan are bounded, whatever is drawn of them", () => {
  const long = "x".repeat(1_000_000);
  const dag = dagOf({ mission: long, currentId: null, goals: [goal("1", { description: long, summary: long })] }, { A: branch("A", { description: long, summary: long }) }, new Set([forkKey("1")]));
  for (const node of dag.nodes) assert.ok(node.title.length + node.summary.length < 9_000, node.key);
});
