import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import type { ActiveSession, SessionsActivity } from "../src/protocol.gen";
import type { SessionController } from "../src/session/controller";
import { fromLoad } from "../src/session/state";
import { Attention, desktopNotification } from "../src/status/attention";
import { loaded, request } from "./fakes/protocol";
import { sources } from "./fakes/texts";
import { configured, answers, EventEmitter, ran, shown, window } from "./fakes/vscode";

const active = (sessionId: string, asked: string[] = []): ActiveSession => ({ sessionId, title: `Task ${sessionId}`, asked, waits: asked.length > 0 });

function make(visible = true, pending = [request("own")]): { attention: Attention; tell: (active: ActiveSession[], over?: Partial<SessionsActivity>) => void; states: EventEmitter<unknown> } {
  const activity = new EventEmitter<SessionsActivity>();
  const states = new EventEmitter<unknown>();
  const sessions = { state: fromLoad(loaded({ pending })), sessionId: "s1", onDidChange: new EventEmitter().event };
  const attention = new Attention({ onActivity: activity.event, onDidChangeState: states.event } as unknown as Daemon, sessions as unknown as SessionController, () => ({ visible }));
  return { attention, states, tell: (sessions, over = {}) => activity.fire({ active: sessions, ended: null, title: "", stopReason: null, ...over }) };
}

beforeEach(() => {
  for (const list of [shown, ran, answers]) list.splice(0);
  window.state.focused = true;
  configured.clear();
});

test("the questions of all sessions are counted", () => {
  const { attention, tell } = make();
  assert.equal(attention.count, 1);
  tell([active("s1", ["own"]), active("s2", ["a", "b"]), active("s3"), { ...active("s4"), waits: true }]);
  assert.equal(attention.count, 4, "a choice among branches is one");
  assert.deepEqual(attention.others.map(({ sessionId }) => sessionId), ["s2", "s4"]);
});

test("a session that is not shown and needs approval is told of once, and opened by the button", async () => {
  const { tell } = make();
  answers.push("Open");
  tell([active("s1", ["own"]), active("s2", ["a"])]);
  tell([active("s2", ["a", "b"])]);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(shown, ["“Task s2” needs your approval"], "not of the one in view");
  assert.deepEqual(ran, [["goalwright.showSession", "s2"]]);
  tell([active("s2")]);
  tell([active("s2", ["c"])]);
  assert.equal(shown.length, 2, "but again for what it asks later");
});

test("the session on display is told of while the chat is hidden or the window is behind others", () => {
  make(false).tell([active("s1", ["own"])]);
  window.state.focused = false;
  make().tell([active("s1", ["own"])]);
  assert.equal(shown.length, 2);
});

test("who finished is told, who was stopped by the user is not, and the setting decides", () => {
  const { tell } = make();
  tell([], { ended: "s2", title: "Tidy", stopReason: "end_turn" });
  tell([], { ended: "s3", title: "Build", stopReason: "error" });
  tell([], { ended: "s4", title: "Gone", stopReason: "canceled" });
  tell([], { ended: "s1", title: "Seen", stopReason: "end_turn" });
  assert.deepEqual(shown, ["“Tidy” is done", "“Build” stopped with an error"]);
  configured.set("notifications", "approvals");
  tell([active("s5", ["a"])], { ended: "s2", title: "Tidy", stopReason: "end_turn" });
  assert.equal(shown.at(-1), "“Task s5” needs your approval");
  configured.set("notifications", "off");
  tell([active("s6", ["a"])]);
  assert.equal(shown.length, 3);
});

test("a title brings no link into a notification", () => {
  const { tell } = make();
  tell([{ ...active("s2", ["a"]), title: "[Review](command:goalwright.accept)" }]);
  assert.deepEqual(shown, ["“[Review] (command:goalwright.accept)” needs your approval"]);
});

test("each notification is shown by the function that takes links out", () => {
  const calls = sources("src").flatMap((file) => [...readFileSync(file, "utf8").matchAll(/\.show(?:Information|Warning|Error)Message\(\s*(.*?)\);?\n/gs)].map(([, call]) => `${file}: ${call}`));
  assert.ok(calls.length > 5);
  assert.deepEqual(calls.filter((call) => !call.includes("modal: true")), []);
});

test("what waits when the window connects is counted without a word", () => {
  const { attention, states } = make();
  states.fire({ phase: "connected", status: { active: [active("s2", ["a"])] } });
  assert.deepEqual([attention.count, shown.length], [2, 0]);
  states.fire({ phase: "reconnecting" });
  assert.equal(attention.count, 1);
});

test("a title is an argument of the desktop's program, never a part of a script", () => {
  assert.deepEqual(desktopNotification("linux", "--x $(rm)"), ["notify-send", ["--app-name=Goalwright", "--", "Goalwright", "--x $(rm)"]]);
  const [, script] = desktopNotification("darwin", 'a" & b') ?? ["", []];
  assert.equal(script.at(-1), 'a" & b');
  assert.ok(script.slice(0, -1).every((one) => !one.includes("& b")));
  assert.equal(desktopNotification("win32", "x"), undefined);
});
