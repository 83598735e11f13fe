import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  acceptLabel as labelOf,
  together,
  ALL,
  answers,
  choose,
  edit,
  fileLabel,
  isEmpty,
  sameText,
  selected,
  units,
  type Choice,
} from "../src/diff/choice";
import { diffLines } from "../src/chat/webview/difflines";
import type { FileDiff, PermissionRequest } from "../src/protocol.gen";
import { file, hunk, request } from "./fakes/protocol";

const acceptLabel = (files: FileDiff[], choice: Choice): string => labelOf({ files, permission: "edit" }, choice);
const NO_TEXTS = new Map<string, string>();

/** A file of nine lines of which a proposal changes the first, the fifth and, by a new line, the end. */
const BEFORE = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const AFTER = "one\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n";
const HUNKS = [hunk(2, 3, 1, 1, 1, 1), hunk(5, 3, 5, 1, 5, 1), hunk(8, 2, 9, 0, 10, 1)];

const three = (over: Partial<FileDiff> = {}): FileDiff => file("n.txt", { hunks: 3, shownHunks: HUNKS, ...over });
const without = (one: FileDiff, ...hunks: number[]): Choice => hunks.reduce((choice, hunk) => choose(choice, one, hunk, false), ALL);

test("everything is accepted at first, and no answer is needed to say so", () => {
  assert.equal(acceptLabel([three()], ALL), "Apply");
  assert.deepEqual(answers([three()], ALL, NO_TEXTS), []);
});

test("a hunk that is left out is counted, and the others are sent by their numbers", () => {
  const choice = without(three(), 1);
  assert.equal(acceptLabel([three()], choice), "Apply 2 of 3 hunks");
  assert.deepEqual(answers([three()], choice, NO_TEXTS), [{ path: "n.txt", hunks: [0, 2] }]);
});

test("a hunk that is taken again is as if nothing had been chosen", () => {
  const choice = choose(without(three(), 1), three(), 1, true);
  assert.deepEqual(answers([three()], choice, NO_TEXTS), []);
});

test("with no hunk accepted there is nothing to accept", () => {
  const choice = without(three(), 0, 1, 2);
  assert.ok(isEmpty([three()], choice));
  assert.deepEqual(answers([three()], choice, NO_TEXTS), [{ path: "n.txt", hunks: [] }]);
});

test("several files count together", () => {
  const files = [three(), file("b.txt"), file("c.txt")];
  const choice = choose(without(three(), 0), file("b.txt"), undefined, false);
  assert.equal(acceptLabel(files, choice), "Apply 3 of 5 hunks");
  assert.deepEqual(answers(files, choice, NO_TEXTS), [
    { path: "n.txt", hunks: [1, 2] },
    { path: "b.txt", hunks: [] },
  ]);
  assert.ok(!isEmpty(files, choice));
});

test("files that have one part each are counted as files", () => {
  const files = [file("a.txt"), file("b.txt")];
  assert.equal(acceptLabel(files, choose(ALL, file("b.txt"), undefined, false)), "Apply 1 of 2 files");
});

test("the box of a file takes all its hunks along", () => {
  const out = choose(without(three(), 1), three(), undefined, false);
  assert.deepEqual(out.files["n.txt"]?.left, [0, 1, 2]);
  assert.deepEqual(choose(out, three(), undefined, true).files["n.txt"]?.left, []);
});

test("a diff that was cut off offers the whole file only, as does a file without parts", () => {
  assert.equal(units(three()), 3);
  assert.equal(units(three({ hunks: 9 })), 1);
  assert.equal(units(three({ hunks: 0, shownHunks: [] })), 1);
  const { shownHunks: _, ...older } = three();
  assert.equal(units(older as FileDiff), 1);
});

test("an edited text is what is sent, whatever hunks were left out", () => {
  const choice = edit(without(three(), 0, 1), "n.txt", "text");
  assert.deepEqual(answers([three()], choice, new Map([["n.txt", "mine"]])), [{ path: "n.txt", text: "mine" }]);
  assert.equal(acceptLabel([three()], choice), "Apply as edited");
});

test("hunks of an edited file cannot be chosen, the file as a whole can", () => {
  const edited = edit(ALL, "n.txt", "text");
  assert.equal(choose(edited, three(), 0, false), edited);
  const out = choose(edited, three(), undefined, false);
  assert.deepEqual(answers([three(), file("b.txt")], out, new Map([["n.txt", "mine"]])), [{ path: "n.txt", hunks: [] }]);
  assert.equal(acceptLabel([three(), file("b.txt")], out), "Apply 1 of 4 hunks");
});

test("who edits a file that was left out wants it after all", () => {
  const left = choose(ALL, three(), undefined, false);
  assert.ok(!isEmpty([three()], edit(left, "n.txt", "text")));
});

test("discarded edits bring back the hunks as they were chosen", () => {
  const choice = edit(edit(without(three(), 1), "n.txt", "text"), "n.txt", "no");
  assert.deepEqual(answers([three()], choice, NO_TEXTS), [{ path: "n.txt", hunks: [0, 2] }]);
});

test("edits that leave nothing of the proposal are nothing to accept", () => {
  assert.ok(isEmpty([three()], edit(ALL, "n.txt", "nothing")));
});

test("any choice takes away the error of the last answer", () => {
  assert.equal(choose({ files: {}, error: "no such hunk" }, three(), 1, false).error, "");
});

test("the text that would be written has the chosen hunks only", () => {
  const text = (...left: number[]): string => selected(BEFORE, AFTER, HUNKS, left);
  assert.equal(text(), AFTER);
  assert.equal(text(1), "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
  assert.equal(text(0, 2), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
  assert.equal(text(0, 1, 2), BEFORE);
});

test("chosen hunks keep each side's line ends, and a missing one at the end", () => {
  const hunks = [hunk(2, 3, 1, 1, 1, 1), hunk(5, 4, 3, 1, 3, 1)];
  assert.equal(selected("a\r\nb\r\nc", "A\r\nb\r\nC\r\n", hunks, [1]), "A\r\nb\r\nc");
  assert.equal(selected("a\r\nb\r\nc", "A\r\nb\r\nC\r\n", hunks, [0]), "a\r\nb\r\nC\r\n");
});

test("a hunk that only removes lines, and one that only adds them at the top", () => {
  const hunks = [hunk(2, 2, 0, 0, 1, 1), hunk(4, 2, 3, 1, 3, 0)];
  assert.equal(selected("a\nb\nc\nd\n", "new\na\nb\nd\n", hunks, [1]), "new\na\nb\nc\nd\n");
  assert.equal(selected("a\nb\nc\nd\n", "new\na\nb\nd\n", hunks, [0]), "a\nb\nd\n");
});

interface Case {
  file: FileDiff;
  before: string | null;
  after: string | null;
  /** What the daemon writes for each choice of hunks. */
  written: { hunks: number[]; text: string }[];
}

test("the text that is shown for each choice of hunks is the text that the daemon writes", () => {
  for (const { file, before, after, written } of JSON.parse(readFileSync("../tests/contract/golden/hunks.json", "utf8")) as Case[]) {
    assert.equal(units(file), Math.max(file.hunks, 1), file.path);
    for (const { hunks, text } of written) {
      const left = [...file.shownHunks.keys()].filter((number) => !hunks.includes(number));
      assert.equal(selected(before ?? "", after ?? "", file.shownHunks, left), text, `${file.path}: ${hunks.join()}`);
      const choice = left.reduce((made, number) => choose(made, file, number, false), ALL);
      assert.deepEqual(answers([file], choice, NO_TEXTS), left.length === 0 ? [] : [{ path: file.path, hunks }]);
    }
    const rows = diffLines(file.diff, true);
    const shown = file.shownHunks.map((_, number) => rows.filter(({ hunk }) => hunk === number).length);
    assert.deepEqual(shown, file.shownHunks.map((one) => one.rows), `the card shows other hunks of ${file.path}`);
  }
});

test("line ends and a byte order mark are no edits", () => {
  assert.ok(sameText("\ufeffa\r\nb\rc", "a\nb\nc"));
  assert.ok(!sameText("a\n", "a"));
});

test("a move shows where the file was", () => {
  assert.equal(fileLabel(file("b.py", { movedFrom: "a.py" })), "a.py → b.py");
  assert.equal(fileLabel(file("b.py")), "b.py");
});

test("the button says what happens", () => {
  assert.equal(acceptLabel([file("n.txt", { kind: "create" })], ALL), "Create file");
  assert.equal(acceptLabel([file("n.txt", { kind: "delete" })], ALL), "Delete file");
  assert.equal(acceptLabel([file("n.txt", { movedFrom: "old.txt" })], ALL), "Move file");
  assert.equal(acceptLabel([file("a.txt"), file("b.txt")], ALL), "Accept all");
  assert.equal(labelOf({ files: [], permission: "bash" }, ALL), "Run");
  assert.equal(labelOf({ files: [], permission: "read" }, ALL), "Allow");
  assert.equal(labelOf({ files: [], permission: "toString" }, ALL), "Allow");
});

test("edits that one session asks about are reviewed together", () => {
  const edits = (id: string, over: Partial<PermissionRequest> = {}): PermissionRequest => request(id, { permission: "edit", files: [file(`${id}.txt`)], ...over });
  const [one, two, branch, command] = [edits("1"), edits("2"), edits("3", { branchId: "A" }), request("4", { permission: "bash", files: [] })];
  const pending = [one, two, branch, command];
  assert.deepEqual(together(two, pending), [one, two]);
  assert.deepEqual(together(branch, pending), [branch]);
  assert.deepEqual(together(command, pending), [command]);
});

test("what an edited text makes of a file is shown with it, and gone with the edit", () => {
  const own = file("n.txt", { diff: "@@ -1 +1 @@\n-1\n+mine\n" });
  const edited = edit(ALL, "n.txt", "text", own);
  assert.equal(edited.files["n.txt"]?.own, own);
  assert.equal(edit(edited, "n.txt", "text", own), edited);
  assert.equal(edit(edited, "n.txt", "no").files["n.txt"]?.own, undefined);
});
