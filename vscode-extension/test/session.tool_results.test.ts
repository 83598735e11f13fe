import assert from "node:assert/strict";
import { test } from "node:test";
import { shellCommand } from "../src/chat/links";
import { foundOf, listingOf } from "../src/session/tools";

test("a file that was read is its lines, without the numbers that are for the model", () => {
  assert.deepEqual(listingOf("1→def f():\n2→    return 1→2\n3→"), { first: 1, code: "def f():\n    return 1→2\n", notes: [] });
  const part = "(As in the editor, with UNSAVED changes: the file on disk differs.)\n40→a\n41→b\n(Lines 40-41 of 90. Go on with offset=42.)";
  assert.deepEqual(listingOf(part), { first: 40, code: "a\nb", notes: ["As in the editor, with UNSAVED changes: the file on disk differs.", "Lines 40-41 of 90."] });
  assert.equal(listingOf("src is a folder:\na.py"), undefined);
});

test("hits of a search are places in files", () => {
  const content = "src/a.py (as in the editor, with UNSAVED changes)\n3→x = 1\n14→9→x\nb (copy).py\n1→x\n(200 lines match; the first 3 of the newest files are shown. Narrow the search.)";
  assert.deepEqual(foundOf("grep", content), {
    files: [
      { path: "src/a.py", hits: [{ line: 3, text: "x = 1" }, { line: 14, text: "9→x" }] },
      { path: "b (copy).py", hits: [{ line: 1, text: "x" }] },
    ],
    notes: ["200 lines match; the first 3 of the newest files are shown."],
  });
  assert.equal(foundOf("grep", "No lines match."), undefined);
});

test("names that were found are files", () => {
  assert.deepEqual(foundOf("glob", "a.py\nsrc/b.py\n(3 files match; the 2 newest are shown. Use a narrower pattern.)")?.files.map(({ path }) => path), ["a.py", "src/b.py"]);
  assert.equal(foundOf("glob", "No files match."), undefined);
});

test("a command is typed only when nothing in it would run by itself", () => {
  assert.deepEqual(shellCommand("npm test\n"), { text: "npm test", typeable: true });
  assert.deepEqual(shellCommand("$ npm ci\nadded 3 packages\n"), { text: "npm ci", typeable: true });
  assert.deepEqual(shellCommand("$ npm ci\r\n$ npm test"), { text: "npm ci\nnpm test", typeable: false });
  for (const sly of ["true\rrm -rf x", "a\u001b[A", "a\tb", "a\u0003b", "a\u2028b"]) assert.equal(shellCommand(sly).typeable, false, JSON.stringify(sly));
});
