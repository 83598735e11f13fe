import assert from "node:assert/strict";
import { test } from "node:test";
import type { Diagnostic } from "vscode";
import { chosen, ofTypeScript, toLsp } from "../src/diagnostics/editor";
import { hashOf } from "../src/diagnostics/watcher";

function shown(over: Partial<Diagnostic> = {}): Diagnostic {
  const range = { start: { line: 1, character: 2 }, end: { line: 1, character: 5 } };
  return { range, severity: 0, message: "no such name", ...over } as Diagnostic;
}

test("a diagnostic goes over the wire in LSP's words", () => {
  const range = { start: { line: 1, character: 2 }, end: { line: 1, character: 5 } };
  assert.deepEqual(toLsp(shown()), { range, severity: 1, message: "no such name" });
  const code = { value: "F821", target: undefined } as unknown as Diagnostic["code"] & object;
  assert.deepEqual(toLsp(shown({ severity: 3, source: "ruff", code })), {
    range,
    severity: 4,
    message: "no such name",
    source: "ruff",
    code: "F821",
  });
});

test("what this product shows is not told, and of very many the worst are", () => {
  assert.deepEqual(chosen([shown({ source: "Goalwright" })]), []);
  const many = [...Array<Diagnostic>(10_000).fill(shown({ severity: 2 })), shown({ message: "the error" })];
  const told = chosen(many);
  assert.equal(told.length, 1_000);
  assert.equal(told[0]?.message, "the error");
});

test("what TypeScript's server answers is a diagnostic as its extension shows it", () => {
  const body = [
    { start: { line: 2, offset: 3 }, end: { line: 2, offset: 6 }, text: "no such name", category: "error", code: 2304 },
    { text: "of the whole project", category: "warning" },
  ];
  const found = ofTypeScript({ type: "response", body }, "ts");
  assert.deepEqual(found?.map(toLsp), [
    { ...toLsp(shown()), source: "ts", code: 2304 },
    {
      range: { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } },
      severity: 2,
      message: "of the whole project",
      source: "ts",
    },
  ]);
  for (const other of [undefined, { type: "cancelled" }, { type: "response" }, "no"]) assert.equal(ofTypeScript(other, "ts"), undefined);
});

test("texts are compared without line ends and byte-order mark, as the daemon does", () => {
  assert.equal(hashOf("\uFEFFa\r\nb\rc"), hashOf("a\nb\nc"));
  assert.equal(hashOf("é\n"), "edd3a863872a04239eb29ad4bc12fc892b3d4ae57cc7e786a3697816f8e141c2");
  assert.notEqual(hashOf("a"), hashOf("a\n"));
});
