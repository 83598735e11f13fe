import assert from "node:assert/strict";
import { test } from "node:test";
import { target } from "../src/chat/links";
import { ago } from "../src/amounts";
import { argumentsOf } from "../src/session/tools";
import { addUpdate, type Update } from "../src/session/state";
import { event } from "./fakes/protocol";

const file = (path: string, line?: number, column?: number): object => ({ kind: "file", path, line, column });

test("web addresses and files are links", () => {
  assert.deepEqual(target("https://example.org/a?b#c"), { kind: "web", url: "https://example.org/a?b#c" });
  assert.deepEqual(target("src/a.py"), file("src/a.py"));
  assert.deepEqual(target("src/a.py:12"), file("src/a.py", 12));
  assert.deepEqual(target("a.py:12:3"), file("a.py", 12, 3));
  assert.deepEqual(target("src/a.py#L12"), file("src/a.py", 12));
  assert.deepEqual(target("src/a.py#L12-L20"), file("src/a.py", 12));
  assert.deepEqual(target("file:///home/me/a%20b.py#L3"), file("/home/me/a b.py", 3));
  assert.deepEqual(target("file:///C:/x/a.py"), file("C:/x/a.py"));
  assert.deepEqual(target("100%.md"), file("100%.md"));
});

test("nothing else is", () => {
  for (const href of ["command:goalwright.stopDaemon", "javascript:alert(1)", "JavaScript:alert(1)", "vscode://x/y", "data:text/html,x", "//host/share", "#top", "", " ", "mailto:a@b.c", "a\0b"]) {
    assert.equal(target(href).kind, "none", href);
  }
});

test("deltas of the same part join, others keep their order", () => {
  const delta = (index: number, text: string): Update => ({
    delta: { traceId: "s", kind: "text", messageId: "m", index, toolCallId: null, name: null, text },
  });
  const updates: Update[] = [];
  const ended = event(1, "turn_ended", { promptId: "p", stopReason: "end_turn", detail: "", errorKind: "" });
  for (const update of [delta(0, "a"), delta(0, "b"), delta(1, "c"), ended, delta(1, "d")]) addUpdate(updates, update);
  assert.deepEqual(updates.map((one) => ("delta" in one ? one.delta.text : "event" in one ? one.event.event : "meter")), ["ab", "c", "turn_ended", "d"]);
});

test("times are told in words", () => {
  const now = Date.parse("2026-01-10T12:00:00Z");
  const told = ["2026-01-10T11:59:40Z", "2026-01-10T11:20:00Z", "2026-01-10T02:00:00Z", "2026-01-09T02:00:00Z", "2026-01-01T12:00:00Z", "nonsense"];
  assert.deepEqual(told.map((one) => ago(one, now)), ["just now", "40 min ago", "10 h ago", "yesterday", "9 days ago", ""]);
});

test("arguments are read as far as they are complete", () => {
  assert.deepEqual(argumentsOf('{"path": "a", "n": 1}'), { path: "a", n: 1 });
  assert.deepEqual(argumentsOf('{"path": "a\\n\\"b", "text": "half'), { path: 'a\n"b' });
  assert.deepEqual(argumentsOf('{"path": "\\u00'), {});
  assert.deepEqual(argumentsOf("[1]"), [1]);
  assert.deepEqual(argumentsOf(""), {});
});
