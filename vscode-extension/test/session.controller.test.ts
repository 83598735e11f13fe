import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { connectionLost, Problem } from "../src/daemon/problems";
import { ErrorCode } from "../src/protocol.gen";
import { shown } from "./fakes/vscode";
import { event, loaded, message, request, text } from "./fakes/protocol";
import { type FakeDaemon, make, named, settled } from "./fakes/session";

beforeEach(() => shown.splice(0));

test("the first prompt makes the session, loads it and is remembered", async () => {
  const { daemon, memory, sessions } = make();
  await sessions.prompt("hello");
  assert.deepEqual(daemon.asked.map(([name]) => name), ["session/new", "session/load", "session/prompt"]);
  assert.equal(sessions.sessionId, "s1");
  assert.equal(memory.get("goalwright.session"), "s1");
  assert.deepEqual(sessions.outbox, []);
});

test("two prompts in quick succession begin one session", async () => {
  const { daemon, sessions } = make();
  await Promise.all([sessions.prompt("one"), sessions.prompt("two")]);
  assert.deepEqual(daemon.asked.map(([name]) => name), ["session/new", "session/load", "session/prompt", "session/prompt"]);
  assert.deepEqual(sessions.outbox, []);
});

test("a prompt of an empty chat goes to the session that it begins, whatever is opened meanwhile", async () => {
  for (const at of ["session/new", "session/load", "prompt"]) {
    const { daemon, sessions } = make();
    await sessions.startNew();
    const { place } = sessions;
    const before = daemon.answers[at];
    daemon.answers[at] = async (params) => {
      if (params["sessionId"] !== "s2") await sessions.open("s2");
      return before?.(params);
    };
    if (at === "prompt") await sessions.open("s2");
    await Promise.all([sessions.prompt("one", [], "queue", place), sessions.prompt("two", [], "queue", place)]);
    const sent = daemon.asked.filter(([name]) => name === "session/prompt").map(([, params]) => [params["sessionId"], params["text"]]);
    assert.deepEqual([at, sent], [at, [["s1", "one"], ["s1", "two"]]]);
    assert.equal(daemon.asked.filter(([name]) => name === "session/new").length, 1);
  }
});

test("a prompt of an empty chat has the chat's agent, also when another chat is begun meanwhile", async () => {
  const { daemon, sessions } = make();
  await sessions.startNew("plan");
  const sending = sessions.prompt("only look at it");
  await sessions.startNew();
  await sending;
  assert.deepEqual(daemon.asked.flatMap(([name, params]) => (name === "session/new" ? [params] : [])), [{ agent: "plan" }]);
  assert.equal(sessions.agentName, undefined);
});

test("a prompt of an empty chat is not taken for one of the session that was opened meanwhile", async () => {
  const { daemon, sessions } = make();
  const given: string[] = [];
  sessions.onUndelivered(({ text: back }) => given.push(back));
  daemon.answers["session/load"] = () => loaded({ session: named("s2"), messages: [message("user", 1, [text("go on")])] });
  daemon.answers["session/new"] = async () => {
    await sessions.open("s2");
    throw new Error("The disk is full.");
  };
  await sessions.prompt("go on");
  assert.deepEqual(given, ["go on"]);
});

test("the session of an empty chat is shown when another one could not be opened after all", async () => {
  const { daemon, sessions } = make();
  const load = daemon.answers["session/load"];
  daemon.answers["session/load"] = async (params) => {
    if (params["sessionId"] === "s2") throw new Error("It cannot be read.");
    await sessions.open("s2").catch(() => undefined);
    return load?.(params);
  };
  await sessions.prompt("one");
  assert.equal(sessions.sessionId, undefined);
  if (load) daemon.answers["session/load"] = load;
  await sessions.prompt("two");
  assert.equal(sessions.sessionId, "s1");
  assert.equal(daemon.asked.filter(([name]) => name === "session/new").length, 1);
});

test("a session that is made does not replace one opened meanwhile", async () => {
  const { daemon, sessions } = make();
  daemon.answers["session/new"] = async () => {
    await sessions.open("s2");
    return { session: named("s1") };
  };
  await sessions.prompt("one");
  assert.equal(sessions.sessionId, "s2");
  daemon.answers["session/new"] = async () => {
    await sessions.startNew("plan");
    return { session: named("s1") };
  };
  await sessions.startNew();
  await sessions.prompt("two");
  assert.deepEqual([sessions.sessionId, sessions.agentName], [undefined, "plan"]);
});

test("a prompt that was written before the last session came is shown", async () => {
  const { daemon, memory, sessions } = make();
  await memory.update("goalwright.session", "s0");
  daemon.connect = async () => {
    daemon.connect = () => Promise.resolve();
    daemon.states.fire({ phase: "connected" });
    await settled();
  };
  await sessions.prompt("one");
  assert.equal(sessions.sessionId, "s1");
});

test("a prompt waits for the end of the running turn, or for its next step when it steers", async () => {
  const { daemon, sessions } = make();
  await sessions.prompt("one");
  await sessions.prompt("two", [], "steer");
  const sent = daemon.asked.filter(([name]) => name === "session/prompt").map(([, params]) => [params["text"], params["whenBusy"]]);
  assert.deepEqual(sent, [["one", "queue"], ["two", "steer"]]);
});

test("a prompt that is being edited is held back by the next daemon, too, until its text comes", async () => {
  const { daemon, sessions } = make();
  daemon.answers["session/load"] = () => loaded({ session: named("s1"), queue: [{ promptId: "p1", text: "old", steer: false, planner: null, attachments: [], held: false }] });
  await sessions.open("s1");
  await sessions.holdQueued("p1", true);
  const holds = (): unknown[] => daemon.asked.filter(([name]) => name === "queue/edit").map(([, params]) => params["hold"]);
  daemon.states.fire({ phase: "connected" });
  await settled();
  assert.deepEqual(holds(), [true, true]);
  await sessions.editQueue("p1", "new");
  daemon.states.fire({ phase: "connected" });
  await settled();
  assert.deepEqual(holds(), [true, true, undefined]);
});

test("what happens while a session is being loaded is not lost", async () => {
  const { daemon, sessions } = make();
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["session/load"] = () => new Promise((resolve) => (answer = resolve));
  const opening = sessions.open("s1");
  daemon.tell(event(5, "message_added", { message: message("user", 2, [text("new")]), affectedGoals: [] }));
  daemon.tell(event(4, "message_added", { message: message("user", 1, [text("old")]), affectedGoals: [] }));
  answer(loaded({ lastEventId: 4, messages: [message("user", 1, [text("old")])] }));
  await opening;
  assert.deepEqual(sessions.state?.items.map((item) => item.key), ["m1", "m2"]);
});

test("of two sessions opened at once the later wins", async () => {
  const { daemon, sessions } = make();
  const answers: ((value: unknown) => void)[] = [];
  daemon.answers["session/load"] = () => new Promise((resolve) => answers.push(resolve));
  const opening = [sessions.open("s1"), sessions.open("s2")];
  answers[1]?.(loaded({ session: named("s2") }));
  answers[0]?.(loaded({ session: named("s1") }));
  await Promise.all(opening);
  assert.equal(sessions.sessionId, "s2");
});

/** Keep the answers of `session/load` until they are called; each returns what the daemon says by default, unless given. */
function holdLoads(daemon: FakeDaemon): ((answer?: unknown) => void)[] {
  const answers: ((answer?: unknown) => void)[] = [];
  daemon.answers["session/load"] = ({ sessionId }) => new Promise((resolve) => answers.push((answer = loaded({ session: named(String(sessionId)) })) => resolve(answer)));
  return answers;
}

test("a connect does not replace a session that the user has chosen", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const loads = holdLoads(daemon);
  const opening = sessions.open("s2");
  daemon.states.fire({ phase: "connected" });
  for (const answer of loads) answer();
  await opening;
  await settled();
  assert.equal(sessions.sessionId, "s2");
});

test("a late answer does not replace a session that the user has chosen", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  daemon.answers["permission/reply"] = () => {
    throw Object.assign(new Error("no such request"), { code: ErrorCode.UNKNOWN_REQUEST });
  };
  const loads = holdLoads(daemon);
  const opening = sessions.open("s2");
  const replying = sessions.reply("r1", { reply: "once" });
  await settled();
  for (const answer of loads) answer();
  await Promise.all([opening, replying]);
  assert.equal(sessions.sessionId, "s2");
});

test("a session that takes long to open shows its newest messages meanwhile", async () => {
  const { daemon, memory, sessions } = make();
  await sessions.open("s1");
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["session/load"] = () => new Promise((resolve) => (answer = resolve));
  daemon.answers["session/preview"] = () => loaded({ session: named("s2"), messages: [message("user", 1, [text("stored")])] });
  const opening = sessions.open("s2");
  await new Promise<void>((resolve) => sessions.onDidChange(({ kind }) => kind === "reset" && resolve()));
  assert.equal(sessions.sessionId, "s2");
  assert.deepEqual(sessions.state?.items.map((item) => item.key), ["m1"]);
  assert.equal(memory.get("goalwright.session"), "s1");
  daemon.tell(event(5, "message_added", { message: message("user", 2, [text("new")]), affectedGoals: [] }), "s2");
  answer(loaded({ session: named("s2"), lastEventId: 4, messages: [message("user", 1, [text("stored")])] }));
  await opening;
  assert.deepEqual(sessions.state?.items.map((item) => item.key), ["m1", "m2"]);
});

test("when a session cannot be opened after all, the one before it is shown again", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  let refuse: (error: Error) => void = () => undefined;
  daemon.answers["session/load"] = () => new Promise((_, reject) => (refuse = reject));
  daemon.answers["session/preview"] = () => loaded({ session: named("s2") });
  const opening = sessions.open("s2");
  await new Promise<void>((resolve) => sessions.onDidChange(({ kind }) => kind === "reset" && resolve()));
  refuse(new Error("damaged"));
  await assert.rejects(opening, /damaged/);
  assert.equal(sessions.sessionId, "s1");
});

test("what a session asked while another failed to open is shown", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  let refuse: (error: Error) => void = () => undefined;
  const asked = [request("r1")];
  daemon.answers["session/load"] = ({ sessionId }) => (sessionId === "s2" ? new Promise((_, reject) => (refuse = reject)) : loaded({ session: named("s1"), lastEventId: 2, pending: asked }));
  daemon.answers["session/preview"] = () => loaded({ session: named("s2") });
  const opening = sessions.open("s2");
  await new Promise<void>((resolve) => sessions.onDidChange(({ kind }) => kind === "reset" && resolve()));
  daemon.tell(event(2, "permission_asked", { request: asked[0]! }));
  refuse(new Error("damaged"));
  await assert.rejects(opening, /damaged/);
  await settled();
  assert.deepEqual([sessions.sessionId, sessions.previewed, sessions.state?.pending], ["s1", false, asked]);
});

test("a session catches up when another one replaced its load and failed", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  let answer: (value: unknown) => void = () => undefined;
  const missed = loaded({ session: named("s1"), lastEventId: 2, pending: [request("r1")] });
  const load = ({ sessionId }: Record<string, unknown>): unknown => (sessionId === "s2" ? Promise.reject(new Error("damaged")) : missed);
  daemon.answers["session/load"] = () => new Promise((resolve) => (answer = resolve));
  daemon.states.fire({ phase: "connected" });
  daemon.answers["session/load"] = load;
  await assert.rejects(sessions.open("s2"), /damaged/);
  answer(missed);
  await settled();
  assert.deepEqual([sessions.sessionId, sessions.state?.pending.map(({ requestId }) => requestId)], ["s1", ["r1"]]);
});

test("a streaming answer has each piece once when its session is opened again", async () => {
  const { daemon, sessions } = make();
  let said = "";
  const say = (piece: string): void => {
    said += piece;
    daemon.deltas.fire({ sessionId: "s1", delta: { kind: "text", messageId: "m9", index: 0, text: piece, toolCallId: null, name: null } });
  };
  daemon.answers["session/load"] = ({ sessionId }) => {
    // The connection follows the session already. What is sent before the answer is in the answer.
    if (sessionId === "s1") say("one ");
    return loaded({ session: named(String(sessionId)), streaming: said ? { messageId: "m9", parts: [text(said)] } : null });
  };
  for (const sessionId of ["s1", "s2", "s1"]) await sessions.open(sessionId);
  say("two");
  assert.deepEqual(sessions.state?.streaming?.parts, [text("one one two")]);
});

test("after a connect the last session is loaded again", async () => {
  const { daemon, memory, sessions } = make();
  await memory.update("goalwright.session", "s1");
  daemon.states.fire({ phase: "connected" });
  await settled();
  assert.equal(sessions.sessionId, "s1");
});

test("a session that is gone leaves an empty chat", async () => {
  const { daemon, memory, sessions } = make();
  await memory.update("goalwright.session", "gone");
  daemon.answers["session/load"] = () => {
    throw Object.assign(new Error("unknown session"), { code: ErrorCode.UNKNOWN_SESSION });
  };
  daemon.states.fire({ phase: "connected" });
  await settled();
  assert.equal(sessions.state, undefined);
  assert.equal(memory.get("goalwright.session"), undefined);
});

test("a prompt leaves the outbox when its turn starts, or when it waits in the queue", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  daemon.answers["session/prompt"] = () => new Promise(() => undefined);
  void sessions.prompt("one");
  void sessions.prompt("two");
  await settled();
  const [one, two] = sessions.outbox.map(({ promptId }) => promptId);
  assert.ok(one && two);
  daemon.tell(event(1, "turn_started", { promptId: one }));
  assert.deepEqual(sessions.outbox.map(({ text: value }) => value), ["two"]);
  daemon.tell(event(2, "queue_changed", { queue: [{ promptId: two, text: "two", steer: false, planner: null, attachments: [], held: false }] }));
  assert.deepEqual(sessions.outbox, []);
});

test("the text of a prompt that could not be sent comes back", async () => {
  const { daemon, sessions } = make();
  const back: string[] = [];
  sessions.onUndelivered((value) => back.push(value.text));
  daemon.answers["session/new"] = () => {
    throw new Error("The trace folder is not writable.");
  };
  await sessions.prompt("precious");
  assert.deepEqual(back, ["precious"]);
  assert.deepEqual(shown, ["The trace folder is not writable."]);
});

test("a prompt that was started is not given back when the connection breaks", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const back: string[] = [];
  sessions.onUndelivered((value) => back.push(value.text));
  daemon.answers["session/prompt"] = ({ promptId }) => {
    daemon.tell(event(1, "turn_started", { promptId: String(promptId) }));
    throw new Error("connection closed");
  };
  await sessions.prompt("hello");
  assert.deepEqual(back, []);
});

const LOST = Object.assign(new Error("Pending response rejected since connection got disposed"), { code: -32097 });

test("a prompt whose request ended with a connection that was replaced is sent again", async () => {
  const { daemon, sessions } = make();
  const back: string[] = [];
  sessions.onUndelivered((value) => back.push(value.text));
  let asked = 0;
  daemon.answers["session/new"] = () => {
    if (++asked === 1) throw Object.assign(new Error('Request with id "11" is canceled'), { code: -32800 });
    return { session: named("s1") };
  };
  const got: unknown[] = [];
  daemon.answers["session/prompt"] = ({ text: said, promptId }) => {
    got.push(said);
    return { promptId, stopReason: "end_turn", detail: "", removed: false };
  };
  await sessions.prompt("go on");
  assert.deepEqual([asked, got, back], [2, ["go on"], []]);
});

/** The daemon dies with the first prompt, and does `whileAway` before the client hears of it; the sessions of the prompts that came. */
function dying(daemon: FakeDaemon, whileAway: () => unknown = () => undefined): string[] {
  const got: string[] = [];
  daemon.answers["session/prompt"] = async ({ sessionId, promptId }) => {
    got.push(String(sessionId));
    if (got.length > 1) return { promptId, stopReason: "end_turn", detail: "", removed: false };
    await whileAway();
    throw LOST;
  };
  return got;
}

test("a prompt that a dying daemon did not get is sent again, also when the same was said before", async () => {
  const { daemon, sessions } = make();
  daemon.answers["session/load"] = () => loaded({ session: named("s1"), messages: [message("user", 1, [text("go on")])] });
  await sessions.open("s1");
  const back: string[] = [];
  sessions.onUndelivered((value) => back.push(value.text));
  const got = dying(daemon);
  await sessions.prompt("go on");
  assert.deepEqual([got, back], [["s1", "s1"], []]);
});

test("a prompt that a dying daemon had stored is not sent twice", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const got = dying(daemon, () => {
    daemon.answers["session/load"] = () => loaded({ session: named("s1"), messages: [message("user", 1, [text("go on")])] });
  });
  await sessions.prompt("go on");
  assert.deepEqual(got, ["s1"]);
});

test("a prompt that the daemon stores in other parts is recognised and not sent twice", async () => {
  const file = { type: "file", name: "notes.txt", mediaType: "text/plain", data: null } as const;
  const cases = [
    { said: "", files: [file], stored: [file] },
    { said: "@plan  look around", files: [], stored: [{ type: "agent", agent: "plan" }, text("look around")] },
    { said: "@explore find it", files: [], stored: [{ type: "subtask", agent: "explore", prompt: "find it" }] },
    { said: "@plan", files: [], stored: [{ type: "agent", agent: "plan" }] },
  ] as const;
  for (const { said, files, stored } of cases) {
    const { daemon, sessions } = make();
    await sessions.open("s1");
    const got = dying(daemon, () => {
      daemon.answers["session/load"] = () => loaded({ session: named("s1"), messages: [message("user", 1, [...stored])] });
    });
    await sessions.prompt(said, [...files]);
    assert.deepEqual(got, ["s1"], said);
  }
});

test("a prompt is sent again to its own session, not to the one that was opened meanwhile", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const got = dying(daemon, () => sessions.open("s2"));
  await sessions.prompt("go on");
  assert.deepEqual([got, sessions.sessionId], [["s1", "s1"], "s2"]);
  await sessions.open("s1");
  const again = dying(daemon, async () => {
    daemon.answers["session/load"] = ({ sessionId }) => loaded({ session: named(String(sessionId)), messages: sessionId === "s1" ? [message("user", 1, [text("and on")])] : [] });
    await sessions.open("s2");
  });
  await sessions.prompt("and on");
  assert.deepEqual(again, ["s1"]);
});

test("an answer given elsewhere is told to whoever shows the request", async () => {
  const { daemon, sessions } = make();
  const answered: string[] = [];
  sessions.onDidAnswer(({ request: one, by }) => answered.push(`${one.requestId} ${by}`));
  await sessions.open("s1");
  daemon.tell(event(1, "permission_asked", { request: request("r1") }));
  daemon.tell(event(2, "permission_replied", { requestId: "r1", reply: "once", feedback: null, by: "terminal", remembered: null, scope: "session", answers: [] }));
  assert.deepEqual(answered, ["r1 terminal"]);
});

test("a request answered while the connection was away is told after the next load", async () => {
  const { daemon, sessions } = make();
  const answered: string[] = [];
  sessions.onDidAnswer(({ request: one }) => answered.push(one.requestId));
  await sessions.open("s1");
  daemon.tell(event(1, "permission_asked", { request: request("r1") }));
  await sessions.open("s1");
  assert.deepEqual(answered, ["r1"]);
});

test("requests of a session that is left for another one are not told", async () => {
  const { daemon, sessions } = make();
  const answered: string[] = [];
  sessions.onDidAnswer(({ request: one }) => answered.push(one.requestId));
  daemon.answers["session/load"] = ({ sessionId }) => loaded({ session: named(String(sessionId)), pending: sessionId === "s1" ? [request("r1")] : [] });
  for (const sessionId of ["s1", "s2", "s1"]) await sessions.open(sessionId);
  assert.deepEqual(answered, []);
});

test("who comes second with an answer is told who was first", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  daemon.answers["permission/reply"] = () => ({ accepted: false, by: "terminal" });
  await sessions.reply("r1", { reply: "once" });
  assert.deepEqual(shown, ["Already answered by terminal."]);
});

test("the words of an answer that comes too late are given back", async () => {
  const { daemon, sessions } = make();
  const back: string[] = [];
  sessions.onUndelivered(({ text }) => back.push(text));
  await sessions.open("s1");
  daemon.answers["permission/reply"] = () => ({ accepted: false, by: "terminal" });
  await sessions.reply("r1", { reply: "reject", feedback: "Use the other table." });
  daemon.answers["permission/reply"] = () => {
    throw Object.assign(new Error("no such request"), { code: ErrorCode.UNKNOWN_REQUEST });
  };
  await sessions.reply("r1", { reply: "once", answers: [{ chosen: ["a"], text: "" }, { chosen: [], text: "as before" }] });
  await sessions.reply("r1", { reply: "once" });
  assert.deepEqual(back, ["Use the other table.", "as before"]);
});

test("what comes back belongs to the session that it was written in", async () => {
  const { daemon, sessions } = make();
  const back: unknown[] = [];
  sessions.onUndelivered(({ sessionId, text }) => back.push([sessionId, text]));
  const late = (name: string, then: () => unknown): void => {
    daemon.answers[name] = async () => {
      await sessions.open("s2");
      return then();
    };
  };
  await sessions.open("s1");
  late("permission/reply", () => ({ accepted: false, by: "terminal" }));
  await sessions.reply("r1", { reply: "reject", feedback: "Use the other table." });
  await sessions.open("s1");
  const full = (): never => {
    throw new Error("The disk is full.");
  };
  late("session/prompt", full);
  await sessions.prompt("go on");
  await sessions.startNew();
  late("session/new", full);
  await sessions.prompt("hello");
  assert.deepEqual(back, [["s1", "Use the other table."], ["s1", "go on"], ["", "hello"]]);
});

test("the words of an answer are given back once, also when its session is gone", async () => {
  const { daemon, sessions } = make();
  const back: string[] = [];
  sessions.onUndelivered(({ text }) => back.push(text));
  await sessions.open("s1");
  const gone = (code: number) => () => {
    throw Object.assign(new Error("gone"), { code });
  };
  daemon.answers["permission/reply"] = gone(ErrorCode.UNKNOWN_REQUEST);
  daemon.answers["session/load"] = gone(ErrorCode.UNKNOWN_SESSION);
  assert.equal(await sessions.reply("r1", { reply: "reject", feedback: "Use the other table." }), false);
  assert.deepEqual(back, ["Use the other table."]);
});

test("blank feedback is no feedback", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  await sessions.reply("r1", { reply: "reject", feedback: "  " });
  assert.deepEqual(daemon.asked.at(-1)?.[1], { requestId: "r1", reply: "reject", feedback: null });
});

test("what is accepted in part goes along with the answer, and the caller learns whether it counts", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const files = [{ path: "a.py", hunks: [0] }];
  assert.equal(await sessions.reply("r1", { reply: "once" }, files), true);
  assert.deepEqual(daemon.asked.at(-1)?.[1], { requestId: "r1", reply: "once", feedback: null, files });
  daemon.answers["permission/reply"] = () => ({ accepted: false, by: "terminal" });
  assert.equal(await sessions.reply("r1", { reply: "once" }), false);
});

test("what is to be remembered goes along with always, and with nothing else", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const grants = [{ permission: "bash", pattern: "git log *" }];
  await sessions.reply("r1", { reply: "always", grants, scope: "workspace" });
  assert.deepEqual(daemon.asked.at(-1)?.[1], { requestId: "r1", reply: "always", feedback: null, grants, scope: "workspace" });
  await sessions.reply("r1", { reply: "once", grants, scope: "workspace" });
  assert.deepEqual(daemon.asked.at(-1)?.[1], { requestId: "r1", reply: "once", feedback: null });
});

test("an answer that the daemon does not take is thrown, for the card to show", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  daemon.answers["permission/reply"] = () => {
    throw Object.assign(new Error("a.py has no hunk 7"), { code: -32602 });
  };
  await assert.rejects(sessions.reply("r1", { reply: "once" }), /no hunk 7/);
  assert.deepEqual(shown, []);
});

test("a running turn is remembered for the next window, until it ends", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  daemon.tell(event(1, "turn_started", { promptId: "p" }, { status: "running" }));
  assert.equal(sessions.wasBusy, true);
  daemon.tell(event(2, "turn_ended", { promptId: "p", stopReason: "end_turn", detail: "", errorKind: "" }, { status: "completed" }));
  assert.equal(sessions.wasBusy, false);
});

test("events of another session are not mixed in", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  daemon.tell(event(1, "turn_started", { promptId: "p" }, { status: "running" }), "s2");
  assert.equal(sessions.state?.session.status, "idle");
});

test("a prompt that waits while the user stops the daemon comes back, and starts none", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const back: string[] = [];
  sessions.onUndelivered(({ text }) => back.push(text));
  let connects = 0;
  daemon.connect = () => {
    connects += 1;
    return connects > 1 ? Promise.resolve() : Promise.reject(new Problem("stopped", "stopped"));
  };
  await sessions.prompt("Go on");
  assert.deepEqual([back, connects], [["Go on"], 1]);
  assert.deepEqual([connectionLost(new Problem("stopped", "")), connectionLost(new Problem("canceled", ""))], [false, true]);
});
