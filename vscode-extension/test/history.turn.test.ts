import assert from "node:assert/strict";
import { test } from "node:test";
import { turnChanges } from "../src/history/format";
import type { HistoryChange } from "../src/protocol.gen";
import type { Item } from "../src/session/state";
import { message, text } from "./fakes/protocol";

const call = (id: string) => ({ type: "tool_call", id, name: "edit", input: "{}", finished: true }) as const;
const item = (role: "user" | "assistant", sequence: number, ...parts: unknown[]): Item => ({ kind: "message", key: `m${sequence}`, message: message(role, sequence, parts as never) });
const change = (id: string, state: "applied" | "undone", ...paths: string[]): HistoryChange => ({
  changeId: id, toolCallId: id, tool: "edit", time: "t", goalId: null, messageId: null, promptId: null, prompt: "", state,
  files: paths.map((path) => ({ path, kind: "update", added: 2, removed: 1, undoable: true })),
});
const items = [item("user", 1, text("first")), item("assistant", 2, call("a")), item("user", 3, text("second")), item("assistant", 4, call("b"), call("c")), item("assistant", 5, text("done"))];

test("the end of a turn names each file once, with all its lines", () => {
  const found = turnChanges(items, { a: change("a", "applied", "old.py"), b: change("b", "applied", "x.py", "y.py"), c: change("c", "applied", "x.py") });
  assert.equal(found?.messageId, "m3");
  assert.deepEqual(found?.files, [{ path: "x.py", added: 4, removed: 2 }, { path: "y.py", added: 2, removed: 1 }]);
});

test("nothing is said of what earlier turns changed, and of what is undone", () => {
  assert.equal(turnChanges(items, { a: change("a", "applied", "old.py"), b: change("b", "undone", "x.py") }), undefined);
  assert.equal(turnChanges([], {}), undefined);
});
