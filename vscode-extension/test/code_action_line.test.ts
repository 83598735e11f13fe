import assert from "node:assert/strict";
import { test } from "node:test";
import { handedLine } from "../src/composer/text";

const FILE = "The file as it is in the editor:\n\n```\n1\tx\n```\n\nThe numbered lines are the file's text.";

test("a prompt made by a code action is one line for the eye", () => {
  const one = `Fix this problem in @rates.json:4.\n\n> error in line 4 (json, 514): Colon expected\n> at all\n\n${FILE}`;
  assert.equal(handedLine(one), "Fix: Colon expected — rates.json:4");
  assert.equal(handedLine(`Explain these 3 problems in @a.b.py:4-9. Change nothing.\n\n> error: x\n\n${FILE}`), "Explain: 3 problems — a.b.py:4-9");
  assert.equal(handedLine(`Explain the code in @a.py:2. Change nothing.\n\n${FILE}`), "Explain: a.py:2");
  assert.equal(handedLine(`Why?\n\nThis is about @a.py.\n\n${FILE}`), "Why? — a.py");
  const hidden = "The file's text is not quoted here: it lies outside of the workspace.";
  assert.equal(handedLine(`Explain the code in @/etc/x. Change nothing.\n\n${hidden}`), "Explain: /etc/x");
});

test("what the person wrote stays as it is", () => {
  for (const text of ["", "Fix this problem in @a.py:4.", "Fix this problem in @a.py:4.\n\n> error: x", `Look:\n\n${FILE}`]) {
    assert.equal(handedLine(text), undefined);
  }
});

test("what a branch is told is its direction on one line", () => {
  const told = "# You are branch B\n\nSeveral approaches are explored side by side.\n\n**Your direction**: Decimal arithmetic\n**The others try**: A (Floats).\n";
  assert.equal(handedLine(told), "Branch B: Decimal arithmetic");
  assert.equal(handedLine("# You are branch B"), undefined);
});
