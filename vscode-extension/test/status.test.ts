import assert from "node:assert/strict";
import { test } from "node:test";
import type { DaemonState } from "../src/daemon/daemon";
import { Problem } from "../src/daemon/problems";
import { fromLoad } from "../src/session/state";
import { statusWords } from "../src/status/item";
import { loaded, request, session } from "./fakes/protocol";

const connected = (demo = false): DaemonState => ({
  phase: "connected",
  status: {
    version: "0", protocolVersion: 1, pid: 1, workspace: "/w", uptimeS: 0, clients: 1, running: 0, model: "a/b", demo,
    modelNotice: "", notice: "", demoPrompt: "", traceFolder: "", trust: "trusted", sandbox: "", memoryMb: null, apiUrl: null, active: [],
  },
});

test("the status bar says what the person needs to know first", () => {
  const words = (state: DaemonState, over?: Parameters<typeof loaded>[0]): string =>
    statusWords(state, over && fromLoad(loaded(over))).state;
  assert.equal(words({ phase: "idle" }), "not started");
  assert.equal(words({ phase: "reconnecting" }), "disconnected");
  assert.equal(words({ phase: "failed", problem: new Problem("x", "m") }), "disconnected");
  assert.equal(words({ phase: "failed", problem: new Problem("notInstalled", "m") }), "not installed");
  assert.equal(words(connected()), "idle");
  assert.equal(words(connected(true)), "demo");
  assert.equal(words(connected(), { session: session({ status: "running" }) }), "working");
  assert.equal(words(connected(true), { session: session({ status: "waiting", demo: true }), pending: [request("r")] }), "approval needed");
});

test("what other sessions need is said and opened from the status bar", () => {
  const other = { sessionId: "s2", title: "Fix the build", asked: ["r"], waits: true };
  const words = statusWords(connected(), fromLoad(loaded()), undefined, { others: [other], count: 1 });
  assert.deepEqual([words.state, words.other, words.alarm], ["approval needed", "s2", true]);
  assert.match(words.tooltip, /“Fix the build” needs your approval/);
  assert.equal(statusWords(connected(), fromLoad(loaded({ pending: [request("r")] })), undefined, { others: [other], count: 2 }).state, "2 approvals needed");
});

test("of several folders the one that Goalwright works in is named", () => {
  assert.equal(statusWords(connected(), undefined).folder, undefined);
  const words = statusWords(connected(), undefined, "server");
  assert.equal(words.folder, "server");
  assert.match(words.tooltip, /Folder: server$/);
});

test("a mode other than the usual one is in the status bar, too", () => {
  const mode = (over: Parameters<typeof session>[0]): string | undefined => statusWords(connected(), fromLoad(loaded({ session: session(over) }))).mode;
  assert.equal(mode({}), undefined);
  assert.equal(mode({ mode: "accept-edits" }), "Accept edits");
  assert.equal(mode({ mode: "auto", status: "running" }), "Autonomous");
});
