import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import { ModelCommands } from "../src/models/commands";
import { ProviderKeys } from "../src/models/keys";
import { addressProblem, keyProblem, modelFacts, pastedKey, providerOfKey, thinkingWord } from "../src/models/format";
import type { ModelProvider } from "../src/protocol.gen";
import type { SessionController } from "../src/session/controller";
import { fromLoad } from "../src/session/state";
import { loaded, session } from "./fakes/protocol";
import { answers, boxes, configured, FakeSecrets, opened, picks, shown } from "./fakes/vscode";

const KEY = `sk-ant-${"a".repeat(40)}`;
const SONNET = { model: "anthropic/claude-sonnet-5-5", window: 1_000_000, windowAssumed: false, inputPrice: 2, outputPrice: 10, label: "" };
const OPUS = { model: "anthropic/claude-opus-5-5", window: 1_000_000, windowAssumed: false, inputPrice: 4, outputPrice: 20, label: "" };
const FACTS = "1M window · $2 in / $10 out per 1M tokens";

function provider(over: Partial<ModelProvider> = {}): ModelProvider {
  return {
    id: "anthropic", name: "Anthropic", keyVariable: "ANTHROPIC_API_KEY", urlVariable: "", keyPage: "https://keys.example", how: "", connected: false, models: [],
    default: "", error: "", errorKind: null, ...over,
  };
}
const ready = provider({ connected: true, models: [OPUS, SONNET], default: SONNET.model });

function makeMemory() {
  const kept = new Map<string, unknown>();
  return { get: <T>(key: string, otherwise?: T) => (kept.get(key) ?? otherwise) as T, update: async (key: string, value: unknown) => void kept.set(key, value) };
}

/** The commands over a daemon that answers as it is told, and notes what it was asked. */
function make({ lists = [ready], tests = [{}], inSession = false, problem = "", refuse }: { lists?: ModelProvider[]; tests?: object[]; inSession?: boolean; problem?: string; refuse?: Error } = {}) {
  const asked: [string, Record<string, unknown>][] = [];
  const [left, results] = [[...lists], [...tests]];
  const request = async (method: string, params: Record<string, unknown>): Promise<unknown> => {
    const name = method.replace("goalwright/", "");
    asked.push([name, params]);
    if (name === "model/list") return { providers: [left.length > 1 ? left.shift() : left[0]] };
    if (name === "model/test") return { window: 1_000_000, windowAssumed: false, inputPrice: 2, outputPrice: 10, seconds: 1, error: "", errorKind: null, ...(results.shift() ?? {}) };
    if (refuse) throw refuse;
    return { problem };
  };
  const daemon = { request, state: { phase: "connected", status: { model: "demo/demo" } } } as unknown as Daemon;
  const state = inSession ? fromLoad(loaded({ session: session() })) : undefined;
  const sessions = { state, sessionId: state?.session.trace.traceId, ensure: async () => sessions.sessionId };
  const secrets = new FakeSecrets();
  const memory = makeMemory();
  const keys = new ProviderKeys(secrets as never, memory, () => undefined);
  return { asked, secrets, keys, sessions, commands: new ModelCommands({ daemon, sessions: sessions as unknown as SessionController, keys, globalState: memory as never }) };
}

const settled = async (): Promise<void> => {
  for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
};
const box = (): (typeof boxes)[number] => boxes.at(-1)!;

beforeEach(() => {
  for (const list of [answers, boxes, opened, picks, shown]) list.splice(0);
  configured.clear();
});

test("a pasted key is checked, tested and kept, and its model is that of new sessions", async () => {
  const { commands, asked, keys, secrets } = make();
  const done = commands.connect("anthropic");
  await settled();
  assert.ok(box().password);
  assert.match(box().prompt, /secret storage/);
  box().type(KEY); // without Enter
  await done;
  assert.deepEqual(asked, [
    ["model/list", { provider: "anthropic", env: {} }],
    ["model/list", { provider: "anthropic", env: { ANTHROPIC_API_KEY: KEY } }],
    ["model/test", { model: SONNET.model, env: { ANTHROPIC_API_KEY: KEY } }],
  ]);
  assert.deepEqual(keys.variables, { ANTHROPIC_API_KEY: KEY });
  assert.ok([...secrets.values.values()].some((value) => value.includes(KEY)));
  assert.equal(configured.get("model"), SONNET.model);
  assert.ok(shown.includes(`Connected to ${SONNET.model}: ${FACTS}.`));
  assert.ok(!shown.some((text) => text.includes(KEY)));
});

test("an error in the model picker after connecting is shown", async () => {
  const { commands } = make({ refuse: new Error("The connection was lost.") });
  const done = commands.connect("anthropic");
  await settled();
  answers.push("Choose Another Model…");
  box().type(KEY);
  await done;
  await settled();
  picks.at(-1)!.enter(OPUS.model);
  await settled();
  assert.equal(shown.at(-1), "The connection was lost.");
});

test("a key that is refused is asked for again, with the reason in the field, and is not kept", async () => {
  const { commands, keys } = make({ lists: [provider(), provider({ error: "api.anthropic.com rejected the API key.", errorKind: "auth" }), ready] });
  const done = commands.connect("anthropic");
  await settled();
  box().type(`sk-ant-${"wrong".repeat(8)}`);
  await settled();
  assert.equal(boxes.length, 2);
  assert.equal(box().validationMessage, "api.anthropic.com rejected the API key.");
  assert.deepEqual(keys.variables, {});
  box().type(KEY);
  await done;
  assert.deepEqual(keys.variables, { ANTHROPIC_API_KEY: KEY });
});

test("what is no key of this provider is said before anything is sent", async () => {
  const { commands, asked } = make();
  void commands.connect("anthropic");
  await settled();
  box().type(`sk-or-${"b".repeat(30)}`);
  box().enter();
  assert.equal(box().validationMessage, "This looks like a key of OpenRouter.");
  box().press(0);
  assert.deepEqual(opened, ["https://keys.example"]);
  box().hide();
  await settled();
  assert.deepEqual(asked, [["model/list", { provider: "anthropic", env: {} }]]);
});

test("a test that fails offers what mends it", async () => {
  const failed = { error: "The model is not available to your account.", errorKind: "bad_request" };
  const { commands, asked, keys } = make({ tests: [failed, {}] });
  answers.push("Choose Another Model…", OPUS.model);
  const done = commands.connect("anthropic");
  await settled();
  box().type(KEY);
  await done;
  assert.deepEqual(asked.filter(([name]) => name === "model/test").map(([, { model }]) => model), [SONNET.model, OPUS.model]);
  assert.equal(configured.get("model"), OPUS.model);
  assert.deepEqual(keys.variables, { ANTHROPIC_API_KEY: KEY });
});

test("a server of one's own needs an address, and may need no key", async () => {
  const custom = provider({ id: "custom", name: "OpenAI-compatible server", keyVariable: "CUSTOM_API_KEY", urlVariable: "CUSTOM_API_BASE", keyPage: "" });
  const found = { ...custom, connected: true, models: [{ ...SONNET, model: "custom/mine", inputPrice: null, outputPrice: null, label: "" }], default: "custom/mine" };
  const { commands, keys } = make({ lists: [custom, found] });
  answers.push("http://localhost:8000/v1 ");
  const done = commands.connect("custom");
  await settled();
  box().enter();
  await done;
  assert.deepEqual(keys.variables, { CUSTOM_API_BASE: "http://localhost:8000/v1" });
  assert.equal(configured.get("model"), "custom/mine");
});

test("a local server that is not running is explained, and found when it is", async () => {
  const ollama = provider({ id: "ollama", name: "Ollama", keyVariable: "", keyPage: "" });
  const { commands, keys } = make({ lists: [ollama, { ...ollama, connected: true, models: [SONNET], default: "ollama/qwen3:8b" }] });
  answers.push("Retry");
  await commands.connect("ollama");
  assert.ok(shown.some((text) => text.includes("ollama serve")));
  assert.equal(configured.get("model"), "ollama/qwen3:8b");
  assert.deepEqual(keys.variables, {});
});

test("a cloud without a key is explained by the daemon, and its model is typed", async () => {
  const vertex = provider({ id: "vertex_ai", name: "Google Vertex AI", keyVariable: "", keyPage: "", how: "run `gcloud auth`" });
  const { commands } = make({ lists: [vertex, { ...vertex, connected: true }] });
  answers.push("Retry", "gemini-3-pro");
  await commands.connect("vertex_ai");
  assert.ok(shown.some((text) => text === "Google Vertex AI: run `gcloud auth`."));
  assert.equal(configured.get("model"), "vertex_ai/gemini-3-pro");
});

test("the picker changes the session on display, and new ones by the star", async () => {
  const { commands, asked } = make({ inSession: true });
  const chosen = commands.choose();
  await settled();
  const pick = picks.at(-1)!;
  assert.equal(pick.title, "Model of this session");
  assert.equal(pick.row(OPUS.model).description, "1M window · $4 in / $20 out per 1M tokens");
  pick.enter(OPUS.model);
  await chosen;
  assert.deepEqual(asked.slice(1), [["model/check", { model: OPUS.model }], ["session/set", { sessionId: "s1", model: OPUS.model }]]);
  assert.equal(configured.get("model"), undefined);

  const again = commands.choose();
  await settled();
  picks.at(-1)!.press(SONNET.model);
  await again;
  assert.equal(configured.get("model"), SONNET.model);
  assert.ok(shown.includes(`Goalwright: ${SONNET.model} for this session and new ones`));
});

test("a model is for the session that was shown when it was asked", async () => {
  const { commands, asked, sessions } = make({ inSession: true });
  const chosen = commands.choose();
  await settled();
  sessions.sessionId = "s2";
  picks.at(-1)!.enter(OPUS.model);
  await chosen;
  assert.deepEqual(asked.at(-1), ["session/set", { sessionId: "s1", model: OPUS.model }]);
});

test("without a session the picker is about new ones, remembers, and takes what is typed", async () => {
  const { commands, asked } = make({ problem: "Anthropic has no model anthropic/claude-sonet." });
  answers.push("Use Anyway");
  const chosen = commands.choose();
  await settled();
  const pick = picks.at(-1)!;
  assert.equal(pick.title, "Model of new sessions");
  pick.type("anthropic/claude-sonet");
  pick.enter("Use anthropic/claude-sonet");
  await chosen;
  assert.ok(!asked.some(([name]) => name === "session/set"));
  assert.equal(configured.get("model"), "anthropic/claude-sonet");
  void commands.choose();
  await settled();
  assert.ok(picks.at(-1)!.items.some(({ label }) => label === "anthropic/claude-sonet"));
});

test("thinking is a choice of levels", async () => {
  const { commands } = make();
  answers.push("Medium");
  await commands.chooseThinking();
  assert.equal(configured.get("thinkingTokens"), 8_000);
  assert.deepEqual([thinkingWord(0), thinkingWord(24_000), thinkingWord(5_000)], ["Off", "High", "5k tokens"]);
});

test("keys survive, are forgotten one by one, and what is damaged is none", async () => {
  const secrets = new FakeSecrets();
  const logged: string[] = [];
  const memory = makeMemory();
  const first = new ProviderKeys(secrets as never, memory, () => undefined);
  await first.set({ ANTHROPIC_API_KEY: KEY, OPENAI_API_KEY: "sk-other" });
  await first.set({ OPENAI_API_KEY: undefined });
  const second = new ProviderKeys(secrets as never, memory, () => undefined);
  await second.ready;
  assert.equal(second.lost, false);
  assert.deepEqual(second.variables, { ANTHROPIC_API_KEY: KEY });
  for (const key of secrets.values.keys()) secrets.values.set(key, "{");
  const third = new ProviderKeys(secrets as never, memory, (text) => void logged.push(text));
  await third.ready;
  assert.deepEqual(third.variables, {});
  assert.equal(logged.length, 1);
  assert.ok(!logged[0]!.includes(KEY));
});

test("a key entered after the key ring was unlocked keeps the others", async () => {
  const memory = makeMemory();
  const secrets = new FakeSecrets();
  await new ProviderKeys(secrets as never, memory, () => undefined).set({ ANTHROPIC_API_KEY: KEY });
  const { get } = secrets;
  secrets.get = () => Promise.reject(new Error("locked"));
  const keys = new ProviderKeys(secrets as never, memory, () => undefined);
  await keys.ready;
  await assert.rejects(keys.set({ OPENAI_API_KEY: "sk-other" }), /locked/);
  secrets.get = get;
  await keys.set({ OPENAI_API_KEY: "sk-other" });
  assert.deepEqual(keys.variables, { ANTHROPIC_API_KEY: KEY, OPENAI_API_KEY: "sk-other" });
});

test("a window that lost the keys says so, until one is entered, and one that never had any says nothing", async () => {
  const memory = makeMemory();
  const keysOf = (): ProviderKeys => new ProviderKeys(new FakeSecrets() as never, memory, () => undefined);
  const first = keysOf();
  await first.ready;
  assert.equal(first.lost, false);
  await first.set({ ANTHROPIC_API_KEY: KEY });
  const loadedAgain = keysOf();
  await loadedAgain.ready;
  assert.equal(loadedAgain.lost, true);
  await loadedAgain.set({ ANTHROPIC_API_KEY: KEY });
  assert.equal(loadedAgain.lost, false);
  await loadedAgain.set({ ANTHROPIC_API_KEY: undefined });
  const emptied = keysOf();
  await emptied.ready;
  assert.equal(emptied.lost, false, "what was forgotten on purpose is not lost");
});

test("facts, keys and addresses in words", () => {
  assert.equal(modelFacts(SONNET), FACTS);
  assert.equal(modelFacts({ window: 32_768, windowAssumed: false, inputPrice: 0, outputPrice: 0 }), "32.8k window · free");
  assert.equal(modelFacts({ window: 128_000, windowAssumed: false, inputPrice: null, outputPrice: null }), "128k window");
  assert.equal(modelFacts({ window: 128_000, windowAssumed: true, inputPrice: null, outputPrice: null }), "128k window (assumed)");
  assert.deepEqual([KEY, `sk-or-${"a".repeat(30)}`, `sk-proj-${"a".repeat(30)}`, `AIza${"a".repeat(35)}`, "other"].map(providerOfKey), [
    "anthropic", "openrouter", "openai", "gemini", undefined,
  ]);
  assert.equal(keyProblem({ id: "openai", name: "OpenAI" }, KEY), "This looks like a key of Anthropic.");
  assert.equal(keyProblem({ id: "custom", name: "Mine" }, KEY), undefined);
  assert.equal(keyProblem({ id: "openai", name: "OpenAI" }, "two words"), "A key cannot contain spaces.");
  assert.ok(pastedKey("anthropic", "", KEY));
  assert.ok(!pastedKey("anthropic", KEY.slice(0, -1), KEY), "typed letter by letter, Enter ends it");
  assert.ok(!pastedKey("openai", "", KEY));
  assert.equal(addressProblem("http://localhost:8000/v1"), undefined);
  for (const wrong of ["localhost:8000", "ftp://a", "", "http://"]) assert.ok(addressProblem(wrong), wrong);
});
