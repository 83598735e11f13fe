import assert from "node:assert/strict";
import { test } from "node:test";
import type * as vscode from "vscode";
import type { Daemon } from "../src/daemon/daemon";
import { fileChoice } from "../src/diff/choice";
import type { Draft } from "../src/diff/drafts";
import { Review } from "../src/diff/review";
import { address, AFTER } from "../src/diff/uris";
import type { SessionController } from "../src/session/controller";
import { configured, EventEmitter, fileSystems, Uri } from "./fakes/vscode";
import { file, request } from "./fakes/protocol";

const log = { debug() {}, warn() {}, info() {}, error() {} } as unknown as vscode.LogOutputChannel;
const PROPOSED = { requestId: "r1", path: "a.py" };

/** A review of one request. `kept`: its drafts, the newest last. `previewed` ends when the daemon is asked for a diff of the user's text; `preview` is the answer. */
function reviewed(): { review: Review; kept: Draft[]; preview: (answer: unknown) => void; previewed: Promise<void>; save: (text: string) => void } {
  configured.set("openDiffAutomatically", false);
  let preview: (answer: unknown) => void = () => undefined;
  let asked: () => void = () => undefined;
  const previewed = new Promise<void>((resolve) => (asked = resolve));
  const answer = new Promise((resolve) => (preview = resolve));
  const daemon = {
    state: { phase: "connected" },
    request: async (method: string) => {
      if (method === "goalwright/permission/content") return { before: "one\n", after: "two\n", binary: false };
      asked();
      return answer;
    },
  };
  const sessions = {
    state: { pending: [request("r1")], session: { status: "waiting" } },
    sessionId: "s1",
    onDidChange: new EventEmitter<unknown>().event,
    onDidAnswer: new EventEmitter<unknown>().event,
  };
  const kept: Draft[] = [];
  const memory = { get: (_key: string, otherwise: unknown) => otherwise, update: async (_key: string, drafts: Record<string, Draft>) => void kept.push(...Object.values(drafts)) };
  const review = new Review(daemon as unknown as Daemon, sessions as unknown as SessionController, memory as unknown as vscode.Memento, log, async () => undefined);
  const files = fileSystems.get(AFTER) as { readFile: (uri: unknown) => Promise<Uint8Array>; writeFile: (uri: unknown, bytes: Uint8Array) => void };
  const save = async (text: string): Promise<void> => {
    const uri = Uri.from(address(AFTER, PROPOSED));
    await files.readFile(uri);
    files.writeFile(uri, new TextEncoder().encode(text));
  };
  return { review, kept, preview, previewed, save: (text) => void save(text) };
}

test("edits discarded while their diff was being made stay discarded", async () => {
  const { review, preview, previewed, save } = reviewed();
  save("mine\n");
  await previewed;
  const discarding = review.discardEdits(PROPOSED.requestId, PROPOSED.path);
  // The discard goes as far as it can before the answer comes.
  await new Promise((resolve) => setImmediate(resolve));
  preview({ files: [file("a.py")] });
  await discarding;
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(fileChoice(review.choices.r1 ?? { files: {}, error: "" }, "a.py").edited, "no");
  review.dispose();
});

test("the user's text is kept while its diff is being made", async () => {
  const { review, kept, previewed, save } = reviewed();
  save("mine\n");
  await previewed;
  assert.deepEqual(kept.at(-1)?.texts, { "a.py": "mine\n" });
  review.dispose();
});
