import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import { file, request } from "../fakes/protocol";
import { FakePage, words } from "../fakes/page";

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
