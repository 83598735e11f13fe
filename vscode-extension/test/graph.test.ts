import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { after, beforeEach, test } from "node:test";
import type * as vscode from "vscode";
import { applyEvent } from "../../daemon/api/page/session.js";
import type { Branch, Frame, SessionView } from "../../daemon/api/page/shapes";
import { frameOf, type FromGraph, GraphPanel, graphView, openTrace, pageOf } from "../src/dag/panel";
import type { BranchMeta } from "../src/protocol.gen";
import type { Change, SessionController } from "../src/session/controller";
import { apply, fromLoad, type SessionState, type Update } from "../src/session/state";
import { event, goal, loaded, message, text, UNPAID, view } from "./fakes/protocol";
import { answers as chosen, env, EventEmitter, type FakePanel, opened, panels, ran, shown as told, UIKind } from "./fakes/vscode";

/** An extension's folder with the files of the page. */
const EXTENSION = mkdtempSync(path.join(os.tmpdir(), "gw-ext-"));
mkdirSync(path.join(EXTENSION, "dist"));
for (const name of ["graph.css", "graph.js"]) writeFileSync(path.join(EXTENSION, "dist", name), `/* ${name} */`);
after(() => rmSync(EXTENSION, { recursive: true }));

const STATS = { messageCount: 1, totalTokens: 10, totalCost: 0.5, unpricedTokens: 0, durationMs: 1500, preview: "read" };

function branch(id: string): BranchMeta {
  return { id, exploreStartId: "2", description: `Way ${id}`, status: "exploring", summary: null, cumulativeStats: { ...STATS, messageCount: 0 }, goalCount: 0, lastMessage: null, score: null, node: "", removed: false };
}

/** What happens in a session, of every kind that a graph shows. */
const STORY: Update[] = [
  { ...event(1, "turn_started", { promptId: "p", text: "a long prompt" } as never), view: view({ status: "running" }) },
  event(2, "goal_added", { goal: goal("1"), parentId: null, index: null, by: "" }),
  event(3, "goal_added", { goal: goal("2", { type: "explore_start", branchIds: ["A"] }), parentId: null, index: null, by: "" }),
  event(4, "goal_added", { goal: goal("3", { parentId: "1" }), parentId: "1", index: 1, by: "" }),
  event(5, "goal_updated", { goalId: "1", updates: { status: "in_progress", branch_ids: null }, affectedGoals: [], currentId: "1", by: "" }),
  { ...event(6, "message_added", {
    message: message("assistant", 1, [text("a long text")], { goalId: "3", tokens: 10, cost: 0.5, usage: { input: 4, output: 6, cacheRead: 0, cacheWrite: 0, unpriced: 0 } }),
    affectedGoals: [
      { goalId: "3", status: null, summary: null, selfStats: STATS, cumulativeStats: STATS },
      { goalId: "1", status: null, summary: null, selfStats: null, cumulativeStats: STATS },
    ],
  }), view: view({ totalMessages: 1, totalTokens: 10, totalCost: 0.5 }) },
  event(7, "branch_started", { exploreStartId: "2", branch: branch("A") }),
  event(8, "branch_goal_added", { branchId: "A", goal: goal("1"), parentId: null, index: null, goalNumbers: { 1: "1" } }),
  { ...event(9, "branch_message_added", { branchId: "A", message: message("assistant", 1, [text("secretly long")], { branchId: "A", goalId: "1", tokens: 7, cost: 0.25 }), affectedGoals: [{ goalId: "1", status: null, summary: null, selfStats: STATS, cumulativeStats: STATS }] }), view: view({ totalCost: 0.75, branches: { A: STATS } }) },
  event(10, "branch_goal_updated", { branchId: "A", goalId: "1", updates: { status: "completed", summary: "done" }, affectedGoals: [], currentId: null, goalNumbers: {} }),
  event(11, "branch_completed", { branchId: "A", status: "completed", summary: "it works", cumulativeStats: STATS, lastMessage: null, score: null } as never),
  event(12, "goal_moved", { goalId: "2", parentId: null, beforeId: "1", affectedGoals: [], by: "" }),
  event(13, "goal_updated", { goalId: "1", updates: { status: "abandoned", summary: "no use" }, affectedGoals: [], currentId: null, by: "" }),
  event(14, "session_updated", { ...UNPAID, updates: { title: "A title", mission: "The mission" } }),
  event(15, "branch_removed", { branchId: "A", by: "" }),
  event(16, "goal_removed", { goalId: "3", currentId: "1" } as never),
  { ...event(17, "turn_ended", { promptId: "p", stopReason: "canceled", detail: "" } as never), view: view({ status: "canceled" }) },
];

/** As the host posts it: through JSON. */
const sent = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

test("events as frames make of the graph what the session's own state says, wherever they begin", () => {
  const whole = STORY.reduce(apply, fromLoad(loaded()));
  for (let cut = 0; cut <= STORY.length; cut++) {
    const begun = sent(graphView(STORY.slice(0, cut).reduce(apply, fromLoad(loaded()))));
    const frames = STORY.slice(cut).flatMap((update) => ("event" in update ? (frameOf(update) ?? []) : []));
    assert.deepEqual(sent(frames).reduce(applyEvent, begun), sent(graphView(whole)), `after ${cut}`);
  }
  assert.deepEqual([whole.trace.title, whole.trace.status, whole.trace.totalMessages], ["A title", "canceled", 1]);
});

test("what changes nothing in the graph is not told", () => {
  assert.equal(frameOf(event(1, "file_changed", {} as never)), undefined);
});

test("a session at rest has the status and the totals that the daemon tells when it is loaded", () => {
  const { trace } = fromLoad(loaded({ view: view({ status: "canceled", totalMessages: 4, totalTokens: 90, totalCost: 1 }) }));
  assert.deepEqual([trace.status, trace.totalMessages, trace.totalTokens, trace.totalCost], ["canceled", 4, 90, 1]);
});

class FakeSessions {
  readonly changed = new EventEmitter<Change>();
  readonly onDidChange = this.changed.event;
  state: SessionState | undefined;

  get sessionId(): string | undefined {
    return this.state?.session.trace.traceId;
  }

  load(): void {
    this.state = fromLoad(loaded({ goalTree: { mission: "m", currentId: null, goals: [goal("1")] } }));
    this.changed.fire({ kind: "reset" });
  }

  tell(update: Update): void {
    if (this.state) this.state = apply(this.state, update);
    this.changed.fire({ kind: "update", update });
  }
}

let sessions: FakeSessions;
let asked: [string, unknown][];
let revealed: unknown[][];
let answers: Record<string, unknown>;
let graph: GraphPanel;

beforeEach(() => {
  sessions = new FakeSessions();
  asked = [];
  revealed = [];
  answers = {};
  panels.length = 0;
  opened.length = 0;
  ran.length = 0;
  const daemon = {
    state: { phase: "connected" },
    connect: () => Promise.resolve(),
    request: (method: string, params: unknown) => {
      asked.push([method, params]);
      return method in answers ? Promise.resolve(answers[method]) : Promise.reject(new Error("There is no such branch."));
    },
  };
  graph = new GraphPanel({ path: EXTENSION } as vscode.Uri, {
    daemon: daemon as never,
    sessions: sessions as unknown as SessionController,
    goals: { reveal: async (...place: unknown[]) => void revealed.push(place) } as never,
    log: { error() {}, warn() {} } as never,
  });
});

function shown(): FakePanel {
  graph.show();
  const panel = panels.at(-1);
  assert.ok(panel);
  return panel;
}

const say = (panel: FakePanel, message: FromGraph): void => panel.said.fire(message);

/** Until the page got something of this kind. */
async function posted(panel: FakePanel, type: string): Promise<Record<string, unknown>> {
  for (let tries = 0; tries < 2_000; tries++) {
    const found = panel.posted.find((one) => one.type === type);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`the page got no ${type}`);
}

test("the page gets the whole when it is ready, and then frames; nothing before", async () => {
  sessions.load();
  const panel = shown();
  sessions.tell(event(5, "goal_added", { goal: goal("2"), parentId: null, index: null, by: "" }));
  assert.deepEqual(panel.posted, []);
  say(panel, { type: "ready" });
  const { view } = (await posted(panel, "all")) as { view: SessionView };
  assert.deepEqual(view.goalTree.goals.map((one) => one.id), ["1", "2"]);
  sessions.tell(event(6, "goal_added", { goal: goal("3"), parentId: null, index: null, by: "" }));
  const { frames } = (await posted(panel, "frames")) as { frames: Frame[] };
  assert.deepEqual(frames.map((frame) => frame.event), ["goal_added"]);
});

test("there is one panel: the command brings it forward, and it can be closed and opened anew", () => {
  const panel = shown();
  graph.show();
  assert.equal(panels.length, 1);
  assert.equal(panel.revealed, 1);
  panel.dispose();
  graph.show();
  assert.equal(panels.length, 2);
});

test("a branch is asked for by its session, and a failure closes it again", async () => {
  sessions.load();
  const panel = shown();
  say(panel, { type: "ready" });
  answers["goalwright/session/load"] = loaded({ goalTree: { mission: "", currentId: null, goals: [goal("1", { parentId: null })] } });
  say(panel, { type: "ask", request: 1, what: "branch", params: { sessionId: "s1", branchId: "A" } });
  const found = (await posted(panel, "answer")) as { request: number; answer: Branch };
  assert.deepEqual([found.request, found.answer.goalTree?.goals.length, found.answer.goalCount], [1, 1, 1]);
  assert.deepEqual(asked, [["goalwright/session/load", { sessionId: "s1:A", messages: 0 }]]);
  answers = {};
  say(panel, { type: "ask", request: 2, what: "branch", params: { sessionId: "s1", branchId: "B" } });
  assert.equal((await posted(panel, "failed"))["request"], 2);
  assert.deepEqual(told, ["Goalwright: There is no such branch."]);
});

test("messages are asked for by goal and branch, and come as the trace API has them", async () => {
  sessions.load();
  const panel = shown();
  say(panel, { type: "ready" });
  answers["goalwright/trace/messages"] = { messages: [message("assistant", 4, [text("hello")])], hasEarlier: true };
  const params = { sessionId: "s1", goalId: "1", branchId: "A", descendants: true, withoutGoal: false, inherited: false, before: 9, limit: 50 };
  say(panel, { type: "ask", request: 3, what: "messages", params });
  const found = (await posted(panel, "answer")) as { request: number; answer: { messages: { messageId: string }[]; hasEarlier: boolean } };
  assert.deepEqual([found.request, found.answer.messages[0]?.messageId, found.answer.hasEarlier], [3, "m4", true]);
  assert.deepEqual(asked, [["goalwright/trace/messages", { sessionId: "s1", goalId: "1", branchId: "A", descendants: true, withoutGoal: false, inherited: false, before: 9, limit: 50 }]]);
  answers = {};
  say(panel, { type: "ask", request: 4, what: "messages", params });
  const failed = await posted(panel, "failed");
  assert.equal(failed["request"], 4);
  assert.match(String(failed["text"]), /no such branch/);
});

test("what the page has not heard yet comes before an answer", async () => {
  sessions.load();
  const panel = shown();
  say(panel, { type: "ready" });
  answers["goalwright/session/load"] = loaded();
  sessions.tell(event(6, "goal_added", { goal: goal("3"), parentId: null, index: null, by: "" }));
  say(panel, { type: "ask", request: 1, what: "branch", params: { sessionId: "s1", branchId: "A" } });
  await posted(panel, "answer");
  assert.deepEqual(panel.posted.map(({ type }) => type), ["all", "frames", "answer"]);
});

test("a node is revealed in the Goals view, and a button opens the chat", async () => {
  const panel = shown();
  say(panel, { type: "reveal", goalId: "1", branchId: "A" });
  say(panel, { type: "focusChat" });
  assert.deepEqual(revealed, [["1", "A"]]);
  assert.deepEqual(ran, [["goalwright.focusChat"]]);
});

test("the browser is sent to the session on display, with the token that the daemon gave", async () => {
  sessions.load();
  const daemon = { request: () => Promise.resolve({ url: "http://127.0.0.1:5", token: "t", page: "http://127.0.0.1:5/?token=t" }) };
  await openTrace({ daemon: daemon as never, sessions: sessions as unknown as SessionController });
  assert.deepEqual(opened, ["http://127.0.0.1:5/?token=t&trace=s1"]);

  // VS Code that itself runs in a browser has no way there but the person's own.
  env.uiKind = UIKind.Web;
  told.length = 0;
  chosen.push("Copy Address");
  await openTrace({ daemon: daemon as never, sessions: sessions as unknown as SessionController });
  env.uiKind = UIKind.Desktop;
  assert.equal(opened.length, 1);
  assert.equal(env.clipboard.text, "http://127.0.0.1:5/?token=t&trace=s1");
  assert.match(told.join(), /127\.0\.0\.1:5/);
  assert.ok(!told.join().includes("token"));
  assert.equal(pageOf("http://127.0.0.1:5/?token=t", undefined), "http://127.0.0.1:5/?token=t");
});

test("an answer for a page that was closed is not given to the next one", async () => {
  const first = shown();
  say(first, { type: "ready" });
  let answer: (value: unknown) => void = () => undefined;
  answers["goalwright/trace/messages"] = new Promise((resolve) => (answer = resolve));
  say(first, { type: "ask", request: 1, what: "messages", params: { sessionId: "s1" } });
  first.dispose();
  const second = shown();
  say(second, { type: "ready" });
  answer({ messages: [], hasEarlier: false });
  await new Promise(setImmediate);
  assert.deepEqual(second.posted.map(({ type }) => type), ["all"]);
});
