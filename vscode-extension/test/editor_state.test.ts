import assert from "node:assert/strict";
import { test } from "node:test";
import { SurroundingModel } from "../src/chat/editor_state";
import type { SessionInfo } from "../src/protocol.gen";
import { session } from "./fakes/protocol";
import { make, named, settled } from "./fakes/session";
import { EventEmitter, workspace } from "./fakes/vscode";

const never = { onDidChangeWorkspaceFolders: new EventEmitter<unknown>().event, onDidGrantWorkspaceTrust: new EventEmitter<unknown>().event };

test("an older list of recent sessions does not replace a newer one", async () => {
  Object.assign(workspace, never);
  const { daemon, sessions } = make();
  const changed = new EventEmitter<void>();
  const attention = { active: [], onDidChange: changed.event };
  const active = { value: null, onDidChange: new EventEmitter<unknown>().event };
  const answers: ((sessions: readonly SessionInfo[]) => void)[] = [];
  daemon.answers["session/list"] = () => new Promise((resolve) => answers.push((found) => resolve({ sessions: found, more: false })));
  const parts = [daemon, sessions, attention, active] as unknown as ConstructorParameters<typeof SurroundingModel>;
  const model = new SurroundingModel(...parts);
  changed.fire();
  changed.fire();
  answers[1]?.([session(), named("s2")]);
  await settled();
  answers[0]?.([session()]);
  await settled();
  assert.deepEqual(model.value.recent.map(({ id }) => id), ["s1", "s2"]);
  model.dispose();
});
