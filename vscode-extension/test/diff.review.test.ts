import assert from "node:assert/strict";
import { test } from "node:test";
import type * as vscode from "vscode";
import type { Daemon } from "../src/daemon/daemon";
import { fileChoice } from "../src/diff/choice";
import { type Draft, Drafts } from "../src/diff/drafts";
import { Review } from "../src/diff/review";
import { address, AFTER, BEFORE } from "../src/diff/uris";
import { ErrorCode, type PermissionRequest } from "../src/protocol.gen";
import type { SessionController } from "../src/session/controller";
import { configured, EventEmitter, fileSystems, ran, shown, TabInputTextDiff, Uri, window, workspace } from "./fakes/vscode";
import { event, file, hunk, loaded, request, session } from "./fakes/protocol";
import { type FakeDaemon, log, make, named, settled } from "./fakes/session";

const PROPOSED = { requestId: "r1", path: "a.py" };

/** A review of one request. `kept`: its drafts, the newest last. `previewed` ends when the daemon is asked for a diff of the user's text; `preview` is the answer. */
function reviewed(): { review: Review; kept: Draft[]; preview: (answer: unknown) => void; previewed: Promise<void>; save: (text: string) => void } {
  configured.set("openDiffAutomatically", false);
  let preview: (answer: unknown) => void = () => undefined;
  let asked: () => void = () => undefined;
  const previewed = new Promise<void>((resolve) => (asked = resolve));
  const answer = new Promise((resolve) => (preview = resolve));
  const daemon = {
    state: { phase: "connected" },
    request: async (method: string) => {
      if (method === "goalwright/permission/content") return { before: "one\n", after: "two\n", binary: false };
      asked();
      return answer;
    },
  };
  const sessions = {
    state: { pending: [request("r1")], session: { status: "waiting" } },
    sessionId: "s1",
    onDidChange: new EventEmitter<unknown>().event,
    onDidAnswer: new EventEmitter<unknown>().event,
  };
  const kept: Draft[] = [];
  const memory = { get: (_key: string, otherwise: unknown) => otherwise, update: async (_key: string, drafts: Record<string, Draft>) => void kept.push(...Object.values(drafts)) };
  const review = new Review(daemon as unknown as Daemon, sessions as unknown as SessionController, memory as unknown as vscode.Memento, log, async () => undefined);
  const files = fileSystems.get(AFTER) as { readFile: (uri: unknown) => Promise<Uint8Array>; writeFile: (uri: unknown, bytes: Uint8Array) => void };
  const save = async (text: string): Promise<void> => {
    const uri = Uri.from(address(AFTER, PROPOSED));
    await files.readFile(uri);
    files.writeFile(uri, new TextEncoder().encode(text));
  };
  return { review, kept, preview, previewed, save: (text) => void save(text) };
}

test("edits discarded while their diff was being made stay discarded", async () => {
  const { review, preview, previewed, save } = reviewed();
  save("mine\n");
  await previewed;
  const discarding = review.discardEdits(PROPOSED.requestId, PROPOSED.path);
  // The discard goes as far as it can before the answer comes.
  await new Promise((resolve) => setImmediate(resolve));
  preview({ files: [file("a.py")] });
  await discarding;
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(fileChoice(review.choices.r1 ?? { files: {}, error: "" }, "a.py").edited, "no");
  review.dispose();
});

test("the user's text is kept while its diff is being made", async () => {
  const { review, kept, previewed, save } = reviewed();
  save("mine\n");
  await previewed;
  assert.deepEqual(kept.at(-1)?.texts, { "a.py": "mine\n" });
  review.dispose();
});

test("a review is kept while another session is shown", async () => {
  const { daemon, memory, sessions } = make();
  configured.set("openDiffAutomatically", false);
  const asked = request("r1", { files: [file("a.py", { hunks: 2, shownHunks: [hunk(2, 3, 1, 1, 1, 1), hunk(5, 3, 9, 1, 9, 1)] })] });
  daemon.answers["session/load"] = ({ sessionId }) => loaded({ session: named(String(sessionId)), pending: sessionId === "s1" ? [asked] : [] });
  daemon.answers["permission/content"] = () => ({ before: "one\n", after: "two\n", binary: false });
  const review = new Review(daemon as unknown as Daemon, sessions, memory as unknown as vscode.Memento, log, async () => undefined);
  await sessions.open("s1");
  await review.choose("r1", "a.py", 1, false);
  for (const sessionId of ["s2", "s1"]) await sessions.open(sessionId);
  await review.answer(asked, { reply: "once" });
  const sent = daemon.asked.find(([name]) => name === "permission/reply")?.[1];
  assert.deepEqual(sent?.["files"], [{ path: "a.py", hunks: [0] }]);
  review.dispose();
});

test("a review is kept while its session is slow to open", async () => {
  const { daemon, memory, sessions } = make();
  configured.set("openDiffAutomatically", false);
  shown.splice(0);
  const proposed = { toolCallId: "c1", files: [file("a.py")] };
  new Drafts(memory as unknown as vscode.Memento).setText(request("r1", proposed), "a.py", "mine\n");
  let answer: (value: unknown) => void = () => undefined;
  daemon.answers["session/load"] = () => new Promise((resolve) => (answer = resolve));
  daemon.answers["session/preview"] = () => loaded({ session: named("s1") });
  const review = new Review(daemon as unknown as Daemon, sessions, memory as unknown as vscode.Memento, log, async () => undefined);
  const opening = sessions.open("s1");
  await new Promise<void>((resolve) => sessions.onDidChange(({ kind }) => kind === "reset" && resolve()));
  await settled();
  // The daemon was started again: it asks the same with another id.
  answer(loaded({ session: session({ status: "waiting" }), pending: [request("r2", proposed)] }));
  await opening;
  const kept = new Drafts(memory as unknown as vscode.Memento);
  assert.deepEqual([kept.texts("r2"), shown], [{ "a.py": "mine\n" }, []]);
  review.dispose();
});

/** A review of requests in a session of the fake daemon. */
async function opened(pending: ReturnType<typeof request>[]): Promise<{ daemon: FakeDaemon; review: Review }> {
  const { daemon, memory, sessions } = make();
  configured.set("openDiffAutomatically", false);
  daemon.answers["session/load"] = () => loaded({ session: session({ status: "waiting" }), pending });
  daemon.answers["permission/content"] = () => ({ before: "one\n", after: "two\n", binary: false });
  const review = new Review(daemon as unknown as Daemon, sessions, memory as unknown as vscode.Memento, log, async () => undefined);
  await sessions.open("s1");
  return { daemon, review };
}

test("a request answered elsewhere reverts no editor of the user", async () => {
  const { daemon, review } = await opened([request("r1", { files: [file("a.py")] })]);
  const document = { uri: Uri.from(address(AFTER, PROPOSED)), isDirty: true, getText: () => "mine\n" };
  Object.assign(workspace, { textDocuments: [document] });
  ran.splice(0);
  daemon.answers["permission/content"] = () => {
    daemon.tell(event(5, "permission_replied", { requestId: "r1", reply: "once", feedback: null, by: "terminal", remembered: null, scope: "session", answers: [] }));
    return { before: "one\n", after: "two\n", binary: false };
  };
  await review.discardEdits("r1", "a.py");
  Object.assign(workspace, { textDocuments: [] });
  assert.deepEqual(ran.filter(([command]) => command === "workbench.action.files.revert"), []);
  review.dispose();
});

test("all edits that were shown are accepted, and none that came later", async () => {
  const edits = ["r1", "r2", "r3"].map((id) => request(id, { files: [file(`${id}.py`)] }));
  const { daemon, review } = await opened(edits);
  await review.answerAll(edits[0]!, true, ["r1", "r2"]);
  const sent = daemon.asked.flatMap(([name, params]) => (name === "permission/reply" ? [params["requestId"]] : []));
  assert.deepEqual(sent, ["r1", "r2"]);
  review.dispose();
});

test("keys answer the oldest request when a new page shows that one", async () => {
  const { review } = await opened([request("r1"), request("r2")]);
  await review.bringForward("r2");
  assert.equal(review.target()?.requestId, "r2");
  await review.bringForward("");
  assert.equal(review.target()?.requestId, "r1");
  review.dispose();
});

for (const restarted of [false, true]) test(`edits of an answer that came too late ${restarted ? "go to the next request of a restarted daemon" : "are offered until the user says"}`, async () => {
  const { daemon, memory, sessions } = make();
  configured.set("openDiffAutomatically", false);
  const ask = (id: string): PermissionRequest => request(id, { toolCallId: "c1", files: [file("a.py")] });
  const asked = ask("r1");
  const drafts = (): Drafts => new Drafts(memory as unknown as vscode.Memento);
  const open = (): Review => new Review(daemon as unknown as Daemon, sessions, memory as unknown as vscode.Memento, log, async () => undefined);
  daemon.answers["session/load"] = () => loaded({ session: session({ status: "waiting" }), pending: [asked] });
  daemon.answers["permission/content"] = () => ({ before: "one\n", after: "two\n", binary: false });
  daemon.answers["permission/preview"] = () => ({ files: [] });
  daemon.answers["permission/reply"] = async () => {
    if (restarted) {
      daemon.answers["session/load"] = () => loaded({ session: session({ status: "waiting" }), pending: [ask("r2")] });
      await sessions.open("s1");
      throw Object.assign(new Error("There is no such request."), { code: ErrorCode.UNKNOWN_REQUEST });
    }
    daemon.tell(event(5, "permission_replied", { requestId: "r1", reply: "once", feedback: null, by: "terminal", remembered: null, scope: "session", answers: [] }));
    return { accepted: false, by: "terminal" };
  };
  const { showInformationMessage } = window;
  const offers: string[] = [];
  // Nobody has looked at the notifications yet.
  window.showInformationMessage = (text) => {
    offers.push(text);
    return new Promise(() => undefined);
  };
  const before = open();
  await sessions.open("s1");
  const edited = { uri: Uri.from(address(AFTER, PROPOSED)), isDirty: true, getText: () => "mine\n", save: async () => true };
  Object.assign(workspace, { textDocuments: [edited] });
  await before.answer(asked, { reply: "once" });
  await settled();
  Object.assign(workspace, { textDocuments: [] });
  if (restarted) {
    window.showInformationMessage = showInformationMessage;
    assert.deepEqual([offers.filter((text) => text.includes("a.py")), drafts().texts("r2")], [[], { "a.py": "mine\n" }]);
    return before.dispose();
  }
  assert.equal(offers.filter((text) => text.includes("a.py")).length, 1);
  assert.deepEqual(drafts().texts("r1"), { "a.py": "mine\n" });
  before.dispose();
  // The window was reloaded.
  window.showInformationMessage = showInformationMessage;
  shown.splice(0);
  daemon.answers["session/load"] = () => loaded();
  await sessions.open("s1");
  const after = open();
  await settled();
  assert.deepEqual([shown.length, drafts().texts("r1")], [1, {}]);
  after.dispose();
});

test("edits that another window's answer left unused are offered until the user says", async () => {
  const { daemon, memory, sessions } = make();
  configured.set("openDiffAutomatically", false);
  const asked = request("r1", { files: [file("a.py")] });
  new Drafts(memory as unknown as vscode.Memento).setText(asked, "a.py", "mine\n");
  const open = (): Review => new Review(daemon as unknown as Daemon, sessions, memory as unknown as vscode.Memento, log, async () => undefined);
  const kept = (): unknown => new Drafts(memory as unknown as vscode.Memento).texts("r1");
  const { showInformationMessage } = window;
  const offers: string[] = [];
  // Nobody has looked at the notification yet.
  window.showInformationMessage = (text) => {
    offers.push(text);
    return new Promise(() => undefined);
  };
  daemon.answers["session/load"] = () => loaded({ session: session({ status: "waiting" }), pending: [asked] });
  const before = open();
  await sessions.open("s1");
  daemon.tell(event(5, "permission_replied", { requestId: "r1", reply: "once", feedback: null, by: "terminal", remembered: null, scope: "session", answers: [] }));
  await settled();
  assert.deepEqual([offers.length, kept()], [1, { "a.py": "mine\n" }]);
  before.dispose();
  // The window was reloaded.
  window.showInformationMessage = showInformationMessage;
  shown.splice(0);
  daemon.answers["session/load"] = () => loaded();
  await sessions.open("s1");
  const after = open();
  await settled();
  assert.deepEqual([shown.length, kept()], [1, {}]);
  after.dispose();
});

test("a diff that opens while older editors close stays open", async () => {
  const { daemon, review } = await opened([request("r1", { files: [file("a.py")] })]);
  const sides = (requestId: string) => [BEFORE, AFTER].map((scheme) => Uri.from(address(scheme as typeof AFTER, { requestId, path: "a.py" })));
  const tab = (requestId: string): { input: unknown } => ({ input: new TabInputTextDiff(sides(requestId)[0], sides(requestId)[1]) });
  const tabs = [tab("r1"), tab("r2")];
  let saved: () => void = () => undefined;
  const edited = { uri: sides("r1")[1], isDirty: true, getText: () => "mine\n", save: () => new Promise<void>((resolve) => (saved = resolve)) };
  const closed: unknown[] = [];
  const groups = { ...window.tabGroups };
  Object.assign(workspace, { textDocuments: [edited] });
  Object.assign(window.tabGroups, { all: [{ tabs: tabs.slice(0, 1) }], close: async (gone: readonly unknown[]) => void closed.push(...gone) });
  daemon.tell(event(5, "permission_replied", { requestId: "r1", reply: "once", feedback: null, by: "terminal", remembered: null, scope: "session", answers: [] }));
  await settled();
  daemon.tell(event(6, "permission_asked", { request: request("r2", { files: [file("a.py")] }) }));
  Object.assign(window.tabGroups, { all: [{ tabs }] });
  edited.isDirty = false;
  saved();
  await settled();
  Object.assign(workspace, { textDocuments: [] });
  Object.assign(window.tabGroups, { close: undefined }, groups);
  assert.deepEqual([closed.includes(tabs[0]), closed.includes(tabs[1])], [true, false]);
  review.dispose();
});
