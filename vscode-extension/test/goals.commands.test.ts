import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import { GoalCommands } from "../src/goals/commands";
import type { FileHistory } from "../src/history/model";
import { ErrorCode, type FileDiff } from "../src/protocol.gen";
import type { SessionController } from "../src/session/controller";
import { fromLoad } from "../src/session/state";
import { file, goal, loaded } from "./fakes/protocol";
import { answers, ran, shown } from "./fakes/vscode";
import { sent } from "./fakes/plans";

const goalTree = sent({ mission: "", currentId: "1", goals: [goal("1", { status: "in_progress" as const }), goal("2", { parentId: "1" })] });

/** The commands over a daemon that notes what it was asked. `files`: what was changed for a goal, or why it stays. */
function make(files: FileDiff[] | Error = [], changedFor: string[] = []) {
  const asked: [string, Record<string, unknown>][] = [];
  const daemon = {
    request: (method: string, params: Record<string, unknown>) => {
      asked.push([method.replace("goalwright/goal/", ""), params]);
      if (params["revertFiles"] && files instanceof Error) return Promise.reject(files);
      return Promise.resolve({ goalTree, goalNumbers: {}, goalId: "3", files });
    },
  };
  const sessions = { sessionId: "s1", state: fromLoad(loaded({ goalTree })), ensure: () => Promise.resolve("s1"), required: () => "s1" };
  const history = { value: { changes: changedFor.map((goalId) => ({ goalId, state: "applied" })) } };
  const commands = new GoalCommands({
    daemon: daemon as unknown as Daemon,
    sessions: sessions as unknown as SessionController,
    history: history as unknown as FileHistory,
  });
  return { commands, asked, sessions, history };
}

/** JSON-RPC's own. */
const INVALID_PARAMS = -32_602;

const refusal = (code: number, message: string): Error => Object.assign(new Error(message), { code });

beforeEach(() => {
  shown.splice(0);
  answers.splice(0);
});

test("a goal is added below another, by what the person calls it", async () => {
  const { commands, asked } = make();
  answers.push("  Write the docs ");
  assert.equal(await commands.add("2"), "3");
  assert.deepEqual(asked, [["add", { sessionId: "s1", description: "Write the docs", parentId: "2" }]]);
  assert.deepEqual(shown, ["Add a goal below “1.1 Goal 2”"]);
});

test("what is asked in one session is not done in another", async () => {
  const { commands, asked, sessions } = make();
  const other = (): void => void Object.assign(sessions, { sessionId: "s2", required: () => "s2", ensure: () => Promise.resolve("s2") });
  for (const work of [() => commands.add("2"), () => commands.rename("2"), () => commands.done("2"), () => commands.abandon("2")]) {
    Object.assign(sessions, { sessionId: "s1", required: () => "s1", ensure: () => Promise.resolve("s1") });
    answers.push("Other words");
    const done = work();
    other();
    await done;
  }
  assert.deepEqual(new Set(asked.map(([, { sessionId }]) => sessionId)), new Set(["s1"]));
});

test("who thinks better of it changes nothing", async () => {
  const { commands, asked } = make();
  await commands.add();
  await commands.rename("2");
  await commands.done("2");
  await commands.abandon("2");
  assert.deepEqual(asked, []);
});

test("a name that stays is no change", async () => {
  const { commands, asked } = make();
  answers.push("Goal 2", "Other");
  await commands.rename("2");
  await commands.rename("2");
  assert.deepEqual(asked, [["rename", { sessionId: "s1", goalId: "2", description: "Other" }]]);
});

test("abandoning a goal without file changes asks for the reason only", async () => {
  const { commands, asked } = make();
  answers.push("too slow");
  await commands.abandon("2");
  const about = { sessionId: "s1", goalId: "2", reason: "too slow" };
  assert.deepEqual(asked, [["abandon", { ...about, revertFiles: true, dryRun: true }], ["abandon", { ...about, revertFiles: false }]]);
  assert.equal(shown.length, 1);
});

test("file changes are shown before they are reverted, kept, or nothing is done", async () => {
  const { commands, asked } = make([file("a.py"), file("b.py", { kind: "delete" })]);
  for (const [choice, done] of [["Abandon and Revert Files", [true]], ["Abandon", [false]], [undefined, []]] as const) {
    asked.splice(0);
    answers.push("wrong way", choice);
    await commands.abandon("1");
    assert.deepEqual(asked.slice(1).map(([, params]) => params["revertFiles"]), done);
  }
  assert.match(shown[1] ?? "", /^Abandon goal “1 Goal 1”\?/);
  assert.match(shown[1] ?? "", /a\.py {2}\+1 −1\nb\.py {2}will be deleted\n\[Abandon\] \[Abandon and Revert Files\]$/);
});

test("changes that cannot be taken back are told, and the goal can be abandoned without", async () => {
  const { commands, asked } = make(refusal(ErrorCode.HISTORY_CONFLICT, "a.py was changed since.\nIt says: x"));
  answers.push("wrong way", "Abandon");
  await commands.abandon("1");
  assert.equal(asked.at(-1)?.[1]["revertFiles"], false);
  assert.match(shown[1] ?? "", /would stay:\na\.py was changed since\.\nIt says: x\n\[Abandon\]$/);
});

test("while a turn runs only a goal with file changes is worth a question", async () => {
  const busy = refusal(ErrorCode.BUSY, "The session is at work.");
  const without = make(busy);
  answers.push("wrong way");
  await without.commands.abandon("1");
  assert.deepEqual([without.asked.length, shown.length], [2, 1]);
  const withChanges = make(busy, ["2"]);
  answers.push("wrong way", undefined);
  await withChanges.commands.abandon("1");
  assert.equal(withChanges.asked.length, 1);
  assert.match(shown.at(-1) ?? "", /would stay:\nThe session is at work\.\n\[Abandon\]$/);
});

test("the files of a goal are asked about as its own session knew them", async () => {
  const { commands, asked, sessions, history } = make(refusal(ErrorCode.BUSY, "The session is at work."), ["2"]);
  answers.push("wrong way", undefined);
  const done = commands.abandon("2");
  Object.assign(sessions, { sessionId: "s2", state: fromLoad(loaded()), required: () => "s2" });
  history.value = { changes: [] };
  await done;
  assert.equal(asked.length, 1);
  assert.match(shown.at(-1) ?? "", /^Abandon goal “1\.1 Goal 2”\?/);
});

test("nothing to take back is no trouble, other refusals are thrown", async () => {
  const none = make(refusal(ErrorCode.UNKNOWN_REQUEST, "no changes"));
  answers.push("why");
  await none.commands.abandon("1");
  assert.equal(none.asked.at(-1)?.[1]["revertFiles"], false);
  const other = make(refusal(INVALID_PARAMS, "Goal 1 is completed"));
  answers.push("why");
  await assert.rejects(other.commands.abandon("1"), /Goal 1 is completed/);
});

test("a goal at the end of its line is not moved, and the person is told", async () => {
  const { commands, asked } = make();
  await commands.shift("2", "up");
  assert.deepEqual(asked, []);
  assert.deepEqual(shown, ["Goalwright: this goal is already first"]);
});

test("the list of a goal has what applies to it now: nothing of files where none were changed, and no next for the current one", async () => {
  const offered = async (goalId: string, label: string, changedFor: string[] = []): Promise<boolean> => {
    ran.splice(0);
    answers.push(label);
    await make([], changedFor).commands.choose(goalId);
    return ran.length > 0;
  };
  assert.equal(await offered("1", "Do this next"), false);
  assert.equal(await offered("2", "Do this next"), true);
  assert.equal(await offered("1", "Undo its file changes"), false);
  assert.equal(await offered("1", "Undo its file changes", ["2"]), true);
  assert.equal(await offered("2", "Review its file changes", ["1"]), false);
  assert.equal(await offered("2", "Move up"), false);
  assert.equal(await offered("2", "Go to its place"), false);
});
