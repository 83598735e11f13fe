import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, choose } from "../src/diff/choice";
import { Drafts } from "../src/diff/drafts";
import { file } from "./fakes/protocol";

class Memory {
  readonly values = new Map<string, string>();
  get = <T>(key: string, otherwise?: T): T => (this.values.has(key) ? JSON.parse(this.values.get(key) ?? "") : otherwise) as T;
  update = (key: string, value: unknown): Promise<void> => {
    this.values.set(key, JSON.stringify(value));
    return Promise.resolve();
  };
}

test("choices and texts are there again in the next window", () => {
  const memory = new Memory();
  const first = new Drafts(memory);
  const choice = choose(ALL, file("a.py"), undefined, false);
  first.setChoice("r1", "s1", choice);
  first.setText("r1", "s1", "b.py", "mine");
  const next = new Drafts(memory);
  assert.deepEqual(next.choice("r1"), choice);
  assert.deepEqual(next.texts("r1"), { "b.py": "mine" });
  assert.deepEqual(next.of("s1"), ["r1"]);
  assert.deepEqual(next.of("s2"), []);
});

test("a text that was taken back, and a request that was answered, leave nothing", () => {
  const memory = new Memory();
  const drafts = new Drafts(memory);
  drafts.setText("r1", "s1", "a.py", "mine");
  drafts.setText("r1", "s1", "a.py", undefined);
  assert.deepEqual(drafts.texts("r1"), {});
  drafts.drop("r1");
  assert.deepEqual(new Drafts(memory).choices(), {});
});

test("of many requests the ones touched last are kept", () => {
  const drafts = new Drafts(new Memory());
  for (let n = 0; n < 30; n++) {
    drafts.setText(`r${n}`, "s1", "a.py", String(n));
    drafts.setText("r0", "s1", "a.py", `again ${n}`);
  }
  const kept = drafts.of("s1");
  assert.equal(kept.length, 20);
  assert.ok(kept.includes("r0") && kept.includes("r29") && !kept.includes("r1"));
});

test("a text too long for the workspace's memory is kept in this window only", () => {
  const memory = new Memory();
  const drafts = new Drafts(memory);
  const long = "x".repeat(1_000_001);
  drafts.setText("r1", "s1", "a.py", long);
  assert.equal(drafts.texts("r1")["a.py"], long);
  assert.deepEqual(new Drafts(memory).texts("r1"), {});
});
