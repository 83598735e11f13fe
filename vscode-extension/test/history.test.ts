import assert from "node:assert/strict";
import { test } from "node:test";
import { changeLabel, consequences, fileLines, headline, named, restoredLine } from "../src/history/format";
import { file } from "./fakes/protocol";

const one = { path: "src/a.py", kind: "update" as const, added: 1, removed: 2 };
const two = { path: "b.py", kind: "update" as const, added: 3, removed: 0 };

test("the transcript says what the person did, with the lines of all files together", () => {
  assert.equal(restoredLine({ action: "undo", target: "edit of src/a.py", files: [one] }), "You undid edit of src/a.py (+1 −2)");
  assert.equal(restoredLine({ action: "redo", target: "patch of 2 files", files: [one, two] }), "You redid patch of 2 files (+4 −2)");
  assert.equal(
    restoredLine({ action: "restore", target: "2 changes since message 7", files: [one, two] }),
    "Reverted 2 changes (+4 −2)",
  );
  assert.equal(restoredLine({ action: "restore", target: "", files: [one] }), "Reverted changes of 1 file (+1 −2)");
});

test("a question names each file and what happens to it", () => {
  const files = [file("a.py", { added: 1, removed: 2 }), file("new.py", { kind: "delete" }), file("old.py", { kind: "create" })];
  assert.deepEqual(consequences({ files }).split("\n").slice(0, 3), ["a.py  +1 −2", "new.py  will be deleted", "old.py  will be restored"]);
});

test("a long list of files is counted", () => {
  const lines = fileLines(Array.from({ length: 40 }, (_, n) => ({ ...one, path: `f${n}.py` }))).split("\n");
  assert.equal(lines.length, 16);
  assert.equal(lines.at(-1), "… and 25 more");
});

test("a file that moves back shows both names", () => {
  assert.equal(fileLines([file("a.py", { movedFrom: "b.py" })]), "b.py → a.py");
});

test("a change is called by its tool and its file", () => {
  assert.equal(changeLabel({ tool: "edit", files: [{ ...one, undoable: true }] }), "edit of src/a.py");
  assert.equal(changeLabel({ tool: "patch", files: [one, two].map((each) => ({ ...each, undoable: true })) }), "patch of 2 files");
});

test("a conflict's first line is its headline", () => {
  assert.deepEqual(headline("a.py was changed since.\n\nNow:\n x\n"), { message: "a.py was changed since.", detail: "Now:\n x" });
});

test("the file that a conflict is about is found with its line, by its longest name", () => {
  const paths = ["a.py", "src/a.py", "b.py"];
  assert.deepEqual(named("Not all of it fits.\n\nsrc/a.py:12 was changed\nb.py:1 too", paths), { path: "src/a.py", line: 12 });
  assert.deepEqual(named("b.py has unsaved changes; a.py too", paths), { path: "b.py", line: undefined });
  assert.equal(named("nothing here", paths), undefined);
});
