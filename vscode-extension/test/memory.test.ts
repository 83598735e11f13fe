import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { WorkspaceMemory } from "../src/session/memory";

function folder(): string {
  return path.join(mkdtempSync(path.join(tmpdir(), "goalwright-")), "storage");
}

test("a value is in the file when update ends", async () => {
  const here = folder();
  const memory = new WorkspaceMemory(here, assert.fail);
  await Promise.all([memory.update("a", { deep: [1] }), memory.update("b", "text"), memory.update("b", undefined)]);
  const next = new WorkspaceMemory(here, assert.fail);
  assert.deepEqual(next.get("a"), { deep: [1] });
  assert.equal(next.get("b", "otherwise"), "otherwise");
  assert.equal(next.get("b"), undefined);
  assert.deepEqual(next.keys(), ["a"]);
});

test("two windows keep what the other one has written", async () => {
  const here = folder();
  const [one, two] = [new WorkspaceMemory(here, assert.fail), new WorkspaceMemory(here, assert.fail)];
  await one.update("/f", "s1");
  await new WorkspaceMemory(here, assert.fail).update("/f", undefined);
  await two.update("/g", "s2");
  await one.update("/h", "s3");
  const next = new WorkspaceMemory(here, assert.fail);
  assert.deepEqual([...next.keys()].sort(), ["/g", "/h"]);
});

test("a damaged file is reported, and replaced by the next value", async () => {
  const here = folder();
  await new WorkspaceMemory(here, assert.fail).update("a", 1);
  writeFileSync(path.join(here, "memory.json"), '{"a": ');
  const said: string[] = [];
  const memory = new WorkspaceMemory(here, (text) => said.push(text));
  assert.match(said.join(), /memory\.json/);
  assert.equal(memory.get("a"), undefined);
  await memory.update("a", 2);
  assert.equal(readFileSync(path.join(here, "memory.json"), "utf8"), '{"a":2}');
});

test("a folder that cannot be written loses no value in this window", async () => {
  const here = folder();
  writeFileSync(here, "a file");
  const said: string[] = [];
  const memory = new WorkspaceMemory(here, (text) => said.push(text));
  await memory.update("a", 1);
  assert.equal(memory.get("a"), 1);
  assert.match(said.join(), /EEXIST|ENOTDIR/);
  rmSync(here);
});
