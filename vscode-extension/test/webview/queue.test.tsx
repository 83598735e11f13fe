import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import type { QueuedPrompt } from "../../src/protocol.gen";
import { click, FakePage, words } from "../fakes/page";

const posted: { type: string }[] = [];

test("a prompt takes the focus when its edit starts, not after a reload or with each word of an answer", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: (message: { type: string }) => posted.push(message) }) });
  const { saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  const prompt = { promptId: "p1", text: "old", steer: false, planner: null, attachments: [], held: false } as unknown as QueuedPrompt;
  saveEdit("p1", { sessionId: "s1", text: "half a thought", original: "old" });
  const draw = (): void => render(h(Queue, { sessionId: "s1", queue: [prompt], idle: false, onGone: () => undefined }), page.body as unknown as Element);
  for (let n = 0; n < 3; n++) draw();
  assert.equal(page.body.all("textarea").length, 1);
  assert.deepEqual(page.focused, []);
  click(page.body.all("button").find((button) => words(button) === "Cancel"));
  draw();
  click(page.body.all("button").find(({ title }) => title === "Edit"));
  for (let n = 0; n < 3; n++) draw();
  assert.deepEqual(page.focused, ["textarea"]);
});

test("Send saves a prompt that is being edited first, and the edit's own button is Cancel", async () => {
  const page = new FakePage();
  const { saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  Object.assign(globalThis, { document: page });
  posted.length = 0;
  const prompt = { promptId: "p2", text: "old", steer: false, planner: null, attachments: [], held: false } as unknown as QueuedPrompt;
  saveEdit("p2", { sessionId: "s1", text: "new", original: "old" });
  render(h(Queue, { sessionId: "s1", queue: [prompt], idle: true, onGone: () => undefined }), page.body as unknown as Element);
  const buttons = page.body.all("button");
  assert.deepEqual(buttons.map(words), ["Send", "Discard", "Save", "Cancel"]);
  click(buttons[0]);
  const told = posted.filter(({ type }) => type === "editQueue" || type === "sendQueue");
  assert.deepEqual(told, [{ type: "editQueue", promptId: "p2", text: "new" }, { type: "sendQueue" }]);
});

test("what a stop held has the buttons, also while another turn runs, and the rest follows by itself", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { Queue } = await import("../../src/chat/webview/queue");
  const prompt = (promptId: string, held: boolean): QueuedPrompt => ({ promptId, text: promptId, steer: false, planner: null, attachments: [], held });
  const draw = (queue: QueuedPrompt[], idle: boolean): string => {
    render(h(Queue, { sessionId: "s1", queue, idle, onGone: () => undefined }), page.body as unknown as Element);
    return page.body.all("span").map((span) => span.childNodes.map((node) => node.data).join("")).join("|");
  };
  assert.match(draw([prompt("later", false), prompt("stopped", true)], false), /^1 queued\|stopped\|.*Next\|later/);
  assert.doesNotMatch(draw([prompt("later", false)], false), /queued/);
  assert.match(draw([prompt("later", false)], true), /^1 queued\|later/);
});

test("an edit whose prompt was sent or removed elsewhere is given back, others are not", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { editOf, saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  const prompt = (promptId: string): QueuedPrompt => ({ promptId, text: "old", steer: false, planner: null, attachments: [], held: true });
  const back: string[] = [];
  const draw = (...ids: string[]): void => render(h(Queue, { sessionId: "s1", queue: ids.map(prompt), idle: true, onGone: (text: string) => back.push(text) }), page.body as unknown as Element);
  for (const [id, text] of [["p5", "half a thought"], ["p6", "old"], ["p7", "kept"]] as const) saveEdit(id, { sessionId: "s1", text, original: "old" });
  draw("p5", "p6", "p7", "p8");
  draw("p7");
  assert.deepEqual([back, editOf("p5"), editOf("p7")], [["half a thought"], null, "kept"]);
  click(page.body.all("button").find((button) => words(button) === "Discard"));
  draw();
  assert.deepEqual(back, ["half a thought"]);
});

test("an edit whose prompt went away while the queue was not shown is given back with its session", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { editOf, saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  const back: string[] = [];
  const draw = (sessionId: string): void => render(h(Queue, { key: sessionId, sessionId, queue: [], idle: true, onGone: (text: string) => back.push(`${sessionId}: ${text}`) }), page.body as unknown as Element);
  saveEdit("p9", { sessionId: "s9", text: "half a thought", original: "old" });
  draw("s8");
  assert.deepEqual([back, editOf("p9")], [[], "half a thought"]);
  draw("s9");
  assert.deepEqual([back, editOf("p9")], [["s9: half a thought"], null]);
});
