import assert from "node:assert/strict";
import { test } from "node:test";
import { button, type ListRow, liveList } from "../src/live_list";
import { picks } from "./fakes/vscode";
import { settled } from "./fakes/session";

test("rows read before a button's answer do not replace it", async () => {
  const answers: ((rows: readonly ListRow[]) => void)[] = [];
  const later = (): Promise<readonly ListRow[]> => new Promise((resolve) => answers.push(resolve));
  const row = (label: string, changing: boolean): ListRow => ({ label, changing, buttons: [button("circle-slash", "Enable or disable", { stay: later })] });
  const closed = liveList({}, later);
  const pick = picks.at(-1);
  assert.ok(pick);
  answers[0]?.([row("enabled", true)]);
  // The rows change by themselves, so they are read again.
  while (answers.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  pick.press("enabled");
  answers[2]?.([row("disabled", false)]);
  await settled();
  answers[1]?.([row("enabled", false)]);
  await settled();
  assert.deepEqual(pick.items.map(({ label }) => label), ["disabled"]);
  pick.hide();
  await closed;
});

test("rows that were asked for earlier do not replace newer ones", async () => {
  const answers: ((rows: readonly ListRow[]) => void)[] = [];
  const later = (): Promise<readonly ListRow[]> => new Promise((resolve) => answers.push(resolve));
  const row = (label: string): ListRow => ({ label, buttons: [button("circle-slash", "Enable or disable", { stay: later })] });
  const closed = liveList({}, later);
  const pick = picks.at(-1);
  assert.ok(pick);
  answers[0]?.([row("enabled")]);
  await settled();
  pick.press("enabled");
  pick.press("enabled");
  answers[2]?.([row("enabled again")]);
  await settled();
  answers[1]?.([row("disabled")]);
  await settled();
  assert.deepEqual([pick.items.map(({ label }) => label), pick.busy], [["enabled again"], false]);
  pick.hide();
  await closed;
});
