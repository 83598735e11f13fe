import assert from "node:assert/strict";
import { test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import type { Event, ViewUpdate } from "../src/protocol.gen";
import { Explorations, Glimpses } from "../src/explore/explorations";
import { Records } from "../src/explore/record";
import { duration } from "../src/amounts";
import { board, UNKNOWN } from "../src/explore/score";
import { sideAddress, sideOf, sideTitle } from "../src/explore/explorations";
import { asksFor, childSession, explorationOf, explorationView, requestsOf, subagentOf } from "../src/explore/view";
import { agentRow, agentSpent, askerName, lastLine, requestTitle } from "../src/explore/format";
import { title } from "../src/diff/uris";
import { goalNumbers } from "../src/goals/tree";
import { below, branchRow, branchTooltip, placeOf, row } from "../src/goals/model";
import { apply, fromLoad, type SessionState } from "../src/session/state";
import { branch, completed, score, started, subagent } from "./fakes/branches";
import { call, event, file, goal, loaded, message, NO_STATS, request, result, session, text, view as update } from "./fakes/protocol";
import { make, named, settled } from "./fakes/session";

const TIME = "2026-01-01T00:00:00Z";

function played(...events: Parameters<typeof apply>[1][]): SessionState {
  return events.reduce(apply, fromLoad(loaded()));
}

test("branches are followed from their beginning to their end", () => {
  const state = played(
    { event: started(1, branch("A")) },
    { event: started(2, branch("B")) },
    { event: { event: "branch_goal_added", eventId: 3, traceId: "s1", time: TIME, branchId: "A", goal: goal("1"), parentId: null, index: null, goalNumbers: { 1: "1" } } },
    { event: { event: "branch_goal_updated", eventId: 4, traceId: "s1", time: TIME, branchId: "A", goalId: "1", updates: { status: "completed" }, affectedGoals: [], currentId: null, goalNumbers: {} } },
    { event: { event: "branch_message_added", eventId: 5, traceId: "s1", time: TIME, branchId: "A", message: message("assistant", 1, [text("Reading.")], { tokens: 10, cost: 0.5, usage: { input: 20, output: 10, cacheRead: 6, cacheWrite: 4, unpriced: 0 } }), affectedGoals: [] }, view: update({ branches: { A: { ...NO_STATS, messageCount: 1, totalTokens: 40, totalCost: 0.5 } } }) },
  );
  const a = state.branches["A"];
  assert.equal(a?.goalCount, 1);
  assert.deepEqual([a?.cumulativeStats.messageCount, a?.cumulativeStats.totalTokens, a?.cumulativeStats.totalCost], [1, 40, 0.5]);
  assert.equal(lastLine(a?.lastMessage ?? null), "Reading.");
  assert.deepEqual(state.branches["A"]?.goalTree?.goals.map(({ status }) => status), ["completed"]);
  assert.deepEqual(state.branches["A"] && [...goalNumbers(state.branches["A"].goalTree!)], [["1", "1"]]);
  assert.deepEqual(state.goalTree.goals, [], "a branch's goals are no goals of the session");
  assert.deepEqual(state.items, [], "nor its messages");
  assert.equal(explorationOf(state, "1").ended, false);

  const ended = [completed(6, "A"), completed(7, "B", { status: "abandoned", score: null })].reduce((now, one) => apply(now, { event: one }), state);
  const view = explorationOf(ended, "1");
  assert.equal(view.ended, true);
  assert.deepEqual(view.branches.map((one) => one.state), ["completed", "abandoned"]);
  const removed = apply(ended, { event: { event: "branch_removed", eventId: 8, traceId: "s1", time: TIME, branchId: "A", by: "" } });
  assert.equal(explorationOf(removed, "1").branches[0]?.state, "removed");
});

test("the plan of a branch follows goals that move, come between others, and are removed", () => {
  const added = (eventId: number, id: string, index: number | null): { event: Event } =>
    event(eventId, "branch_goal_added", { branchId: "A", goal: goal(id), parentId: null, index, goalNumbers: {} });
  const updated = (eventId: number, goalId: string, updates: Record<string, unknown>): { event: Event } =>
    event(eventId, "branch_goal_updated", { branchId: "A", goalId, updates, affectedGoals: [], currentId: null, goalNumbers: {} });
  const plan = (state: SessionState): string[] => state.branches["A"]?.goalTree?.goals.map(({ id, parentId }) => `${parentId ?? ""}/${id}`) ?? [];
  const state = played({ event: started(1, branch("A")) }, added(2, "1", null), added(3, "2", null), added(4, "3", 1));
  assert.deepEqual(plan(state), ["/1", "/3", "/2"]);
  const moved = apply(state, updated(5, "2", { parent_id: "1", before_id: null }));
  assert.deepEqual(plan(moved), ["/1", "/3", "1/2"]);
  assert.deepEqual(plan(apply(moved, updated(6, "3", { removed: true }))), ["/1", "1/2"]);
});

test("a branch of which only the load tells has no plan yet, and its later events change none", () => {
  const state = fromLoad(loaded({ branches: { A: branch("A", { goalCount: 2 }) } }));
  const next = apply(state, { event: { event: "branch_goal_added", eventId: 1, traceId: "s1", time: TIME, branchId: "A", goal: goal("3"), parentId: null, index: null, goalNumbers: { 3: "3" } } });
  assert.equal(next.branches["A"]?.goalCount, 3);
  assert.deepEqual(next.branches["A"]?.goalTree, undefined);
});

test("questions of a branch are its own, those of its sub-agents too", () => {
  const pending = [request("1", { branchId: "B" }), request("2", { branchId: "A.s1" }), request("3"), request("4", { branchId: "AA" })];
  const state = fromLoad(loaded({ pending, branches: { A: branch("A"), B: branch("B") } }));
  const ids = explorationOf(state, "1").branches.map((one) => one.requests.map(({ requestId }) => requestId));
  assert.deepEqual(ids, [["2"], ["1"]]);
  assert.deepEqual(explorationOf(state, "1").branches.map((one) => one.state), ["waiting", "waiting"]);
  assert.equal(asksFor("s10", "s1"), false);
  const record = fromLoad(loaded({ session: session({ trace: { ...session().trace, traceId: "s1:A" } }), pending }));
  assert.deepEqual(requestsOf(record, "s1").map(({ requestId }) => requestId), ["2"], "in A's own record its sub-agent is s1");
});

test("a card finds its exploration by the result, and before that by the branches it asked for", () => {
  const branches = { A: branch("A", { description: "JWT" }), B: branch("B", { description: "Session" }), C: branch("C", { exploreStartId: "5", description: "JWT" }), D: branch("D", { exploreStartId: "5", description: "Session" }) };
  const asked = call("c", "explore", { branches: [" JWT ", "Session"] });
  const state = fromLoad(loaded({ branches }));
  assert.equal(explorationView(state, asked)?.exploreStartId, "5", "what runs is the newest");
  const done = { ...state, results: { c: result("c", { name: "explore", metadata: { explore_start_id: "1" } }) } };
  assert.equal(explorationView(done, asked)?.exploreStartId, "1");
  assert.equal(explorationView(state, call("d", "explore", { select: ["A"] })), undefined);
  assert.equal(explorationView(state, call("e", "explore", { branches: ["Other"] })), undefined);
  const again = call("f", "explore", { branches: ["JWT", "Session"] });
  const both = { ...done, results: { ...done.results, g: result("g", { name: "explore", metadata: { explore_start_id: "5" } }) } };
  assert.equal(explorationView(both, again), undefined, "those of other calls are not shown by one that waits");
  const rejected = { ...done, results: { ...done.results, f: result("f", { name: "explore", isError: true, metadata: { denied: true } }) } };
  assert.equal(explorationView(rejected, again), undefined);
  const killed = { ...state, results: { c: result("c", { name: "explore", isError: true, metadata: { not_run: true, explore_start_id: "1" } }) } };
  assert.equal(explorationView(killed, asked)?.exploreStartId, "1", "what its branches had done can be used");
});

test("what was used is marked, wholly or in parts", () => {
  const merge = (selectedBranch: string | null): SessionState =>
    fromLoad(
      loaded({
        branches: { A: branch("A", { status: "completed" }), B: branch("B", { status: "completed" }) },
        goalTree: { mission: "", currentId: null, goals: [goal("1", { type: "explore_start" }), goal("2", { type: "explore_merge", exploreStartId: "1", selectedBranch })] },
      }),
    );
  const chosen = (selected: string | null): boolean[] => explorationOf(merge(selected), "1").branches.map((one) => one.chosen);
  assert.deepEqual(chosen(null), [false, false]);
  assert.deepEqual(chosen("B"), [false, true]);
  assert.deepEqual(chosen("A:src/a.py, B:docs"), [true, true]);
});

const notice = (eventId: number, code: string, shown: Partial<ViewUpdate>): ReturnType<typeof event> =>
  event(eventId, "notice", { level: "info", text: "Chosen.", code, about: "1", exitCode: null }, shown);

test("the daemon tells whether it waits for a choice", () => {
  const state = played({ event: started(1, branch("A")) }, notice(2, "explore_choice_awaited", { awaitsChoice: ["1"] }));
  assert.equal(explorationOf(state, "1").awaits, true);
  assert.equal(explorationOf(apply(state, event(3, "turn_started", { promptId: "p" }, { status: "running" })), "1").awaits, true);
  assert.equal(explorationOf(apply(state, notice(3, "explore_choice_made", { awaitsChoice: [] })), "1").awaits, false);
});

test("a session has the status that the daemon sends, also when the review of a picked branch is rejected", () => {
  const waiting = played(
    event(1, "turn_started", { promptId: "p" }, { status: "running" }),
    notice(2, "explore_choice_awaited", { status: "waiting" }),
    event(3, "permission_asked", { request: request("r", { toolCallId: "select_1" }) }),
    event(4, "permission_replied", { requestId: "r", reply: "reject", feedback: null, by: "", remembered: null, scope: "session", answers: [] }),
  );
  assert.deepEqual([waiting.session.status, waiting.trace.status, waiting.pending], ["waiting", "waiting", []]);
  const made = apply(waiting, notice(5, "explore_choice_made", { status: "running" }));
  assert.equal(made.session.status, "running");
  const ended = event(6, "turn_ended", { promptId: "p", stopReason: "end_turn", detail: "", errorKind: "" }, { status: "completed" });
  assert.equal(apply(made, ended).session.status, "idle");
});

test("the scoreboard has a row for each fact and says what is not known", () => {
  const check = { command: "pytest", exitCode: 1, passed: 3, failed: 2, durationMs: 10, detail: "2 failed" };
  const rows = board([
    branch("A", { score: score({ newProblems: 0, fixedProblems: 0, test: { ...check, exitCode: 0, failed: 0 } }) }),
    branch("B", { score: score({ newProblems: 2, fixedProblems: 1, test: check }) }),
    branch("C"),
  ]);
  const texts = Object.fromEntries(rows.map(({ name, cells }) => [name, cells.map((cell) => cell.text)]));
  assert.deepEqual(texts, {
    Problems: ["none new", "+2 −1", UNKNOWN],
    Tests: ["3 passed, 0 failed", "3 passed, 2 failed", UNKNOWN],
    Files: ["1 · +2 −1", "1 · +2 −1", UNKNOWN],
    Tokens: ["12.3k", "12.3k", UNKNOWN],
    Cost: ["$0.04", "$0.04", UNKNOWN],
    Time: ["1 min 5 s", "1 min 5 s", UNKNOWN],
  });
  assert.match(rows[1]?.cells[1]?.hover ?? "", /\$ pytest\nexit code 1\n2 failed/);
  assert.deepEqual(board([branch("A")]), [], "nothing is known yet");
  const priced = board([branch("A", { score: score({ unpricedTokens: 5 }) }), branch("B", { score: score({ unpricedTokens: 5, cost: 0 }) })])[4];
  assert.deepEqual(priced?.cells.map((cell) => cell.text), ["≥ $0.04", UNKNOWN]);
  const [problems] = board([branch("A", { score: score() })]);
  assert.equal(problems?.cells[0]?.text, UNKNOWN);
});

test("a test command that failed never looks like a good one", () => {
  const check = { command: "pytest", exitCode: 0, passed: 5, failed: 0, durationMs: 10, detail: "" };
  const cell = (change: object): [string | undefined, string | undefined] => {
    const found = board([branch("A", { score: score({ test: { ...check, ...change } }) })])[1]?.cells[0];
    return [found?.text, found?.tone];
  };
  assert.deepEqual(cell({}), ["5 passed, 0 failed", "good"]);
  assert.deepEqual(cell({ exitCode: 1 }), ["5 passed, 0 failed, exit code 1", "bad"]);
  assert.deepEqual(cell({ exitCode: 0, failed: 2 }), ["5 passed, 2 failed, exit code 0", "bad"]);
  assert.deepEqual(cell({ exitCode: 1, failed: 2 }), ["5 passed, 2 failed", "bad"]);
  assert.deepEqual(cell({ exitCode: 127, passed: null, failed: null }), ["exit code 127", "bad"]);
  assert.deepEqual(cell({ passed: null, failed: null }), ["ok", "good"]);
  assert.deepEqual(cell({ exitCode: null, durationMs: 600_000, detail: "it did not end within 600 s" }), ["timed out after 10 min 0 s", "bad"]);
  assert.deepEqual(cell({ exitCode: null, durationMs: 0, detail: "no shell was found\non PATH" }), ["not run: no shell was found on PATH", ""]);
  assert.equal(board([branch("A", { score: score({ test: null }) })])[1]?.cells[0]?.text, "not run");
});

test("times are read at a glance", () => {
  assert.deepEqual([400, 12_000, 185_000].map(duration), ["400 ms", "12 s", "3 min 5 s"]);
});

test("who asks is named in titles of questions and of tabs", () => {
  assert.equal(askerName("A"), "Branch A");
  assert.equal(askerName("A.s1"), "Branch A, sub-agent s1");
  assert.equal(askerName("s2"), "Sub-agent s2");
  assert.equal(requestTitle(request("1", { branchId: "A", title: "Edit a.py" })), "Branch A · Edit a.py");
  assert.equal(requestTitle(request("1", { title: "Edit a.py" })), "Edit a.py");
  assert.equal(title(file("src/a.py"), "B"), "Branch B · a.py — proposed by Goalwright");
  assert.equal(title(file("src/a.py")), "a.py — proposed by Goalwright");
});

test("ids of children are those of the daemon", () => {
  assert.equal(childSession("t", "A"), "t:A");
  assert.equal(childSession("t:A", "s1"), "t:A.s1");
});

test("a sub-agent belongs to the call that started it", () => {
  const state = played(
    event(1, "subagent_started", { subagent: subagent("s1") }),
    event(2, "subagent_completed", { subagent: subagent("s1", { status: "completed", summary: "Found.", messageCount: 3, cost: 0.01, usage: { input: 900, output: 100, cacheRead: 0, cacheWrite: 0, unpriced: 0 } }) }),
  );
  const agent = subagentOf(state, call("call-s1", "task"));
  assert.equal(agent?.summary, "Found.");
  assert.equal(agent && agentSpent(agent), "3 messages · 1k tokens · $0.01");
  assert.equal(subagentOf(state, call("other", "task")), undefined);
});

test("the tree has branches below the goal that began them, and their goals below them", () => {
  const tree = { mission: "", currentId: null, goals: [goal("1", { type: "explore_start" }), goal("2", { parentId: "1" })] };
  const { branches } = fromLoad(loaded({ branches: { A: branch("A"), B: branch("B") } }));
  assert.deepEqual(below(tree, branches, null), ["1"]);
  assert.deepEqual(below(tree, branches, "1"), ["@A", "@B", "2"]);
  assert.deepEqual(["3", "@A", "@A/2"].map(placeOf), [{ goal: "3" }, { branch: "A" }, { branch: "A", goal: "2" }]);
  const shown = row({ tree, running: false, branched: new Set(["1"]) }, goal("1"), "1");
  assert.equal(shown.state, "collapsed", "it can be opened");
});

test("a row of a branch says what it is at, and how it came out", () => {
  const at = branch("A", { cumulativeStats: { ...NO_STATS, messageCount: 2, totalTokens: 1_200 }, lastMessage: message("assistant", 1, [text("Reading a.py")]) });
  assert.deepEqual(
    [branchRow(at, false, false), branchRow(at, true, false)].map(({ description, contextValue }) => [description, contextValue]),
    [
      ["2 messages · 1.2k tokens · Reading a.py", "branch.exploring"],
      ["waiting for approval · 2 messages · 1.2k tokens · Reading a.py", "branch.waiting"],
    ],
  );
  const done = branchRow({ ...at, status: "completed", summary: "**Two**\n`files`." }, false, true);
  assert.deepEqual([done.description, done.spoken], ["used · Two files.", "Branch A: Way A, done, used, used · Two files."]);
  const tip = branchTooltip(branch("A", { description: "[x](command:y)", status: "completed", score: score() }), false);
  assert.ok(tip.includes("\\[x\\]\\(command:y\\)"), tip);
  assert.ok(tip.includes("Tokens: 12\\.3k"), tip);
});

test("the last line is the last words, else the last call", () => {
  const line = (...content: Parameters<typeof message>[2]): string => lastLine(message("assistant", 1, content));
  assert.equal(line(text("One.\nTwo.\n")), "Two.");
  assert.equal(line(text("One."), call("c", "read", { file_path: "a.py" })), "read a.py");
  assert.equal(lastLine(null), "");
  assert.equal(lastLine(message("user", 1, [text("Finish with a summary.")])), "");
});

test("addresses of a branch's files are read again as they were written", () => {
  const side = { sessionId: "t:1", branchId: "A", path: "src/ä?#.py", side: "base" } as const;
  assert.deepEqual(sideOf(sideAddress(side)), side);
  assert.equal(sideOf({ scheme: "file", query: "{}" }), undefined);
  assert.equal(sideOf({ scheme: "goalwright-branch", query: "no JSON" }), undefined);
  assert.equal(sideTitle({ path: "src/a.py", branchId: "A" }), "a.py — Branch A");
});

test("the person's own agents are told from the shipped ones", () => {
  const agent = { name: "review", description: "Reads\nonly.", source: "user", file: "", model: "x/y", tools: null, primary: true, serves: true } as const;
  assert.deepEqual(agentRow({ ...agent, tools: null }), { label: "review", description: "yours · x/y", detail: "Reads only." });
});

test("sub-agents at work are watched, and forgotten when they end", async () => {
  const asked: string[] = [];
  let shown: object = {};
  const daemon = {
    request: (_: string, { sessionId }: { sessionId: string }) => {
      asked.push(sessionId);
      return Promise.resolve(loaded({ messages: [message("assistant", 1, [text("Looking.")])], session: session({ trace: { ...session().trace, messageCount: 2 } }) }));
    },
    show: () => undefined,
  } as unknown as ConstructorParameters<typeof Glimpses>[0];
  const glimpses = new Glimpses(daemon, (live) => (shown = live));
  const state = fromLoad(loaded({ subagents: { s1: subagent("s1"), s2: subagent("s2", { status: "completed" }) } }));
  glimpses.follow([state, undefined]);
  glimpses.follow([state, undefined]);
  await new Promise(setImmediate);
  assert.deepEqual(asked, ["s1:s1"]);
  assert.deepEqual(shown, { "s1:s1": { line: "Looking.", messages: 2 } });
  const added = event(9, "message_added", { message: message("assistant", 2, [call("c", "read", { file_path: "a.py" })]), affectedGoals: [] });
  glimpses.receive({ sessionId: "s1:s1", view: null, ...added });
  assert.deepEqual(shown, { "s1:s1": { line: "read a.py", messages: 3 } });
  glimpses.follow([fromLoad(loaded())]);
  shown = {};
  glimpses.receive({ sessionId: "s1:s1", view: null, ...added });
  assert.deepEqual(shown, {});
});

test("what a sub-agent says while it is loaded is not lost", async () => {
  const { daemon } = make();
  let shown: object = {};
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["session/load"] = () => new Promise((resolve) => (answer = resolve));
  const glimpses = new Glimpses(daemon as unknown as Daemon, (live) => (shown = live));
  glimpses.follow([fromLoad(loaded({ subagents: { s1: subagent("s1") } }))]);
  for (const id of [4, 5]) glimpses.receive({ sessionId: "s1:s1", view: null, ...event(id, "message_added", { message: message("assistant", id, [text(`Said ${id}.`)]), affectedGoals: [] }) });
  answer(loaded({ lastEventId: 4, messages: [message("assistant", 4, [text("Said 4.")])], session: session({ trace: { ...session().trace, messageCount: 4 } }) }));
  await settled();
  assert.deepEqual(shown, { "s1:s1": { line: "Said 5.", messages: 5 } });
});

test("an open record and lines of sub-agents go on after a reconnect", async () => {
  const { daemon, sessions } = make();
  const followed = new Set<unknown>();
  daemon.answers["session/load"] = ({ sessionId }) => {
    followed.add(sessionId);
    return loaded({ session: named(String(sessionId)), subagents: sessionId === "s1" ? { s1: subagent("s1") } : {} });
  };
  const records = new Records(daemon as unknown as Daemon, sessions);
  const explorations = new Explorations(daemon as unknown as Daemon, sessions, records);
  await sessions.open("s1");
  await records.open("s1:A");
  followed.clear();
  daemon.states.fire({ phase: "connected" });
  await settled();
  assert.deepEqual([...followed].sort(), ["s1", "s1:A", "s1:s1"]);
  explorations.dispose();
  records.dispose();
});

test("a connect does not replace a record that the user has chosen", async () => {
  const { daemon, sessions } = make();
  const records = new Records(daemon as unknown as Daemon, sessions);
  await records.open("s1:A");
  const answers: (() => void)[] = [];
  daemon.answers["session/load"] = ({ sessionId }) => new Promise((resolve) => answers.push(() => resolve(loaded({ session: named(String(sessionId)) }))));
  const opening = records.open("s1:B");
  daemon.states.fire({ phase: "connected" });
  for (const answer of answers) answer();
  await opening;
  await settled();
  assert.equal(records.sessionId, "s1:B");
  records.dispose();
});

test("the files of one branch do not hide the problem of another", async () => {
  const { daemon, sessions } = make();
  const records = new Records(daemon as unknown as Daemon, sessions);
  const explorations = new Explorations(daemon as unknown as Daemon, sessions, records);
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["explore/files"] = ({ branchId }) => (branchId === "A" ? new Promise((resolve) => (answer = resolve)) : Promise.reject(new Error("gone")));
  const listing = explorations.list("s1", "A");
  await explorations.list("s1", "B");
  answer({ files: [] });
  await listing;
  assert.deepEqual(explorations.shown.problems, { "s1:B": "gone" });
  explorations.dispose();
  records.dispose();
});

test("a record that streams has each piece once when it is opened again", async () => {
  const { daemon, sessions } = make();
  const records = new Records(daemon as unknown as Daemon, sessions);
  const say = (): void => daemon.deltas.fire({ sessionId: "s1:A", delta: { kind: "text", messageId: "m9", index: 0, text: "one ", toolCallId: null, name: null } });
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["session/load"] = () => new Promise((resolve) => (answer = resolve));
  const opening = records.open("s1:A");
  say();
  answer(loaded({ session: named("s1:A"), streaming: { messageId: "m9", parts: [text("one ")] } }));
  await opening;
  say();
  assert.deepEqual(records.state?.streaming?.parts, [text("one one ")]);
  records.dispose();
});
