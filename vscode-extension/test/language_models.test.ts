import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import * as vscode from "vscode";
import { textOf, toEnding, toMessages, toPiece, toTools, type WireMessage } from "../src/models/language_model_wire";
import { LanguageModels, Outbox, TokenCounts } from "../src/models/language_models";
import type { AnswerPiece, EditorChat, ModelAnswerParams } from "../src/protocol.gen";
import { chatModels, chatModelsChanged, LanguageModelThinkingPart } from "./fakes/vscode";

const call = (id: string) => ({ id, function: { name: "read", arguments: '{"a":1}' } });
const CONVERSATION: WireMessage[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBO" } }, { type: "text", text: "look" }] },
  { role: "assistant", content: null, tool_calls: [call("c1"), call("c2")] },
  { role: "tool", tool_call_id: "c1", content: "one" },
  { role: "tool", tool_call_id: "c2", content: "two" },
  { role: "user", content: "and now?" },
];
const ASKED: EditorChat = { chatId: "c", model: "tests/one", messages: [{ role: "user", content: "hello" }], tools: [] };

beforeEach(() => {
  chatModels.splice(0);
});

test("a conversation has no system role, and the results of one message together", () => {
  const { User, Assistant } = vscode.LanguageModelChatMessageRole;
  const messages = toMessages(CONVERSATION, true);
  assert.deepEqual(messages.map(({ role }) => role), [User, User, Assistant, User, User]);
  assert.deepEqual(messages.map(({ content }) => content.map((part) => part.constructor.name.replace(/^_?LanguageModel|^_/g, ""))), [
    ["TextPart"], ["DataPart", "TextPart"], ["ToolCallPart", "ToolCallPart"], ["ToolResultPart", "ToolResultPart"], ["TextPart"],
  ]);
  const [, said] = toMessages(CONVERSATION, false);
  assert.match((said!.content[0] as vscode.LanguageModelTextPart).value, /image was left out/);
  assert.equal(textOf(CONVERSATION[2]!), 'read {"a":1}\nread {"a":1}');
  const parameters = { type: "object" };
  assert.deepEqual(toTools([{ function: { name: "read", description: "Read.", parameters } }]), [{ name: "read", description: "Read.", inputSchema: parameters }]);
});

test("parts of an answer become pieces, unknown ones nothing", () => {
  assert.deepEqual(toPiece(new vscode.LanguageModelTextPart("a")), { text: "a" });
  assert.deepEqual(toPiece(new LanguageModelThinkingPart(["a", "b"])), { reasoning: "ab" });
  assert.deepEqual(toPiece(new vscode.LanguageModelToolCallPart("c", "read", { x: 1 })), { callId: "c", callName: "read", callInput: '{"x":1}' });
  for (const other of [new vscode.LanguageModelTextPart(""), vscode.LanguageModelDataPart.image(new Uint8Array(), "image/png"), {}, "text"]) assert.equal(toPiece(other), undefined);
});

test("errors keep their name and their cause's words", () => {
  const made = (code: string, cause?: unknown) => new (vscode.LanguageModelError as unknown as new (message: string, code: string, cause?: unknown) => Error)("", code, cause);
  assert.deepEqual(toEnding(made("NoPermissions")), { error: "NoPermissions", message: "" });
  assert.deepEqual(toEnding(made("Unknown", new Error("Request Failed: 429"))), { error: "unknown", message: "Request Failed: 429" });
  assert.deepEqual(toEnding(made("Unknown", new Error("off_topic: no"))), { error: "OffTopic", message: "off_topic: no" });
  assert.deepEqual(toEnding(new Error("fetch failed")), { error: "unknown", message: "fetch failed" });
  assert.deepEqual(toEnding("odd"), { error: "unknown", message: "odd" });
});

test("one message is on its way at a time, and what comes meanwhile goes together", async () => {
  const sent: AnswerPiece[][] = [];
  const replies: (() => void)[] = [];
  const outbox = new Outbox((pieces) => {
    sent.push(pieces);
    return new Promise((resolve) => replies.push(() => resolve({ wanted: true })));
  }, () => assert.fail("it is wanted"));
  await outbox.add({ text: "a" });
  await outbox.add({ text: "b" });
  await new Promise((resolve) => setImmediate(resolve));
  await outbox.add({ text: "c" });
  await outbox.add({ callName: "read", callInput: "{}" });
  const ending = outbox.end({});
  assert.deepEqual(sent, [[{ text: "ab" }]]);
  for (let n = 0; n < 3; n++) {
    await new Promise((resolve) => setImmediate(resolve));
    replies.shift()?.();
  }
  await ending;
  assert.deepEqual(sent, [[{ text: "ab" }], [{ text: "c" }, { callName: "read", callInput: "{}" }], []]);
});

test("a long text is cut, and waits for room", async () => {
  const sizes: number[] = [];
  const outbox = new Outbox((pieces) => {
    sizes.push(...pieces.map(({ text }) => text!.length));
    return Promise.resolve({ wanted: true });
  }, () => undefined);
  await outbox.add({ text: "x".repeat(2_500_000) });
  await outbox.end({});
  assert.equal(sizes.reduce((sum, size) => sum + size, 0), 2_500_000);
  assert.ok(Math.max(...sizes) <= 2_000_000);
});

test("a daemon that has gone or wants no more cancels the call", async () => {
  for (const reply of [() => Promise.resolve({ wanted: false }), () => Promise.reject(new Error("closed"))]) {
    let canceled = 0;
    const outbox = new Outbox(reply, () => canceled++);
    await outbox.add({ text: "a" });
    await outbox.end({});
    assert.deepEqual([outbox.wanted, canceled], [false, 1]);
  }
});

test("a message that the daemon rejects ends the answer with the reason", async () => {
  const endings: unknown[] = [];
  const outbox = new Outbox((_, ending) => {
    endings.push(ending);
    return ending ? Promise.resolve({ wanted: false }) : Promise.reject(new Error("too long"));
  }, () => undefined);
  await outbox.add({ text: "a" });
  await outbox.end({});
  assert.deepEqual(endings, [null, { error: "unknown", message: "Error: too long" }]);
});

test("only what is new in a conversation is counted", async () => {
  const counted: string[] = [];
  const model = { vendor: "tests", id: "one", countTokens: async (text: unknown) => {
    counted.push(String(text));
    return String(text).length;
  } };
  const counts = new TokenCounts();
  assert.equal(await counts.ofPrompt(model, ["aa", "bbb"]), 5);
  assert.equal(await counts.ofPrompt(model, ["aa", "bbb", "c"]), 6);
  assert.equal(await counts.ofPrompt(model, ["aa", "d"]), 3);
  assert.deepEqual(counted, ["aa", "bbb", "c", "d"]);
  assert.equal(await counts.ofPrompt({ ...model, countTokens: () => Promise.reject(new Error("no")) }, ["new"]), null);
  assert.equal(await counts.of({ ...model, countTokens: () => Promise.resolve(Number.NaN) }, "x"), null);
});

/** A model whose answer has these parts, and what the daemon got. */
function offer(stream: () => AsyncIterable<unknown>, more: object = {}) {
  const got: ModelAnswerParams[] = [];
  const calls: vscode.CancellationToken[] = [];
  chatModels.push({
    vendor: "tests", id: "one", name: "One", maxInputTokens: Number.POSITIVE_INFINITY, countTokens: (text: string) => Promise.resolve(text.length),
    sendRequest: (_messages: unknown, _options: unknown, token: vscode.CancellationToken) => {
      calls.push(token);
      return Promise.resolve({ stream: stream() });
    },
    ...more,
  } as never);
  const send = async (params: ModelAnswerParams) => {
    got.push(params);
    return { wanted: true };
  };
  return { got, calls, send };
}
const models = (can = true) => new LanguageModels({ canSendRequest: () => can } as never);

test("an answer is sent with its counts", async () => {
  const { got, send } = offer(async function* () {
    yield new vscode.LanguageModelTextPart("hi");
  });
  assert.deepEqual((await models().list()).models, [{ vendor: "tests", id: "one", name: "One", maxInputTokens: 0, tools: null }]);
  await models().chat(ASKED, send);
  assert.deepEqual(got, [
    { chatId: "c", pieces: [{ text: "hi" }], ending: null },
    { chatId: "c", pieces: [], ending: { inputTokens: 7, outputTokens: 2 } },
  ]);
});

test("a canceled call sends no ending, also when the daemon has gone", async () => {
  for (const how of ["cancel", "cancelAll"] as const) {
    const bridge = models();
    const { got, send } = offer(async function* () {
      bridge[how]("c");
      yield await Promise.reject(new Error("Canceled"));
    });
    await bridge.chat(ASKED, send);
    assert.deepEqual(got, []);
    chatModels.splice(0);
  }
});

test("a model whose extension is still starting is waited for", async () => {
  const bridge = models();
  const ended: ModelAnswerParams[] = [];
  const done = bridge.chat(ASKED, async (params) => {
    ended.push(params);
    return { wanted: true };
  });
  await new Promise((resolve) => setImmediate(resolve));
  offer(async function* () {
    yield new vscode.LanguageModelTextPart("late");
  });
  chatModelsChanged.fire();
  await done;
  assert.deepEqual(ended[0]?.pieces, [{ text: "late" }]);
});

test("calls wait while VS Code asks the user, and share a refusal", async () => {
  let answer: (() => void) | undefined;
  const refused = new (vscode.LanguageModelError as unknown as new (message: string, code: string) => Error)("no", "NoPermissions");
  let asked = 0;
  const { got, send } = offer(async function* () {}, {
    sendRequest: () => {
      asked++;
      return new Promise((_, reject) => (answer = () => reject(refused)));
    },
  });
  const bridge = models(false);
  const both = [bridge.chat(ASKED, send), bridge.chat({ ...ASKED, chatId: "d" }, send)];
  for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
  answer?.();
  await Promise.all(both);
  assert.equal(asked, 1);
  assert.deepEqual(got.map(({ chatId, ending }) => [chatId, ending?.error]), [["c", "NoPermissions"], ["d", "NoPermissions"]]);
});

test("a call that is canceled while VS Code asks does not end the next", async () => {
  const calls: { resolve: (response: unknown) => void; reject: (error: Error) => void }[] = [];
  const { got, send } = offer(async function* () {}, {
    sendRequest: () => new Promise((resolve, reject) => calls.push({ resolve, reject })),
  });
  const bridge = models(false);
  const both = [bridge.chat(ASKED, send), bridge.chat({ ...ASKED, chatId: "d" }, send)];
  const settled = async (): Promise<void> => {
    for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
  };
  await settled();
  bridge.cancel("c");
  calls[0]?.reject(new Error("Canceled"));
  await settled();
  calls[1]?.resolve({ stream: (async function* () {})() });
  await Promise.all(both);
  assert.deepEqual(got.map(({ chatId, ending }) => [chatId, ending?.error]), [["d", undefined]]);
});
