import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, choose, decide, decision, isDecided, undecided } from "../src/diff/choice";
import { ACCEPT_CHANGES, ACCEPT_HUNK, lensTitle, REJECT_CHANGES, REJECT_HUNK, SHOW_CHANGES } from "../src/editor/features";
import type { FileDiff } from "../src/protocol.gen";
import * as protocol from "./fakes/protocol";

const diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n";
const file: FileDiff = { path: "a.py", kind: "update", diff, added: 2, removed: 2, movedFrom: null, hunks: 2, shownHunks: [protocol.hunk(2, 3, 1, 1, 1, 1), protocol.hunk(5, 3, 9, 1, 9, 1)] };
const other: FileDiff = { ...file, path: "new.py", kind: "create", hunks: 0, shownHunks: [] };
const hunk = { requestId: "r", path: "a.py", hunk: 0 };

test("a hunk that nobody decided keeps its lenses, a decided one offers the opposite", () => {
  const made = decide(ALL, "a.py", 0);
  assert.equal(lensTitle(ACCEPT_HUNK, "Accept", hunk, [file], ALL), "Accept");
  assert.equal(lensTitle(ACCEPT_HUNK, "Accept", hunk, [file], made), undefined);
  assert.equal(lensTitle(REJECT_HUNK, "Reject", hunk, [file], made), "Accepted (reject instead)");
});

test("what is left out on the card is rejected for the lenses too", () => {
  const choice = choose(ALL, file, 0, false);
  assert.equal(decision(choice, "a.py", 0), false);
  assert.equal(lensTitle(REJECT_HUNK, "Reject", hunk, [file], choice), undefined);
  assert.equal(lensTitle(ACCEPT_HUNK, "Accept", hunk, [file], choice), "Rejected (accept instead)");
  assert.deepEqual(undecided([file, other], choice), [
    { path: "a.py", hunk: 1 },
    { path: "new.py", hunk: 0 },
  ]);
  const out = choose(choice, file, 1, false);
  assert.equal(isDecided(file, out), false, "the card shows its boxes, because nothing was decided separately");
  assert.deepEqual([isDecided(file, decide(out, "new.py", 0)), isDecided(other, decide(out, "new.py", 0))], [true, true]);
});

test("lenses of a file speak of what is left to decide", () => {
  const whole = { requestId: "r", path: "a.py" };
  const one = decide(ALL, "a.py", 1);
  const both = decide(one, "a.py", 0);
  assert.equal(lensTitle(ACCEPT_CHANGES, "Accept all 2 changes", whole, [file, other], ALL), "Accept all 2 changes");
  assert.equal(lensTitle(ACCEPT_CHANGES, "Accept all 2 changes", whole, [file, other], one), "Accept the other change");
  assert.equal(lensTitle(REJECT_CHANGES, "Reject all", whole, [file, other], both), undefined);
  assert.equal(lensTitle(REJECT_CHANGES, "Reject 2 files", { requestId: "r" }, [file, other], one), "Reject the other 2 changes");
  assert.equal(lensTitle(SHOW_CHANGES, "Show diff", whole, [file, other], both), "Show diff");
});
