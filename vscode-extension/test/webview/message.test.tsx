import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import { fromLoad } from "../../src/session/state";
import { loaded, message, session, text } from "../fakes/protocol";
import { FakePage } from "../fakes/page";

test("a message is the beginning of a fork, but not in a session that somebody else began", async () => {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { MessageView } = await import("../../src/chat/webview/message");
  const said = message("user", 1, [text("go")]);
  const titles = (foreign: boolean): string[] => {
    const state = fromLoad(loaded({ session: session({ foreign }), messages: [said] }));
    const view = h(MessageView, { id: "m1", role: "user", parts: said.content, session: state, changes: {}, explored: { scores: {}, records: {} } as never, streaming: false, editable: true, retryable: false });
    const box = page.createElement("div");
    render(view, box as unknown as Element);
    return box.all("button").map((button) => String(button.title));
  };
  assert.deepEqual(titles(false), ["Edit and resend", "Fork from here"]);
  assert.deepEqual(titles(true), ["Edit and resend"]);
});
