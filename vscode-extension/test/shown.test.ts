import assert from "node:assert/strict";
import { test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import { Explorations } from "../src/explore/explorations";
import { Records } from "../src/explore/record";
import type { SessionController } from "../src/session/controller";
import { branch, subagent } from "./fakes/branches";
import { loaded, message, text } from "./fakes/protocol";
import { type FakeDaemon, make, named, settled } from "./fakes/session";

const subscribed = (daemon: FakeDaemon): string[] => [...daemon.subscribed].sort();

/** Open a session that is shown from the disk, and then cannot be opened. `others` answers when another one is loaded. */
async function openDamaged({ answers }: FakeDaemon, sessions: SessionController, others: FakeDaemon["answers"][string] | undefined): Promise<void> {
  let refuse: (error: Error) => void = () => undefined;
  answers["session/load"] = (params) => (params["sessionId"] === "s2" ? new Promise((_, reject) => (refuse = reject)) : others?.(params));
  answers["session/preview"] = () => loaded({ session: named("s2") });
  const opening = sessions.open("s2");
  await new Promise<void>((resolve) => sessions.onDidChange(({ kind }) => kind === "reset" && resolve()));
  refuse(new Error("damaged"));
  await assert.rejects(opening, /damaged/);
  await settled();
}

test("a window is subscribed to the session that it shows, and to no other", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  await sessions.open("s2");
  assert.deepEqual(subscribed(daemon), ["s2"]);
  await sessions.open("s1");
  assert.deepEqual(subscribed(daemon), ["s1"]);
  await sessions.startNew();
  assert.deepEqual(subscribed(daemon), []);
});

test("a session that is shown again has all that happened meanwhile", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  await sessions.open("s2");
  daemon.answers["session/load"] = () => loaded({ session: named("s1"), lastEventId: 7, messages: [message("user", 1, [text("meanwhile")])] });
  await sessions.open("s1");
  assert.deepEqual(sessions.state?.items.map((item) => item.key), ["m1"]);
});

test("a session that is opened and left before it is there is not subscribed to", async () => {
  const { daemon, sessions } = make();
  const answers: ((value: unknown) => void)[] = [];
  daemon.answers["session/load"] = () => new Promise((resolve) => answers.push(resolve));
  const opening = [sessions.open("s1"), sessions.open("s2")];
  answers[1]?.(loaded({ session: named("s2") }));
  answers[0]?.(loaded({ session: named("s1") }));
  await Promise.all(opening);
  assert.deepEqual(subscribed(daemon), ["s2"]);
});

test("a session stays subscribed to when another one cannot be opened", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  const { ["session/load"]: load } = daemon.answers;
  await openDamaged(daemon, sessions, load);
  assert.deepEqual([sessions.sessionId, subscribed(daemon)], ["s1", ["s1"]]);
});

test("a branch whose plan is read is not subscribed to", async () => {
  const { daemon, sessions } = make();
  daemon.answers["session/load"] = ({ sessionId }) => loaded({ session: named(String(sessionId)), branches: { A: branch("A") } });
  await sessions.open("s1");
  assert.ok(!sessions.planOf("A"));
  await settled();
  assert.ok(daemon.asked.some(([name, params]) => name === "session/load" && params["sessionId"] === "s1:A"));
  assert.deepEqual(subscribed(daemon), ["s1"]);
});

test("a child is subscribed to for as long as one of the views needs it", async () => {
  const { daemon, sessions } = make();
  let running = true;
  daemon.answers["session/load"] = ({ sessionId }) => loaded({ session: named(String(sessionId)), subagents: sessionId === "s1" && running ? { s1: subagent("s1") } : {} });
  const records = new Records(daemon as unknown as Daemon, sessions);
  const explorations = new Explorations(daemon as unknown as Daemon, sessions, records);
  await sessions.open("s1");
  await settled();
  assert.deepEqual(subscribed(daemon), ["s1", "s1:s1"]);
  await records.open("s1:A");
  await records.open("s1:s1");
  assert.deepEqual(subscribed(daemon), ["s1", "s1:s1"]);
  records.close();
  assert.deepEqual(subscribed(daemon), ["s1", "s1:s1"]);
  await records.open("s1:s1");
  running = false;
  await sessions.open("s1");
  assert.deepEqual(subscribed(daemon), ["s1", "s1:s1"]);
  records.close();
  assert.deepEqual(subscribed(daemon), ["s1"]);
  explorations.dispose();
  records.dispose();
});

test("a session that comes back after a preview of a damaged one is still subscribed to", async () => {
  const { daemon, sessions } = make();
  await sessions.open("s1");
  await openDamaged(daemon, sessions, () => {
    throw new Error("disk busy");
  });
  assert.equal(sessions.sessionId, "s1");
  assert.deepEqual(subscribed(daemon), ["s1"]);
});
