import assert from "node:assert/strict";
import { test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import { SessionPicker } from "../src/session/picker";
import { FakeMemory, make, named, settled } from "./fakes/session";
import { picks } from "./fakes/vscode";

test("a session that only the search finds can be opened", async () => {
  const { daemon, memory, sessions } = make();
  daemon.answers["session/list"] = () => ({ sessions: [named("s9")], more: true });
  const hit = { sessionId: "s1", excerpt: "the discount", title: "Old", folder: null, user: "" };
  daemon.answers["session/search"] = () => ({ hits: [hit, { ...hit, sessionId: "s9", title: "Listed" }] });
  const opened: string[] = [];
  const parts = { daemon: daemon as unknown as Daemon, sessions, memory, shared: new FakeMemory() };
  const done = new SessionPicker(parts as unknown as ConstructorParameters<typeof SessionPicker>[0]).show(async (id) => void opened.push(id));
  await settled();
  const pick = picks.at(-1)!;
  pick.type("discount");
  for (const end = Date.now() + 10_000; pick.items.length < 2; await settled()) assert.ok(Date.now() < end, "no row was added");
  assert.equal(pick.items.length, 2, "the one in the list stands there only");
  pick.enter("Old");
  await done;
  assert.deepEqual(opened, ["s1"]);
});
