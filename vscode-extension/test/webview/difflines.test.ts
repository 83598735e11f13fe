import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines, kept } from "../../src/chat/webview/difflines";

const short = (diff: string): string[] => diffLines(diff).map((line) => `${line.kind} ${line.oldLine ?? ""}/${line.newLine ?? ""} ${line.text}`);

test("lines have their numbers on both sides", () => {
  const diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
  assert.deepEqual(short(diff), ["same 1/1 one", "remove 2/ two", "add /2 TWO", "same 3/3 three"]);
});

test("content that looks like a header is content", () => {
  const diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n @@ -1 +1 @@\n";
  assert.deepEqual(short(diff), ["remove 1/ -- a", "add /1 ++ b", "same 2/2 @@ -1 +1 @@"]);
});

test("gaps between hunks, new files and missing line ends are shown", () => {
  const gaps = "@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@ def f():\n-c\n+d\n\\ No newline at end of file\n";
  assert.deepEqual(short(gaps).filter((line) => /^(gap|note)/.test(line)), ["gap / def f():", "note / No newline at end of file"]);
  assert.deepEqual(short("--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n"), ["add /1 a", "add /2 b"]);
});

test("several files follow each other", () => {
  const two = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -5 +5 @@\n-c\n+d\n";
  assert.deepEqual(diffLines(two).filter((line) => line.kind === "add").map((line) => line.newLine), [1, 5]);
});

test("where hunks can be chosen each has a line to begin with, and its lines know it", () => {
  const diff = "@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n";
  assert.deepEqual(diffLines(diff, true).map(({ kind, hunk }) => `${hunk} ${kind}`), [
    "0 gap", "0 remove", "0 add", "1 gap", "1 remove", "1 add",
  ]);
  assert.deepEqual(diffLines(diff).map(({ kind }) => kind), ["remove", "add", "gap", "remove", "add"]);
});

test("the changed middle of a replaced line is marked", () => {
  const [before, after] = diffLines("@@ -1 +1 @@\n-    return price * 1\n+    return price * quantity\n");
  assert.equal(before?.text.slice(...(before.changed ?? [])), "1");
  assert.equal(after?.text.slice(...(after.changed ?? [])), "quantity");
});

test("lines with little in common are not marked", () => {
  assert.ok(diffLines("@@ -1 +1 @@\n-abcdef\n+uvwxyz\n").every((line) => line.changed === undefined));
});

test("hunks that are left out do not count", () => {
  const diff = "@@ -1 +1,2 @@\n-a\n+b\n+c\n@@ -9 +10 @@\n-d\n+e\n";
  assert.deepEqual(kept({ diff }, []), { added: 3, removed: 2 });
  assert.deepEqual(kept({ diff }, [0]), { added: 1, removed: 1 });
  assert.deepEqual(kept({ diff }, [0, 1]), { added: 0, removed: 0 });
});
