import assert from "node:assert/strict";
import { test } from "node:test";
import { h, render } from "preact";
import { fromLoad } from "../../src/session/state";
import type { SessionInfo } from "../../src/protocol.gen";
import { goal, loaded, message, session, text } from "../fakes/protocol";
import { FakePage, words } from "../fakes/page";

const NOTHING = { outbox: [], changes: {}, explored: { scores: {}, records: {} } as never, local: ["ollama"], own: true };

/** The buttons below a turn that has ended, in a session of an agent. */
async function buttonsOf(info: Partial<SessionInfo>, model: string, agent = "build", goals = [goal("1", { status: "pending" })]): Promise<string[]> {
  const page = new FakePage();
  Object.assign(globalThis, { document: page, acquireVsCodeApi: () => ({ postMessage: () => undefined }) });
  const { Transcript } = await import("../../src/chat/webview/transcript");
  const usual = session(info);
  const ended = { ...usual, trace: { ...usual.trace, agent, lastStopReason: "end_turn" as const } };
  const messages = [message("user", 1, [text("Explain this project")]), message("assistant", 2, [text("Well.")], { model })];
  const state = fromLoad(loaded({ session: ended, messages, goalTree: { mission: "", currentId: null, goals } }));
  render(h(Transcript, { session: state, ...NOTHING }), page.body as unknown as Element);
  return page.body.all("button").map(words).filter(Boolean);
}

test("below the answer of the demo stands the card that connects a model", async () => {
  const buttons = await buttonsOf({ demo: true }, "demo/demo");
  assert.deepEqual(buttons.slice(0, 2), ["Ollama (running)", "Anthropic"]);
  assert.ok(!(await buttonsOf({ demo: false }, "anthropic/x")).includes("Anthropic"));
});

test("once a model is connected, what the demo answered can be tried again", async () => {
  assert.deepEqual(await buttonsOf({ demo: false }, "demo/demo"), ["Retry"]);
});

test("a plan can be built after a turn of the agent plan, written as goals or as text", async () => {
  assert.deepEqual(await buttonsOf({}, "anthropic/x", "plan"), ["Build this plan"]);
  assert.deepEqual(await buttonsOf({}, "anthropic/x", "plan", []), ["Build this plan"]);
  assert.deepEqual(await buttonsOf({}, "anthropic/x", "plan", [goal("1", { status: "completed" })]), []);
  assert.deepEqual(await buttonsOf({}, "anthropic/x", "build", []), []);
});
