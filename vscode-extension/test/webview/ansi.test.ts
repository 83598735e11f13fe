import assert from "node:assert/strict";
import { test } from "node:test";
import { spans, variables } from "../../src/chat/webview/ansi";

test("colours and marks become classes, and end where they end", () => {
  assert.deepEqual(spans("a\x1b[1;32mok\x1b[22m!\x1b[0m b"), [
    { text: "a", style: "" },
    { text: "ok", style: "ansi-bold ansi-fg-2" },
    { text: "!", style: "ansi-fg-2" },
    { text: " b", style: "" },
  ]);
  assert.deepEqual(spans("\x1b[91;44mx\x1b[39my\x1b[mz").map(({ style }) => style), ["ansi-fg-9 ansi-bg-4", "ansi-bg-4", ""]);
  assert.equal(spans("\x1b[7;31mx")[0]?.style, "ansi-inverse ansi-bg-1");
});

test("colours that the theme does not have become the nearest of those it has", () => {
  const style = (codes: string): string | undefined => spans(`\x1b[${codes}mx`)[0]?.style;
  assert.equal(style("38;5;9"), "ansi-fg-9");
  assert.equal(style("38;5;196"), "ansi-fg-9");
  assert.equal(style("38;2;0;128;0"), "ansi-fg-2");
  assert.equal(style("48;2;255;255;255"), "ansi-bg-15");
});

test("colours are those of the theme's terminal", () => {
  assert.deepEqual(variables("ansi-bold ansi-fg-2 ansi-bg-15"), { "--ansi-fg": "var(--vscode-terminal-ansiGreen)", "--ansi-bg": "var(--vscode-terminal-ansiBrightWhite)" });
  assert.deepEqual(variables("ansi-inverse"), {});
});

test("no other sequence is shown, complete or cut off", () => {
  const text = (raw: string): string => spans(raw).map((span) => span.text).join("");
  assert.equal(text("a\x1b[2Kb\x1b]0;title\x07c\x1b(Bd\x1b[3"), "abcd");
  assert.equal(text("plain [0m text"), "plain [0m text");
});
