import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines } from "../../src/chat/webview/difflines";
import { bareLine, visible, visibleLine } from "../../src/chat/webview/visible";

test("nothing of what is approved is hidden", () => {
  assert.equal(visible("echo ok \x1b]; touch PWNED;\x07"), "echo ok ␛]; touch PWNED;␇");
  assert.equal(visible("rm x\recho\x7f\x00"), "rm x␍echo␡␀");
  assert.equal(visible("if x\u202e\u2066 #\u200b\u2028\ufeff"), "if x<U+202E><U+2066> #<U+200B><U+2028><U+FEFF>");
  assert.equal(visible("a\u3164\u{e0041}\ud800b\x9b"), "a<U+3164><U+E0041><U+D800>b<U+009B>");
  assert.equal(visible("rm\u2800x\u034fy\ufe01"), "rm<U+2800>x<U+034F>y<U+FE01>");
});

test("ordinary text is untouched", () => {
  const text = "\tdef f():\n    return 'ä 漢 😀 עברית'\n";
  assert.equal(visible(text), text);
});

test("a name or a pattern is one line", () => {
  assert.equal(visibleLine("a\n+b\tc\x1b"), "a␊+b␉c␛");
});

test("a glimpse of a text has no marks of Markdown, and names stay whole", () => {
  assert.equal(bareLine("**Considering…** the `my_func` of *src*"), "Considering… the my_func of src");
  assert.equal(bareLine("## Done: 2 * 3 in __init__"), "Done: 2 * 3 in __init__");
});

test("carriage returns are shown in a diff where line ends differ, and only there", () => {
  const texts = (diff: string): string[] => diffLines(diff).map((line) => line.text);
  assert.deepEqual(texts("@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n"), ["a\r", "a", "b\r"]);
  assert.deepEqual(texts("@@ -1,2 +1,2 @@\r\n-a\r\n+c\r\n b\r\n"), ["a", "c", "b"]);
  assert.deepEqual(texts("@@ -0,0 +1 @@\n+a\rb\n"), ["a\rb"]);
});
