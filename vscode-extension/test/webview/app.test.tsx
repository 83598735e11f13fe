import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { h, render } from "preact";
import { EMPTY, type ViewState } from "../../src/chat/webview/store";
import type { SessionLoadResult } from "../../src/protocol.gen";
import { fromLoad } from "../../src/session/state";
import { click, FakeNode, FakePage, words } from "../fakes/page";
import { event, loaded, request } from "../fakes/protocol";
import { named, settled } from "../fakes/session";

const posted: { type: string }[] = [];

/** The page of a chat, what its host stored, and a function that tells it something. */
async function page() {
  const page = new FakePage();
  const heard: ((event: unknown) => void)[] = [];
  const window = {
    addEventListener: (name: string, listener: (event: unknown) => void) => name === "message" && heard.push(listener),
    removeEventListener: (_: string, listener: (event: unknown) => void) => heard.splice(heard.indexOf(listener) >>> 0, 1),
  };
  const nothing = (): undefined => undefined;
  class Observer {
    observe = nothing;
    disconnect = nothing;
  }
  Object.assign(FakeNode.prototype, { querySelector: nothing, closest: nothing, contains: nothing, removeEventListener: nothing, getBoundingClientRect: () => ({ top: 0 }) });
  Object.assign(page, { addEventListener: nothing, removeEventListener: nothing, hasFocus: nothing, querySelector: nothing, documentElement: {} });
  Object.assign(globalThis, { document: page, window, MutationObserver: Observer, ResizeObserver: Observer, IntersectionObserver: Observer, Element: FakeNode });
  Object.assign(globalThis, { requestAnimationFrame: setImmediate, cancelAnimationFrame: clearImmediate, acquireVsCodeApi: () => ({ postMessage: (message: { type: string }) => posted.push(message) }) });
  const host = await import("../../src/chat/webview/host");
  const { App } = await import("../../src/chat/webview/app");
  const rested = async (): Promise<void> => {
    for (let n = 0; n < 20; n++) await settled();
  };
  posted.length = 0;
  render(h(App, {}), page.body as unknown as Element);
  while (!posted.some(({ type }) => type === "ready")) await settled();
  const say = async (data: object): Promise<void> => {
    for (const listener of [...heard]) listener({ data });
    await rested();
  };
  const show = (sessionId: string, over: Partial<SessionLoadResult> = {}, state: Partial<ViewState> = {}): Promise<void> =>
    say({ type: "state", state: { ...EMPTY, session: fromLoad(loaded({ session: named(sessionId), ...over })), ...state } });
  const close = (): void => render(null, page.body as unknown as Element);
  return { body: page.body, host, say, show, rested, close };
}

const button = (body: FakeNode, label: string): FakeNode | undefined => body.all("button").find((one) => words(one) === label);

let n = 0;
let id = "";
beforeEach(() => (id = `app${++n}`));

test("what is given back during an edit of an earlier message goes to the draft put aside", async () => {
  const { body, host, say, show, rested, close } = await page();
  await show(id);
  host.saveDraft(id, { text: "half a thought", files: [] });
  await say({ type: "restore", text: "the earlier message", attachments: [], instead: "m1" });
  await say({ type: "restore", text: "not sent", attachments: [] });
  assert.deepEqual(host.draftOf(id), { text: "the earlier message", files: [], instead: "m1" });
  click(button(body, "Cancel"));
  await rested();
  assert.equal(host.draftOf(id).text, "not sent\n\nhalf a thought");
  close();
});

test("a message that is chosen for an edit again leaves that edit, another one is added", async () => {
  const { host, say, show, close } = await page();
  await show(id);
  host.saveDraft(id, { text: "half a thought", files: [] });
  const edit = (text: string, instead: string, about: object = {}): Promise<void> => say({ type: "restore", text, attachments: [], instead, ...about });
  await edit("one", "m1");
  host.saveDraft(id, { text: "one, rewritten", files: [], instead: "m1" });
  await edit("one", "m1");
  assert.deepEqual(host.draftOf(id), { text: "one, rewritten", files: [], instead: "m1" });
  await edit("two", "m2");
  assert.deepEqual(host.draftOf(id), { text: "two\n\none, rewritten", files: [], instead: "m2" });
  await edit("two, not resent", "m2", { sessionId: id });
  assert.equal(host.draftOf(id).text, "two, not resent\n\ntwo\n\none, rewritten");
  assert.equal(host.takeBack(id).text, "half a thought");
  close();
});

test("feedback that was begun in the card comes back when another answer is given", async () => {
  const { body, host, say, show, close } = await page();
  const connection = { phase: "connected" as const, text: "", actions: [] };
  const ask = async (requestId: string): Promise<void> => {
    const asked = request(requestId, { traceId: id, toolCallId: requestId });
    await show(id, { session: { ...named(id), status: "waiting" }, pending: [asked] }, { surrounding: { ...EMPTY.surrounding, connection } });
    host.saveAnswer(asked, { feedback: `begun for ${requestId}` });
  };
  await ask("r1");
  await say({ type: "restore", text: "use tabs", attachments: [] });
  const [form] = body.all("form");
  const [name, submit] = [...(form?.listeners ?? [])].find(([one]) => one.toLowerCase().startsWith("submit")) ?? [];
  submit?.call(form, { type: name, preventDefault() {} });
  await say({ type: "updates", of: "session", updates: [replied("r1")] });
  assert.equal(host.draftOf(id).text, "begun for r1");
  await ask("r2");
  click(body.all("button").find((one) => words(one).startsWith("Accept")));
  await say({ type: "updates", of: "session", updates: [replied("r2")] });
  assert.equal(host.draftOf(id).text, "begun for r2\n\nbegun for r1");
  close();
});

test("what is given back goes to the session that it was written in", async () => {
  const { host, say, show, close } = await page();
  await show(id);
  await say({ type: "restore", sessionId: `${id}x`, text: "for the other one", attachments: [] });
  await say({ type: "restore", sessionId: "", text: "for a new one", attachments: [] });
  assert.deepEqual([id, `${id}x`, ""].map((one) => host.draftOf(one).text), ["", "for the other one", "for a new one"]);
  close();
});

const replied = (requestId: string) => event(5, "permission_replied", { requestId, reply: "once", feedback: null, by: "VS Code", remembered: null, scope: "session", answers: [] });
const stopped = (requestId: string) => event(5, "permission_replied", { requestId, reply: "canceled", feedback: null, by: "", remembered: null, scope: "session", answers: [] });
const ended = event(6, "turn_ended", { promptId: "p", stopReason: "canceled", detail: "", errorKind: "" });

test("what was begun for a request that ended with its turn is given back, others are not", async () => {
  const { host, say, show, close } = await page();
  const [one, two, other] = [request("r1", { toolCallId: "c1", traceId: id }), request("r2", { toolCallId: "c2", traceId: id }), request("r3", { traceId: `${id}x` })];
  await show(id, { session: { ...named(id), status: "waiting" }, pending: [one, two] });
  for (const asked of [one, two, other]) host.saveAnswer(asked, { feedback: `for ${asked.requestId}` });
  await say({ type: "updates", of: "session", updates: [stopped("r1")] });
  assert.equal(host.draftOf(id).text, "");
  await say({ type: "updates", of: "session", updates: [ended] });
  assert.equal(host.draftOf(id).text, "for r1");
  assert.deepEqual([one, two, other].map((asked) => host.answerOf(asked).feedback), [undefined, "for r2", "for r3"]);
  close();
});

test("what was begun for a request that ended out of sight is given back once its session is at rest", async () => {
  const { host, show, close } = await page();
  const one = request("r1", { traceId: id });
  host.saveAnswer(one, { feedback: "half a thought" });
  // Messages from the disk stand for the session: its requests are not known yet.
  await show(id, {}, { previewed: true });
  await show(id, { session: { ...named(id), status: "running" } });
  assert.equal(host.draftOf(id).text, "");
  await show(id);
  assert.deepEqual([host.draftOf(id).text, host.answerOf(one)], ["half a thought", {}]);
  close();
});

test("an edit of a queued prompt outlasts a preview, which knows no queue", async () => {
  const { host, show, close } = await page();
  host.saveEdit(`${id}p`, { sessionId: id, text: "half a thought", original: "old" });
  await show(id, {}, { previewed: true });
  assert.equal(host.editOf(`${id}p`), "half a thought");
  await show(id);
  assert.deepEqual([host.editOf(`${id}p`), host.draftOf(id).text], [null, "half a thought"]);
  close();
});

test("the answers of a card are sent again after the daemon rejected them", async () => {
  const { body, host, say, show, close } = await page();
  const questions = ["DB?", "Name?"].map((text) => ({ text, options: [{ label: "Postgres", description: "" }], multiple: false }));
  const asked = request("r1", { traceId: id, questions });
  const begun = { answers: [{ chosen: ["Postgres"], text: "" }, { chosen: [], text: "" }] };
  host.saveAnswer(asked, begun);
  const connection = { phase: "connected" as const, text: "", actions: [] };
  await show(id, { session: { ...named(id), status: "waiting" }, pending: [asked] }, { surrounding: { ...EMPTY.surrounding, connection } });
  const refused = (): Promise<void> => say({ type: "refused", requestId: "r1" });
  const send = async (text: string): Promise<unknown> => {
    await say({ type: "restore", text, attachments: [] });
    const [form] = body.all("form");
    const [name, submit] = [...(form?.listeners ?? [])].find(([one]) => one.toLowerCase().startsWith("submit")) ?? [];
    submit?.call(form, { type: name, preventDefault() {} });
    return (posted.findLast(({ type }) => type === "reply") as { answer?: { answers: unknown } } | undefined)?.answer?.answers;
  };
  await send("too long");
  assert.deepEqual(host.answerOf(asked), {});
  await refused();
  assert.deepEqual(await send("ok"), [{ chosen: ["Postgres"], text: "" }, { chosen: [], text: "ok" }]);
  await refused();
  click(button(body, "Send answer"));
  assert.deepEqual(host.answerOf(asked), {});
  await refused();
  assert.deepEqual(host.answerOf(asked), begun);
  close();
});

test("the focus goes back to where it was, and else to the composer", async () => {
  const { body, say, show, close } = await page();
  await show(id);
  const focused: string[] = [];
  const note = (name: string) => (): unknown => focused.push(name);
  const composer = body.all("textarea")[0];
  assert.ok(composer);
  Object.assign(composer, { focus: note("composer") });
  const at = (activeElement: unknown): unknown => Object.assign(document, { activeElement });
  at({ focus: note("model") });
  await say({ type: "focus", last: true });
  await say({ type: "focus" });
  at(document.body);
  await say({ type: "focus", last: true });
  assert.deepEqual(focused, ["model", "composer", "composer"]);
  close();
});

test("what a mention brings goes to the draft that it was written in", async () => {
  const { host, say, show, close } = await page();
  await show(id);
  host.saveDraft(id, { text: "see @changes and @terminal", files: [] });
  const other = `${id}b`;
  host.saveDraft(other, { text: "@terminal too", files: [] });
  await show(other);
  const diff = { type: "file", name: "changes.diff", mediaType: "text/plain", data: "" } as const;
  await say({ type: "attach", sessionId: id, attachments: [diff], mention: "@changes" });
  await say({ type: "unattached", sessionId: id, mention: "@terminal", reason: "No terminal is open." });
  assert.deepEqual(host.draftOf(id).files, [{ ...diff, mention: "@changes" }]);
  assert.deepEqual([host.draftOf(id).text.includes("@terminal"), host.draftOf(other).text], [false, "@terminal too"]);
  close();
});
