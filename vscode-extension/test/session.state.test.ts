import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, firstSequence, fromLoad, prepend, trim, type SessionState, type Update } from "../src/session/state";
import { toolView, uncounted } from "../src/session/tools";
import type { Delta, Event } from "../src/protocol.gen";
import { call, event, goal, loaded, message, NO_STATS, request, result, text, UNPAID } from "./fakes/protocol";

const delta = (over: Partial<Delta>): Update => ({
  delta: { traceId: "s1", kind: "text", messageId: "m2", index: 0, toolCallId: null, name: null, text: "", ...over },
});
const play = (updates: Update[], from: SessionState = fromLoad(loaded())): SessionState => updates.reduce(apply, from);
const keys = (state: SessionState): string[] => state.items.map((item) => item.key);

test("text grows with its deltas and becomes the stored message", () => {
  const growing = play([delta({ text: "Hel" }), delta({ text: "lo" })]);
  assert.deepEqual(growing.streaming?.parts, [{ type: "text", text: "Hello" }]);
  const done = play([event(1, "message_added", { message: message("assistant", 2, [text("Hello!")]), affectedGoals: [] })], growing);
  assert.equal(done.streaming, null);
  assert.deepEqual(keys(done), ["m2"]);
});

test("a late delta changes neither a complete part nor a stored message", () => {
  const part = play([event(1, "message_part_added", { messageId: "m2", role: "assistant", goalId: null, index: 0, part: text("all") })]);
  assert.deepEqual(play([delta({ text: " late" })], part).streaming?.parts[0], text("all"));
  const stored = play([event(2, "message_added", { message: message("assistant", 2, [text("all")]), affectedGoals: [] })], part);
  assert.equal(play([delta({ text: " late" })], stored).streaming, null);
});

test("an update that a load has told already is skipped", () => {
  const state = fromLoad(loaded({ lastEventId: 10, messages: [message("user", 1, [text("hi")])] }));
  const again = event(10, "message_added", { message: message("user", 1, [text("hi")]), affectedGoals: [] });
  assert.equal(apply(state, again), state);
});

test("a discarded message takes its parts along", () => {
  const state = play([delta({ text: "half" }), event(1, "message_discarded", { messageId: "m2", reason: "overloaded" })]);
  assert.equal(state.streaming, null);
});

test("a tool call goes from pending to done", () => {
  const part = call("c1", "edit", { file_path: "a.py" });
  const state = (updates: Update[], from?: SessionState): SessionState => play(updates, from);
  const pending = state([event(1, "message_added", { message: message("assistant", 2, [part]), affectedGoals: [] })]);
  assert.equal(toolView(pending, part).state, "pending");
  const running = state([event(2, "tool_started", { toolCallId: "c1", name: "edit" })], pending);
  assert.equal(toolView(running, part).state, "running");
  const asked = state([event(3, "permission_asked", { request: request("r1", { toolCallId: "c1" }) }, { status: "waiting" })], running);
  assert.equal(toolView(asked, part).state, "waiting for approval");
  assert.equal(asked.session.status, "waiting");
  const allowed = state([event(4, "permission_replied", { requestId: "r1", reply: "once", feedback: null, by: "VS Code", remembered: null, scope: "session", answers: [] }, { status: "running" })], asked);
  assert.equal(toolView(allowed, part).state, "running");
  assert.equal(allowed.session.status, "running");
  const answer = result("c1", { title: "a.py +1 -1", metadata: { path: "a.py", added: 1, removed: 1, diff: "d", verdict: "clean" } });
  const done = state([event(5, "message_added", { message: message("tool", 3, [answer]), affectedGoals: [] })], allowed);
  const view = toolView(done, part);
  assert.deepEqual([view.state, view.added, view.removed, view.path, view.verdict], ["done", 1, 1, "a.py", "clean"]);
  assert.deepEqual(keys(done), ["m2"], "a tool message is no line of its own");
});

test("a question that was skipped is no rejection, live and after a reload", () => {
  const part = call("c1", "question", { questions: ["Which?"] });
  const asks = message("assistant", 2, [part]);
  const answer = message("tool", 3, [result("c1", { name: "question", content: "The user skipped the question.", title: "skipped", metadata: { answers: [] } })]);
  const live = play([
    event(1, "message_added", { message: asks, affectedGoals: [] }),
    event(2, "permission_asked", { request: request("r1", { toolCallId: "c1", permission: "question" }) }),
    event(3, "permission_replied", { requestId: "r1", reply: "reject", feedback: null, by: "VS Code", remembered: null, scope: "session", answers: [] }),
    event(4, "message_added", { message: answer, affectedGoals: [] }),
  ]);
  for (const state of [live, fromLoad(loaded({ messages: [asks, answer] }))]) {
    const view = toolView(state, part);
    assert.deepEqual([view.state, view.title, view.why], ["done", "skipped", ""]);
  }
});

test("counts at the end of a title are left to the card, also of an altered change", () => {
  const titles = ["rates.py +1 -1", "rates.py +1 −1", "Edit rates.py (+1 -4)", "rates.py +1 -1 (altered by you)", "rates.py (2).txt +10 -0", "C++ +1"];
  assert.deepEqual(titles.map(uncounted), ["rates.py", "rates.py", "Edit rates.py", "rates.py", "rates.py (2).txt", "C++ +1"]);
});

test("what the person undid is a line of its own, and an altered change says so", () => {
  const part = call("c1", "edit", { file_path: "a.py" });
  const files = [{ path: "a.py", kind: "update" as const, added: 1, removed: 2 }];
  const state = play([
    event(1, "message_added", { message: message("assistant", 2, [part]), affectedGoals: [] }),
    event(2, "message_added", { message: message("tool", 3, [result("c1", { metadata: { altered: true } })]), affectedGoals: [] }),
    event(3, "files_restored", { action: "undo", files, target: "edit of a.py", changes: ["c1"], by: "VS Code" }),
  ]);
  const last = state.items.at(-1);
  assert.equal(last?.kind === "notice" && last.text, "You undid edit of a.py (+1 −2)");
  assert.equal(toolView(state, part).altered, true);
});

test("a rejected call says by whom, one that was stopped or broke says so, and none shows words for the model", () => {
  const part = call("c1", "edit", { file_path: "a.py" });
  const of = (metadata: object, content = "for the model"): ReturnType<typeof toolView> => {
    const answer = result("c1", { name: "edit", isError: true, title: "rejected", content, metadata: { ...metadata } });
    return toolView(fromLoad(loaded({ messages: [message("tool", 1, [answer])] })), part);
  };
  const rejected = of({ denied: true, by: "VS Code", title: "Edit a.py (+1 -4)", diff: "@@", added: 1, removed: 4 });
  assert.deepEqual([rejected.state, rejected.title, rejected.diff, rejected.removed, rejected.why], ["denied", "Edit a.py (+1 -4)", "@@", 4, "You rejected this."]);
  assert.equal(of({ denied: true, by: "Neovim" }).why, "You rejected this in Neovim.");
  assert.equal(of({ denied: true, by: "VS Code", feedback: "use b" }).why, "You rejected this: “use b”");
  assert.equal(of({ denied: true, rule: true, mode: "plan" }).why, "Not allowed in the mode Read only.");
  assert.equal(of({ denied: true, rule: true, by: "timeout" }).why, "Nobody answered in time, so this was rejected.");
  assert.equal(of({ denied: true, after_rejection: true }).why, "Not run: you rejected the call before it.");
  assert.equal(of({ not_run: true, canceled: true }).why, "Stopped before you approved it: nothing was done.");
  assert.deepEqual([of({ not_run: true }).state, of({ canceled: true }).state, of({}).state], ["canceled", "canceled", "failed"]);
  assert.equal(of({}).title, "a.py", "the head says what was wanted");
  assert.equal(of({ denied: true, by: "" }).why, "You rejected this.");
});

test("a command that failed is no success, and says how it ended and how long it took", () => {
  const part = call("c1", "bash", { command: "npm test" });
  const of = (metadata: object, content: string, isError = false): ReturnType<typeof toolView> => {
    const told = { ...message("tool", 1, [result("c1", { name: "bash", isError, content, metadata: { ...metadata } })]), durationMs: 4200 };
    return toolView(fromLoad(loaded({ messages: [told] })), part);
  };
  const failed = of({ exit_code: 3, output_lines: 2 }, "Exit code: 3\none\ntwo\nA note for the model");
  assert.deepEqual([failed.state, failed.ended, failed.output, failed.told], ["failed", ["exit 3", "4.2 s"], "one\ntwo", failed.result?.content]);
  const good = of({ exit_code: 0 }, "Exit code: 0\n(no output)");
  assert.deepEqual([good.state, good.ended, good.output, good.told], ["done", ["4.2 s"], "", ""]);
  const stopped = of({ exit_code: -15, canceled: true, output_lines: 1, colored: "\x1b[32mtick" }, "Stopped by the user after 5 s\ntick", true);
  assert.deepEqual([stopped.state, stopped.ended, stopped.output], ["canceled", ["stopped", "4.2 s"], "\x1b[32mtick"]);
});

test("arguments show while their JSON is still being received", () => {
  const state = play([
    delta({ kind: "tool_input", index: 1, toolCallId: "c9", name: "edit", text: '{"file_path": "src/a.py", "old' }),
    delta({ kind: "tool_input", index: 1, toolCallId: "c9", text: '_string": "x' }),
  ]);
  const part = state.streaming?.parts[1];
  assert.ok(part?.type === "tool_call");
  assert.equal(part.name, "edit");
  assert.equal(toolView(state, part).path, "src/a.py");
});

test("a command's card shows the command; what the model calls it is only the model's words", () => {
  const part = call("c1", "bash", { description: "Run the unit tests", command: "git push --force", reason: "needs the network" });
  const view = toolView(play([event(1, "message_added", { message: message("assistant", 2, [part]), affectedGoals: [] })]), part);
  assert.equal(view.title, "git push --force");
  assert.equal(view.modelSays, "Run the unit tests Reason: needs the network");
});

test("live output is kept to its end, and ends with the result", () => {
  const state = play([delta({ kind: "tool_output", toolCallId: "c1", text: "x".repeat(30_000) + "end" })]);
  assert.equal(state.progress["c1"]?.output.length, 20_000);
  assert.ok(state.progress["c1"]?.output.endsWith("end"));
});

test("snake_case updates of the store reach the camelCase fields", () => {
  const state = play([event(1, "session_updated", { ...UNPAID, updates: { title: "New", total_cost: 2, mission: "Do it" } })]);
  assert.equal(state.session.trace.title, "New");
  assert.equal(state.session.trace.totalCost, 2);
  assert.equal(state.goalTree.mission, "Do it");
});

test("goal events change the tree, the cascade and the focus", () => {
  const stats = { ...NO_STATS, messageCount: 4 };
  const state = play([
    event(1, "goal_added", { goal: goal("1", { status: "in_progress" }), parentId: null, index: null, by: "" }),
    event(2, "goal_added", { goal: goal("2", { parentId: "1" }), parentId: "1", index: null, by: "" }),
    event(3, "goal_added", { goal: goal("3"), parentId: null, index: 0, by: "" }),
    event(4, "goal_updated", {
      goalId: "2",
      updates: { status: "completed", summary: "ok", self_stats: stats },
      affectedGoals: [{ goalId: "1", status: "completed", summary: null, selfStats: null, cumulativeStats: stats }],
      currentId: "3",
      by: "",
    }),
    event(5, "goal_removed", { goalId: "3", currentId: null, by: "", description: "", reason: "" }),
  ]);
  assert.deepEqual(state.goalTree.goals.map((one) => [one.id, one.status]), [["1", "completed"], ["2", "completed"]]);
  assert.equal(state.goalTree.goals[1]?.selfStats.messageCount, 4);
  assert.equal(state.goalTree.goals[0]?.cumulativeStats.messageCount, 4);
  assert.equal(state.goalTree.currentId, null);
});

test("an error is told once, by the message's finish or by the turn's end", () => {
  const finish = { type: "finish", reason: "error", time: "t", detail: "no key" } as const;
  const ended = event(2, "turn_ended", { promptId: "p", stopReason: "error", detail: "no key", errorKind: "" });
  const told = play([event(1, "message_added", { message: message("assistant", 2, [finish]), affectedGoals: [] }), ended]);
  assert.deepEqual(keys(told), ["m2"]);
  const untold = play([event(1, "message_added", { message: message("user", 2, [text("hi")]), affectedGoals: [] }), ended]);
  const [, notice] = untold.items;
  assert.ok(notice?.kind === "notice");
  assert.deepEqual([notice.level, notice.text], ["error", "no key"]);
  assert.equal(untold.errorKind, "");
  const refused = play([event(1, "turn_ended", { promptId: "p", stopReason: "error", detail: "no key", errorKind: "no_key" })]);
  assert.equal(refused.errorKind, "no_key", "the chat offers what helps");
  assert.equal(apply(refused, { event: event(2, "turn_started", { promptId: "q" }).event }).errorKind, "");
  assert.equal(untold.session.status, "idle");
});

test("what was told in earlier turns stands where it was after a load, and in older pages", () => {
  const stopped = (id: number, stopReason: string, detail: string): Event => event(id, "turn_ended", { promptId: "p", stopReason: stopReason as never, detail, errorKind: "" }).event;
  const undone = event(7, "files_restored", { action: "undo", files: [], target: "edit of a.py", changes: [], by: "VS Code" }).event;
  const said = (state: SessionState): string[] => state.items.map((item) => (item.kind === "notice" ? item.text : item.key));
  const state = fromLoad(
    loaded({
      messages: [message("user", 3, [text("hi")]), message("user", 4, [text("again")]), message("assistant", 5, [text("Hello")])],
      notices: [{ after: 3, event: stopped(6, "error", "no key") }, { after: 3, event: undone }, { after: 5, event: stopped(9, "canceled", "Canceled.") }],
      lastEventId: 9,
      hasEarlier: true,
    }),
  );
  assert.deepEqual(said(state), ["m3", "no key", "You undid edit of a.py", "m4", "m5", "Stopped."]);
  assert.equal(apply(state, { event: undone }), state, "what the load has told is not told again");
  const older = prepend(state, { messages: [message("user", 1, [text("first")])], notices: [{ after: 1, event: stopped(2, "error", "offline") }], hasEarlier: false });
  assert.deepEqual(said(older).slice(0, 3), ["m1", "offline", "m3"]);
});

test("a retry shows until the answer goes on", () => {
  const waiting = play([event(1, "model_retry", { attempt: 2, attempts: 8, delayS: 4, reason: "Overloaded." })]);
  assert.equal(waiting.retry?.attempt, 2);
  assert.equal(play([delta({ text: "on" })], waiting).retry, null);
});

test("a load in the middle of a stream goes on with the text so far", () => {
  const state = fromLoad(loaded({ streaming: { messageId: "m2", parts: [text("done"), text("so f")] } }));
  const next = play([delta({ index: 1, text: "ar" }), delta({ index: 0, text: "never" })], state);
  assert.deepEqual(next.streaming?.parts, [text("done"), text("so far")]);
});

test("older messages come in front, each once, with their results", () => {
  const state = fromLoad(loaded({ messages: [message("user", 5, [text("five")])], hasEarlier: true }));
  assert.equal(firstSequence(state), 5);
  const earlier = { messages: [message("assistant", 3, [call("c", "ls")]), message("tool", 4, [result("c")]), message("user", 5, [text("five")])], hasEarlier: false, notices: [] };
  const all = prepend(state, earlier);
  assert.deepEqual(keys(all), ["m3", "m5"]);
  assert.ok(all.results["c"]);
  assert.equal(all.hasEarlier, false);
});

test("trimming keeps the newest lines and only their results", () => {
  const messages = Array.from({ length: 20 }, (_, n) => message("assistant", n, [call(`c${n}`, "ls")]));
  const tools = Array.from({ length: 20 }, (_, n) => message("tool", 100 + n, [result(`c${n}`)]));
  const full = fromLoad(loaded({ messages: [...messages, ...tools] }));
  assert.equal(trim(full, 20, 5), full);
  const small = trim(full, 19, 5);
  assert.deepEqual(keys(small), ["m15", "m16", "m17", "m18", "m19"]);
  assert.deepEqual(Object.keys(small.results), ["c15", "c16", "c17", "c18", "c19"]);
  assert.equal(small.hasEarlier, true);
});

test("an event of a newer daemon changes nothing but the place in the log", () => {
  const state = play([event(7, "from_the_future" as "notice", {} as never)]);
  assert.equal(state.lastEventId, 7);
  assert.deepEqual(state.items, []);
});

test("what was allowed for longer, and what was taken back, is a line of its own", () => {
  const replied = { requestId: "r1", feedback: null, by: "VS Code", scope: "session" as const, answers: [] };
  const asked = play([event(1, "permission_asked", { request: request("r1") })]);
  const lines = (state: SessionState): string[] => state.items.map((item) => (item.kind === "notice" ? item.text : ""));
  const edited = play([event(2, "permission_replied", { ...replied, reply: "always", remembered: [{ permission: "edit", pattern: "*.py" }], scope: "user" })], asked);
  assert.deepEqual(lines(edited), ["Always allowed everywhere: edit: *.py"]);
  assert.deepEqual(lines(play([event(2, "permission_replied", { ...replied, reply: "once", remembered: null })], asked)), []);
  for (const nothing of [null, []]) assert.deepEqual(lines(play([event(2, "permission_replied", { ...replied, reply: "always", remembered: nothing })], asked)), [], "as for a budget");
  const forgotten = play([event(3, "permission_forgotten", { grants: [{ permission: "edit", pattern: "*.py" }], by: "VS Code" })], edited);
  assert.equal(lines(forgotten).at(-1), "No longer allowed: edit: *.py");
});

test("the mode changes with the session's", () => {
  const state = play([event(1, "session_updated", { ...UNPAID, updates: { mode: "plan" } })]);
  assert.equal(state.session.mode, "plan");
  assert.equal(play([event(2, "session_updated", { ...UNPAID, updates: { title: "x" } })], state).session.mode, "plan");
});

test("what runs has its output after a load, and more of it is added", () => {
  const part = call("c1", "bash", { command: "make" });
  const state = fromLoad(loaded({ messages: [message("assistant", 1, [part])], underWay: [{ toolCallId: "c1", output: "one\n" }] }));
  assert.deepEqual([toolView(state, part).state, toolView(state, part).output], ["running", "one\n"]);
  const more = play([delta({ kind: "tool_output", toolCallId: "c1", text: "two\n" })], state);
  assert.equal(toolView(more, part).output, "one\ntwo\n");
});

test("a background job runs until its end is told, also before its result is", () => {
  const part = call("c1", "bash", { command: "serve", background: true });
  const answer = message("tool", 2, [result("c1", { name: "bash", title: "job_1: serve", metadata: { command: "serve", job_id: "job_1" } })]);
  const ends = (exitCode: number | null, eventId = 9): Update => event(eventId, "notice", { level: "info", text: "The job ended.", code: "job_ended", about: "job_1", exitCode });
  const running = play([delta({ kind: "tool_output", toolCallId: "c1", text: "listening\n" })], fromLoad(loaded({ messages: [message("assistant", 1, [part]), answer], underWay: [{ toolCallId: "c1", output: "" }] })));
  const view = toolView(running, part);
  assert.deepEqual([view.state, view.output, view.job], ["running", "listening\n", { id: "job_1", sessionId: "s1", running: true }]);
  for (const [code, state, words] of [[0, "done", "ended"], [3, "failed", "exit 3"], [-15, "canceled", "stopped"], [-9, "canceled", "signal 9"], [null, "canceled", "ended"]] as const) {
    const ended = toolView(play([ends(code)], running), part);
    assert.deepEqual([ended.state, ended.ended, ended.job?.running], [state, [words], false]);
  }
  const early = play([ends(0, 1), event(2, "message_added", { message: answer, affectedGoals: [] })], fromLoad(loaded({ messages: [message("assistant", 1, [part])] })));
  assert.equal(toolView(early, part).state, "done");
  const gone = toolView(fromLoad(loaded({ messages: [message("assistant", 1, [part]), answer] })), part);
  assert.deepEqual([gone.state, gone.ended, gone.job?.running], ["canceled", ["ended"], false], "the daemon does not have it");
});
