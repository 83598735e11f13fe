import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import { file, request } from "../fakes/protocol";
import { click, FakePage, words } from "../fakes/page";
import { settled } from "../fakes/session";

test("while no daemon is there, no button answers and each says why", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { Approval } = await import("../../src/chat/webview/approval");
  const requests = [request("r1", { files: [file("a.py"), file("b.py")] }), request("r2", { files: [file("c.py")] })];
  const open = (away: boolean): string[] => {
    const box = page.createElement("div");
    const view = h(Approval, { requests, request: requests[0]!, choices: {}, keys: { accept: "a", reject: "r" }, places: { home: "", folder: "" }, onFront: () => undefined, away });
    render(view, box as unknown as Element);
    const enabled = box.all("button").filter((button) => (button as unknown as Record<string, unknown>)["@disabled"] !== true);
    return enabled.map((button) => words(button) || String(button.title)).filter((label) => /accept|reject|always|suggest/i.test(label));
  };
  assert.deepEqual(open(true), []);
  assert.deepEqual(open(false).slice(0, 2), ["Accept all 2 edits", "Reject all"]);
});

test("feedback takes the focus when the user opens it, not with its card", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { Approval } = await import("../../src/chat/webview/approval");
  const { saveAnswer } = await import("../../src/chat/webview/host");
  const asked = request("r1");
  saveAnswer(asked, { feedback: "half a thought" });
  const view = h(Approval, { requests: [asked], request: asked, choices: {}, keys: { accept: "a", reject: "r" }, places: { home: "", folder: "" }, onFront: () => undefined, away: false });
  const flip = async (): Promise<void> => {
    click(page.body.all("button").find((button) => words(button) === "Suggest changes…"));
    await settled();
  };
  render(view, page.body as unknown as Element);
  assert.deepEqual([page.body.all("textarea").length, page.focused], [1, []]);
  await flip();
  await flip();
  assert.deepEqual(page.focused, ["textarea"]);
});
