import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import type { QueuedPrompt } from "../../src/protocol.gen";
import { click, FakePage, words } from "../fakes/page";

const posted: { type: string }[] = [];

test("a prompt that is being edited takes the focus once, not with each word of an answer", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: (message: { type: string }) => posted.push(message) }) });
  const { saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  const prompt = { promptId: "p1", text: "old", steer: false, planner: null, attachments: [] } as unknown as QueuedPrompt;
  saveEdit("p1", "half a thought");
  const draw = (): void => render(h(Queue, { queue: [prompt], paused: false }), page.body as unknown as Element);
  for (let n = 0; n < 3; n++) draw();
  assert.equal(page.body.all("textarea").length, 1);
  assert.deepEqual(page.focused, ["textarea"]);
});

test("Send saves a prompt that is being edited first, and the edit's own button is Cancel", async () => {
  const page = new FakePage();
  const { saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  Object.assign(globalThis, { document: page });
  posted.length = 0;
  const prompt = { promptId: "p2", text: "old", steer: false, planner: null, attachments: [] } as unknown as QueuedPrompt;
  saveEdit("p2", "new");
  render(h(Queue, { queue: [prompt], paused: true }), page.body as unknown as Element);
  const buttons = page.body.all("button");
  assert.deepEqual(buttons.map(words), ["Send", "Discard", "Save", "Cancel"]);
  click(buttons[0]);
  const told = posted.filter(({ type }) => type === "editQueue" || type === "sendQueue");
  assert.deepEqual(told, [{ type: "editQueue", promptId: "p2", text: "new" }, { type: "sendQueue" }]);
});
