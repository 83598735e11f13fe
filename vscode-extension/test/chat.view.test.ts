import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { after, test } from "node:test";
import type * as vscode from "vscode";
import { ChatView } from "../src/chat/view";
import { EMPTY, reduce } from "../src/chat/webview/store";
import { NOTHING_EXPLORED } from "../src/explore/view";
import { fromLoad } from "../src/session/state";
import { loaded, message, request, text } from "./fakes/protocol";
import { log, make, named, FakeMemory, settled } from "./fakes/session";
import { commands, FakePanel, ran, shown } from "./fakes/vscode";

/** An extension's folder with the files of the page. */
const EXTENSION = mkdtempSync(path.join(os.tmpdir(), "gw-ext-"));
mkdirSync(path.join(EXTENSION, "dist"));
for (const name of ["chat.css", "chat.js"]) writeFileSync(path.join(EXTENSION, "dist", name), `/* ${name} */`);
after(() => rmSync(EXTENSION, { recursive: true }));

const quiet = { onDidChange: () => ({ dispose() {} }) };

/** A chat, and a function that opens its page. */
function chat(review: object = {}, history: object = {}) {
  const { daemon, memory, sessions } = make();
  const unsent = new FakeMemory();
  const view = new ChatView({ path: EXTENSION } as vscode.Uri, {
    daemon, sessions, memory, unsent, log,
    review: { ...quiet, choices: {}, pending: () => undefined, bringForward: () => undefined, ...review },
    history: { ...quiet, byCall: () => ({}), ...history },
    explorations: { ...quiet, shown: NOTHING_EXPLORED },
    records: { ...quiet },
    surrounding: { ...quiet },
    attention: { ...quiet, count: 0 },
    active: { attachments: [] },
  } as unknown as ConstructorParameters<typeof ChatView>[1]);
  const open = (): FakePanel => {
    const page = new FakePanel();
    view.resolveWebviewView(Object.assign(page, { visible: true, onDidChangeVisibility: page.closed.event }) as unknown as vscode.WebviewView);
    page.said.fire({ type: "ready" });
    return page;
  };
  return { daemon, sessions, view, memory, open };
}

test("files of a draft are stored apart and back after a reload", async () => {
  const { view, memory, open } = chat();
  const picture = { type: "file", name: "shot.png", mediaType: "image/png", data: "AAAA" };
  const page = open();
  page.said.fire({ type: "written", written: { drafts: { s1: { text: "look" } } }, files: { s1: [picture] } });
  page.said.fire({ type: "written", written: { drafts: { s1: { text: "look at" } } } });
  await settled();
  assert.deepEqual(memory.get("goalwright.written"), { drafts: { s1: { text: "look at" } } });
  const [, block] = /id="written">(.*?)<\/script>/.exec(open().webview.html) ?? [];
  assert.deepEqual(JSON.parse(block ?? ""), { drafts: { s1: { text: "look at" } }, files: { s1: [picture] } });
  view.dispose();
});

test("earlier messages that cannot be read can be asked for again", async () => {
  const { daemon, sessions, view, open } = chat();
  await sessions.open("s1");
  daemon.answers["session/messages"] = () => {
    throw new Error("The trace cannot be read.");
  };
  const page = open();
  page.said.fire({ type: "earlier", sessionId: "s1", before: 9 });
  await settled();
  assert.equal(shown.at(-1), "The trace cannot be read.");
  const answer = page.posted.find(({ type }) => type === "earlier");
  const waiting = { ...EMPTY, session: { ...fromLoad(loaded({ session: named("s1") })), hasEarlier: true }, loadingEarlier: true };
  const state = reduce(waiting, answer as unknown as Parameters<typeof reduce>[1], true);
  assert.deepEqual([state.loadingEarlier, state.session?.hasEarlier], [false, true]);
  view.dispose();
});

test("earlier messages leave no gap to what was loaded again", () => {
  const said = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, n) => message("user", first + n, [text(`${first + n}`)]));
  const of = (first: number) => ({ ...fromLoad(loaded({ session: named("s1"), messages: said(first, 9) })), hasEarlier: true });
  const asked = { ...EMPTY, session: of(3), loadingEarlier: true };
  const answer = { type: "earlier" as const, sessionId: "s1", before: 3, earlier: { messages: said(1, 2), notices: [], hasEarlier: false } };
  const keys = (state: typeof EMPTY): unknown => [state.session?.items[0]?.key, state.session?.hasEarlier, state.loadingEarlier];
  assert.deepEqual(keys(reduce(asked, answer, false)), ["m1", false, false]);
  // The session was loaded again while they were read: only its newest messages are there.
  const again = reduce(asked, { type: "state", state: { session: of(8) } }, false);
  assert.deepEqual(keys(reduce(again, answer, false)), ["m8", true, false]);
});

test("a record that is closed leaves no wait for its earlier messages", () => {
  const session = { ...fromLoad(loaded({ session: named("s1") })), hasEarlier: true };
  const record = { ...fromLoad(loaded({ session: named("s1:A") })), hasEarlier: true };
  const state = reduce({ ...EMPTY, session, record, loadingEarlier: true }, { type: "state", state: { record: null } }, true);
  assert.equal(state.loadingEarlier, false);
});

const restored = (page: FakePanel): unknown[] => page.posted.flatMap(({ type, text }) => (type === "restore" ? [text] : []));

test("a new page puts the oldest request in front, and answers only what it shows", () => {
  const told: unknown[] = [];
  const pending = (id: string) => (id === "r1" ? undefined : request(id));
  const { view, open } = chat({ pending, bringForward: (id: string) => told.push(id), answerAll: (...about: unknown[]) => told.push(about) });
  open().said.fire({ type: "answerAll", requestIds: ["r1", "r2"], accepted: true });
  assert.deepEqual(told, ["", [request("r2"), true, ["r1", "r2"]]]);
  view.dispose();
});

test("words that were not taken come back to the composer", async () => {
  let error = new Error("Not valid.");
  const refused = () => {
    throw error;
  };
  const { daemon, sessions, view, open } = chat({ pending: (id: string) => (id === "r1" ? request("r1") : undefined), answer: refused });
  await sessions.open("s1");
  daemon.answers["queue/edit"] = refused;
  const page = open();
  page.said.fire({ type: "reply", requestId: "r1", answer: { reply: "once", answers: [{ chosen: ["a"], text: "typed in the card" }] } });
  page.said.fire({ type: "reply", requestId: "r1", answer: { reply: "reject", feedback: "in the composer" }, typed: "in the composer" });
  page.said.fire({ type: "editQueue", promptId: "p1", text: "edited" });
  page.said.fire({ type: "editQueue", promptId: "p1", text: null });
  await settled();
  assert.deepEqual(restored(page), ["in the composer", "edited"]);
  const refusals = (): unknown[] => page.posted.filter(({ type }) => type === "refused");
  assert.deepEqual(refusals(), [{ type: "refused", requestId: "r1" }, { type: "refused", requestId: "r1" }]);
  // The state follows a moment later.
  error = Object.assign(new Error("Pending response rejected"), { code: -32_097 });
  page.said.fire({ type: "reply", requestId: "r1", answer: { reply: "once", answers: [{ chosen: ["a"], text: "typed in the card" }] } });
  await settled();
  assert.equal(restored(page).at(-1), "typed in the card");
  assert.equal(refusals().length, 2);
  view.dispose();
});

test("words that were not taken go to the session of their request", async () => {
  let fail: (error: Error) => void = () => undefined;
  const answer = () => new Promise((_, reject) => (fail = reject));
  const { sessions, view, open } = chat({ pending: () => request("r1"), answer });
  await sessions.open("s1");
  const page = open();
  for (const error of [new Error("Not valid."), Object.assign(new Error("Pending response rejected"), { code: -32_097 })]) {
    page.said.fire({ type: "reply", requestId: "r1", answer: { reply: "reject", feedback: "use tabs" }, typed: "use tabs" });
    await sessions.open("s2");
    fail(error);
    await settled();
  }
  const backs = page.posted.filter(({ type }) => type === "restore");
  assert.deepEqual(backs.map(({ sessionId, text }) => [sessionId, text]), [["s1", "use tabs"], ["s1", "use tabs"]]);
  view.dispose();
});

test("text that could not be sent waits for the page", async () => {
  const { daemon, sessions, view, open } = chat();
  daemon.answers["session/prompt"] = () => {
    throw new Error("The disk is full.");
  };
  await sessions.prompt("before the chat was opened");
  const first = open();
  assert.deepEqual(restored(first), ["before the chat was opened"]);
  // VS Code makes another page when the user moves the view.
  first.dispose();
  await sessions.prompt("while it was moved");
  assert.deepEqual(restored(open()), ["while it was moved"]);
  view.dispose();
});

test("lines of a file with a space in its name are attached", async () => {
  const { view, open } = chat();
  const page = open();
  await view.insert("@my notes/a.py:3-9 ");
  const attached = page.posted.find(({ type }) => type === "attach");
  assert.deepEqual(attached?.["attachments"], [{ type: "file", name: "my notes/a.py:3-9", mediaType: "", data: null }]);
  view.dispose();
});

test("the files of a draft stay there when its text is a command", async () => {
  const { daemon, view, open } = chat();
  daemon.answers["prompt/list"] = () => ({ commands: [] });
  const page = open();
  const picture = { type: "file", name: "shot.png", mediaType: "image/png", data: "AAAA" };
  ran.splice(0);
  page.said.fire({ type: "prompt", text: "/model", attachments: [picture] });
  await settled();
  assert.deepEqual(ran, [["goalwright.chooseModel"]]);
  assert.deepEqual(page.posted.filter(({ type }) => type === "restore"), [{ type: "restore", text: "", attachments: [picture] }]);
  view.dispose();
});

test("a prompt under way is shown in its own session only", async () => {
  const { daemon, sessions, view, open } = chat();
  const page = open();
  const outbox = (): unknown => {
    const states = page.posted.flatMap(({ state }) => (state && "outbox" in (state as object) ? [state as { outbox: { text: string }[] }] : []));
    return states.at(-1)?.outbox.map(({ text: sent }) => sent);
  };
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["session/new"] = () => new Promise((resolve) => (answer = resolve));
  daemon.answers["session/prompt"] = () => new Promise(() => undefined);
  void sessions.prompt("one");
  await settled();
  assert.deepEqual(outbox(), ["one"]);
  await sessions.open("s2");
  assert.deepEqual(outbox(), []);
  answer({ session: named("s1") });
  await settled();
  assert.deepEqual(outbox(), []);
  await sessions.open("s1");
  assert.deepEqual(outbox(), ["one"]);
  view.dispose();
});

test("a mention is attached to the draft that it was written in", async () => {
  const { daemon, sessions, view, open } = chat();
  await sessions.open("s1");
  const page = open();
  const answers: ((value: unknown) => void)[] = [];
  daemon.answers["trace/messages"] = () => new Promise((resolve) => answers.push(resolve));
  daemon.answers["session/list"] = () => ({ sessions: [], more: false });
  for (const about of ["s8", "s9"]) page.said.fire({ type: "mention", key: `session:${about}`, text: `@session ${about}` });
  await sessions.open("s2");
  answers[0]?.({ messages: [message("user", 1, [text("said")])] });
  answers[1]?.({ messages: [] });
  await settled();
  const told = page.posted.flatMap(({ type, mention, sessionId }) => (type.endsWith("attach") || type === "unattached" ? [[type, mention, sessionId]] : []));
  assert.deepEqual(told, [["attach", "@session s8", "s1"], ["unattached", "@session s9", "s1"]]);
  view.dispose();
});

test("files that are added before the chat was opened wait for its page", async () => {
  const { view, open } = chat();
  await view.mention("lines:a.py:3", "@a.py:3");
  const told = open().posted.map(({ type, mention, text }) => [type, mention ?? text]);
  assert.deepEqual(told.slice(1), [["insert", "@a.py:3 "], ["focus", undefined], ["attach", "@a.py:3"]]);
  view.dispose();
});

test("a message that is not resent stays an edit in its session", async () => {
  let fail: (error: Error) => void = () => undefined;
  const { sessions, view, open } = chat({}, { restore: () => new Promise((_, reject) => (fail = reject)) });
  await sessions.open("s1");
  const page = open();
  const backs = (): unknown[] => page.posted.flatMap(({ type, sessionId, instead }) => (type === "restore" ? [[sessionId, instead]] : []));
  const resend = async (other?: string): Promise<void> => {
    page.said.fire({ type: "prompt", text: "again", attachments: [], instead: "m1" });
    if (other) await sessions.open(other);
    fail(new Error("The disk is full."));
    await settled();
  };
  await resend();
  await resend("s2");
  assert.deepEqual(backs(), [["s1", "m1"], ["s1", "m1"]]);
  view.dispose();
});

test("a prompt goes to the session that was open when it was sent, and comes back there", async () => {
  for (const messages of [[message("user", 1, [text("hello")])], []]) {
    const { daemon, sessions, view, open } = chat();
    await sessions.open("s1");
    let read: (answer: unknown) => void = () => undefined;
    daemon.answers["trace/messages"] = () => new Promise((resolve) => (read = resolve));
    daemon.answers["session/list"] = () => ({ sessions: [], more: false });
    const page = open();
    page.said.fire({ type: "mention", key: "session:old", text: "@session old" });
    page.said.fire({ type: "prompt", text: "as in @session old", attachments: [] });
    await settled();
    await sessions.open("s2");
    read({ messages });
    for (let n = 0; n < 5; n++) await settled();
    const sent = daemon.asked.flatMap(([name, params]) => (name === "session/prompt" ? [params["sessionId"]] : []));
    const backs = page.posted.flatMap(({ type, sessionId }) => (type === "restore" ? [sessionId] : []));
    assert.deepEqual([sent, backs], messages.length > 0 ? [["s1"], []] : [[], ["s1"]]);
    view.dispose();
  }
});

test("a message is resent from its own session, whatever is opened meanwhile", async () => {
  for (const said of [{ type: "prompt", instead: "m1" }, { type: "fork", messageId: "m1" }]) {
    const about: unknown[] = [];
    const restore = async ({ sessionId }: { sessionId?: string }): Promise<object> => {
      about.push(sessionId);
      await made.sessions.open("s2");
      return { files: [], texts: [] };
    };
    const made = chat({}, { restore });
    await made.sessions.open("s1");
    made.daemon.answers["session/fork"] = ({ sessionId }) => {
      about.push(sessionId);
      return { session: named("fork") };
    };
    made.open().said.fire({ ...said, text: "again", attachments: [] });
    for (let n = 0; n < 5; n++) await settled();
    assert.deepEqual(about, ["s1", "s1"]);
    made.view.dispose();
  }
});

test("a message is resent to the fork, whatever is opened meanwhile", async () => {
  const { daemon, sessions, view, open } = chat({}, { restore: async () => ({ files: [], texts: [] }) });
  await sessions.open("s1");
  const load = daemon.answers["session/load"];
  daemon.answers["session/fork"] = () => ({ session: named("fork") });
  daemon.answers["session/load"] = async (params) => {
    if (params["sessionId"] === "fork") await sessions.open("s2");
    return load?.(params);
  };
  open().said.fire({ type: "prompt", text: "again", attachments: [], instead: "m1" });
  for (let n = 0; n < 5; n++) await settled();
  assert.deepEqual(daemon.asked.flatMap(([name, params]) => (name === "session/prompt" ? [params["sessionId"]] : [])), ["fork"]);
  view.dispose();
});

test("a prompt that cannot be read comes back to the session that its chat has begun", async () => {
  const { daemon, sessions, view, open } = chat();
  daemon.answers["trace/messages"] = () => ({ messages: [] });
  daemon.answers["session/list"] = () => ({ sessions: [], more: false });
  const page = open();
  let read: (answer: unknown) => void = () => undefined;
  daemon.answers["trace/messages"] = () => new Promise((resolve) => (read = resolve));
  page.said.fire({ type: "mention", key: "session:old", text: "@session old" });
  page.said.fire({ type: "prompt", text: "one", attachments: [] });
  page.said.fire({ type: "prompt", text: "two as in @session old", attachments: [] });
  for (let n = 0; n < 5; n++) await settled();
  assert.equal(sessions.sessionId, "s1");
  read({ messages: [] });
  for (let n = 0; n < 5; n++) await settled();
  assert.deepEqual(page.posted.flatMap(({ type, sessionId }) => (type === "restore" ? [sessionId] : [])), ["s1"]);
  view.dispose();
});

test("an edit of a queued prompt that was rejected comes back to its session", async () => {
  const { daemon, sessions, view, open } = chat();
  await sessions.open("s1");
  let fail: (error: Error) => void = () => undefined;
  daemon.answers["queue/edit"] = () => new Promise((_, reject) => (fail = reject));
  const page = open();
  page.said.fire({ type: "editQueue", promptId: "p1", text: "edited" });
  await settled();
  await sessions.open("s2");
  fail(new Error("It is no longer waiting."));
  await settled();
  assert.deepEqual(page.posted.flatMap(({ type, sessionId }) => (type === "restore" ? [sessionId] : [])), ["s1"]);
  view.dispose();
});

test("the words of a command that was refused come back, and a new session gets its own", async () => {
  const { daemon, sessions, view, open } = chat();
  const before = commands.executeCommand;
  daemon.answers["prompt/list"] = () => ({ commands: [] });
  await sessions.open("s2");
  const page = open();
  // As the extension's commands: they say what is wrong by themselves.
  Object.assign(commands, { executeCommand: async (name: unknown) => name !== "goalwright.compact" });
  page.said.fire({ type: "prompt", text: "/compact keep the numbers", attachments: [] });
  page.said.fire({ type: "prompt", text: "/new do the rest", attachments: [] });
  for (let n = 0; n < 5; n++) await settled();
  Object.assign(commands, { executeCommand: before });
  assert.deepEqual(restored(page), ["/compact keep the numbers"]);
  assert.deepEqual(daemon.asked.flatMap(([name, params]) => (name === "session/prompt" ? [[params["sessionId"], params["text"]]] : [])), [["s1", "do the rest"]]);
  view.dispose();
});

test("a list that was closed does not close the one that was opened since", async () => {
  const { view, open } = chat();
  const before = commands.executeCommand;
  const page = open();
  const closed: ((done: boolean) => void)[] = [];
  const focused: unknown[] = [];
  Object.assign(commands, {
    executeCommand: (name: unknown) => (String(name).endsWith(".focus") ? focused.push(name) : new Promise((resolve) => closed.push(resolve))),
  });
  for (let n = 0; n < 2; n++) page.said.fire({ type: "command", command: "chooseModel" });
  await settled();
  closed[0]?.(true);
  await settled();
  assert.deepEqual(focused, []);
  closed[1]?.(true);
  await settled();
  assert.equal(focused.length, 1);
  Object.assign(commands, { executeCommand: before });
  view.dispose();
});

test("a list opens once the focus after the one before it is done", async () => {
  const { view, open } = chat();
  const before = commands.executeCommand;
  const page = open();
  const begun: string[] = [];
  let done: () => void = () => {};
  Object.assign(commands, {
    executeCommand: (name: string) => {
      begun.push(name.split(".").at(-1) ?? "");
      return name.endsWith(".focus") ? new Promise<void>((resolve) => (done = resolve)) : undefined;
    },
  });
  for (let n = 0; n < 2; n++) {
    page.said.fire({ type: "command", command: "chooseModel" });
    await settled();
  }
  assert.deepEqual(begun, ["chooseModel", "focus"]);
  done();
  await settled();
  assert.deepEqual(begun.slice(0, 3), ["chooseModel", "focus", "chooseModel"]);
  done();
  Object.assign(commands, { executeCommand: before });
  view.dispose();
});
