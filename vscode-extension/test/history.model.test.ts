import assert from "node:assert/strict";
import { test } from "node:test";
import type * as vscode from "vscode";
import type { Daemon } from "../src/daemon/daemon";
import { restore, revertOrKeep } from "../src/history/commands";
import { FileHistory } from "../src/history/model";
import type { HistoryChange, HistoryResult } from "../src/protocol.gen";
import { SessionController, type Change } from "../src/session/controller";
import { event } from "./fakes/protocol";
import { answers as said, EventEmitter } from "./fakes/vscode";

const log = { warn() {} } as unknown as vscode.LogOutputChannel;

function change(changeId: string, state: "applied" | "undone"): HistoryChange {
  const files = [{ path: "a.py", kind: "update" as const, added: 1, removed: 1, undoable: true }];
  return { changeId, toolCallId: `call-${changeId}`, tool: "edit", time: "", goalId: null, messageId: null, promptId: null, prompt: "", state, files };
}

/** A history over a daemon that tells `list` and notes what it was asked. */
function make(sessionId: string | undefined = "s1") {
  const changed = new EventEmitter<Change>();
  const asked: [string, unknown][] = [];
  const answers = { list: { changes: [], undo: null, redo: null } as HistoryResult, restore: (): unknown => ({ target: "edit of a.py", files: [] }) };
  const daemon = {
    state: { phase: "connected" },
    request: (method: string, params: unknown) => {
      asked.push([method.replace("goalwright/history/", ""), params]);
      return Promise.resolve(method.endsWith("list") ? answers.list : answers.restore());
    },
  };
  const sessions = { sessionId, onDidChange: changed.event, required: SessionController.prototype.required };
  const history = new FileHistory(daemon as unknown as Daemon, sessions as unknown as SessionController, log);
  return { history, changed, asked, answers, sessions };
}

const next = (history: FileHistory): Promise<void> => new Promise((resolve) => history.onDidChange(() => resolve()));

test("the changes of a session are read when it is opened, and given by their tool call", async () => {
  const { history, changed, answers } = make();
  answers.list = { changes: [change("c1", "applied")], undo: "c1", redo: null };
  const read = next(history);
  changed.fire({ kind: "reset" });
  await read;
  assert.equal(history.byCall()["call-c1"]?.state, "applied");
});

test("many changed files are one question, and text that streams is none", async () => {
  const { history, changed, asked } = make();
  const file = event(1, "file_changed", { path: "a", kind: "update", version: "v", toolCallId: "c", added: 1, removed: 0 });
  const delta = { delta: { traceId: "s1", kind: "text", messageId: "m", index: 0, toolCallId: null, name: null, text: "x" } } as const;
  changed.fire({ kind: "update", update: delta });
  const read = next(history);
  for (let n = 0; n < 50; n++) changed.fire({ kind: "update", update: file });
  await read;
  assert.deepEqual(asked, [["list", { sessionId: "s1" }]]);
});

test("one change, the next one, and a look before a restore", async () => {
  const { history, asked } = make();
  await history.step("undo", "c1");
  await history.step("redo");
  await history.restore({ messageId: "m1" }, true);
  assert.deepEqual(asked, [
    ["undo", { sessionId: "s1", changeId: "c1" }],
    ["redo", { sessionId: "s1", changeId: null }],
    ["restore", { sessionId: "s1", messageId: "m1", dryRun: true, texts: false }],
  ]);
});

test("without a session there is nothing to undo", () => {
  const { history } = make("");
  assert.throws(() => history.step("undo"), /Open a session/);
});

test("files are reverted in the session that the user was asked about", async () => {
  const ways: [string, (history: FileHistory) => Promise<unknown>][] = [
    ["Revert", (history) => restore(history, { messageId: "m1" }, { question: "Revert?", button: "Revert", nothing: "Nothing." })],
    ["Revert Files", (history) => revertOrKeep(history, "m1")],
  ];
  for (const [button, work] of ways) {
    const { history, asked, sessions, answers } = make();
    answers.restore = () => {
      // Another session comes while the user is asked.
      sessions.sessionId = "s2";
      return { target: "message 1", files: [{ path: "a.py", kind: "update", added: 1, removed: 1, undoable: true }], texts: [] };
    };
    said.push(button);
    await work(history);
    assert.deepEqual(asked.map(([, params]) => (params as { sessionId: string }).sessionId), ["s1", "s1"]);
  }
});
