import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import type { QueuedPrompt } from "../../src/protocol.gen";

/** As much of a page as Preact asks for, and which of its elements got the focus. */
class FakeNode {
  parentNode: FakeNode | null = null;
  childNodes: FakeNode[] = [];
  readonly listeners = new Map<string, (event: unknown) => void>();
  readonly style = {};
  data = "";

  constructor(
    readonly localName: string,
    readonly page: FakePage,
  ) {}

  get firstChild(): FakeNode | null {
    return this.childNodes[0] ?? null;
  }

  get nextSibling(): FakeNode | null {
    const siblings = this.parentNode?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  insertBefore(node: FakeNode, before: FakeNode | null): void {
    node.remove();
    this.childNodes.splice(before ? this.childNodes.indexOf(before) : this.childNodes.length, 0, node);
    node.parentNode = this;
  }

  remove(): void {
    if (this.parentNode) this.parentNode.childNodes = this.parentNode.childNodes.filter((one) => one !== this);
    this.parentNode = null;
  }

  removeChild(node: FakeNode): void {
    node.remove();
  }

  setAttribute(name: string, value: unknown): void {
    Object.assign(this, { [`@${name}`]: value });
  }

  removeAttribute(): void {}

  addEventListener(name: string, listener: (event: unknown) => void): void {
    this.listeners.set(name, listener);
  }

  focus(): void {
    this.page.focused.push(this.localName);
  }

  all(name: string): FakeNode[] {
    return this.childNodes.flatMap((node) => [...(node.localName === name ? [node] : []), ...node.all(name)]);
  }
}

class FakePage {
  readonly focused: string[] = [];
  readonly body = new FakeNode("body", this);
  createElementNS = (_: string, name: string): FakeNode => new FakeNode(name, this);
  createElement = (name: string): FakeNode => new FakeNode(name, this);
  createTextNode = (data: string): FakeNode => Object.assign(new FakeNode("#text", this), { data });
  getElementById = (): null => null;
}

test("a prompt that is being edited takes the focus once, not with each word of an answer", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { saveEdit } = await import("../../src/chat/webview/host");
  const { Queue } = await import("../../src/chat/webview/queue");
  const prompt = { promptId: "p1", text: "old", steer: false, planner: null, attachments: [] } as unknown as QueuedPrompt;
  saveEdit("p1", "half a thought");
  const draw = (): void => render(h(Queue, { queue: [prompt], paused: false }), page.body as unknown as Element);
  for (let n = 0; n < 3; n++) draw();
  assert.equal(page.body.all("textarea").length, 1);
  assert.deepEqual(page.focused, ["textarea"]);
});
