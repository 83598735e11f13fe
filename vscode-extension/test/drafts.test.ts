import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, choose, decide } from "../src/diff/choice";
import { Drafts } from "../src/diff/drafts";
import { file, request } from "./fakes/protocol";

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
  const choice = decide(choose(ALL, file("a.py"), undefined, false), "a.py", 0);
  first.setChoice(request("r1"), choice);
  first.setText(request("r1"), "b.py", "mine");
  const next = new Drafts(memory);
  assert.deepEqual(next.choice("r1"), choice);
  assert.deepEqual(next.texts("r1"), { "b.py": "mine" });
  assert.deepEqual(next.of("s1"), ["r1"]);
  assert.deepEqual(next.of("s2"), []);
});

test("a text that was taken back, and a request that was answered, leave nothing", () => {
  const memory = new Memory();
  const drafts = new Drafts(memory);
  drafts.setText(request("r1"), "a.py", "mine");
  drafts.setText(request("r1"), "a.py", undefined);
  assert.deepEqual(drafts.texts("r1"), {});
  drafts.drop("r1");
  assert.deepEqual(new Drafts(memory).choices(), {});
});

test("of many requests the ones touched last are kept", () => {
  const drafts = new Drafts(new Memory());
  for (let n = 0; n < 30; n++) {
    drafts.setText(request(`r${n}`), "a.py", String(n));
    drafts.setText(request("r0"), "a.py", `again ${n}`);
  }
  const kept = drafts.of("s1");
  assert.equal(kept.length, 20);
  assert.ok(kept.includes("r0") && kept.includes("r29") && !kept.includes("r1"));
});

test("a text too long for the workspace's memory is kept in this window only", () => {
  const memory = new Memory();
  const drafts = new Drafts(memory);
  const long = "x".repeat(1_000_001);
  drafts.setText(request("r1"), "a.py", long);
  assert.equal(drafts.texts("r1")["a.py"], long);
  assert.deepEqual(new Drafts(memory).texts("r1"), {});
});

test("what was done to a request goes to the next one for the same proposal, and to no other", () => {
  const drafts = new Drafts(new Memory());
  const call = { toolCallId: "c1" };
  const choice = decide(choose(ALL, file("a.py"), undefined, false), "a.py", 0);
  drafts.setChoice(request("r1", call), choice);
  drafts.setText(request("r1", call), "a.py", "mine");
  // The file has changed meanwhile: the numbers of hunks mean something else.
  assert.equal(drafts.adopt(request("r2", { ...call, files: [file("a.py", { diff: "another" })] }), new Set(["r2"])), false);
  assert.equal(drafts.choice("r2"), ALL);
  // The earlier one still waits.
  assert.equal(drafts.adopt(request("r3", call), new Set(["r1", "r3"])), false);
  assert.equal(drafts.choice("r3"), ALL);
  assert.equal(drafts.adopt(request("r4", call), new Set(["r4"])), true, "whoever shows the choice is to be told");
  assert.deepEqual(drafts.choice("r4"), choice);
  assert.deepEqual(drafts.texts("r4"), { "a.py": "mine" });
  assert.deepEqual(drafts.of("s1"), ["r4"]);
});
