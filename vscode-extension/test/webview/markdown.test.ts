import assert from "node:assert/strict";
import { test } from "node:test";
import { renderBlocks } from "../../src/chat/webview/markdown";

const html = (text: string): string => renderBlocks(text).join("");

test("raw HTML stays text", () => {
  const rendered = html('<img src=x onerror="alert(1)"> <script>alert(1)</script>\n\n<iframe src="https://x">');
  assert.doesNotMatch(rendered, /<(img|script|iframe)/);
  assert.match(rendered, /&lt;script&gt;/);
});

test("no address becomes an href, and dangerous ones become no link at all", () => {
  const rendered = html("[web](https://example.org/a) [file](src/a.py#L3) [evil](javascript:alert%281%29) [cmd](command:x.y) <vscode://a/b>");
  assert.deepEqual([...rendered.matchAll(/ href="([^"]*)"/g)].map((match) => match[1]), ["#", "#"]);
  assert.deepEqual([...rendered.matchAll(/data-href="([^"]*)"/g)].map((match) => match[1]), ["https://example.org/a", "src/a.py#L3"]);
});

test("an address cannot break out of its attribute", () => {
  const rendered = html('[x](<https://a/"onmouseover="alert(1)>)');
  assert.doesNotMatch(rendered, /"onmouseover/);
});

test("images are not loaded but named", () => {
  const rendered = html("![a plan](https://example.org/plan.png)");
  assert.doesNotMatch(rendered, /<img/);
  assert.match(rendered, /data-href="https:\/\/example\.org\/plan\.png".*\[image: a plan\]/);
});

test("nothing has a style attribute, which the page's policy forbids", () => {
  const rendered = html("| a | b |\n|:-:|--:|\n| 1 | 2 |");
  assert.doesNotMatch(rendered, /style=/);
  assert.match(rendered, /<th class="center">a<\/th>/);
  assert.match(rendered, /<td class="right">2<\/td>/);
});

test("file names are not taken for web addresses, and lead to files as code", () => {
  const rendered = html("See setup.py and `src/a.py:12` but not `self.items`.");
  assert.deepEqual([...rendered.matchAll(/data-href="([^"]*)"/g)].map((match) => match[1]), ["src/a.py:12"]);
});

test("code has a copy button, its language, and colours where known", () => {
  const known = html("```python\ndef f(): return '<b>'\n```");
  assert.match(known, /<div class="code-bar">python<\/div>.*aria-label="Insert at cursor".*aria-label="Copy code"/);
  assert.doesNotMatch(known, /Open in Terminal/);
  assert.match(html("```sh\nls\n```"), /aria-label="Open in Terminal"/);
  assert.doesNotMatch(html("```\nplain\n```"), /code-bar/);
  assert.match(known, /hljs-keyword/);
  assert.doesNotMatch(known, /<b>/);
  assert.match(html("```nolang\n<b>\n```"), /&lt;b&gt;/);
});

test("a fence that is still open is code already", () => {
  assert.match(html("text\n\n```py\nx = 1"), /<pre[^>]*>.*x/);
});

test("only the last blocks of a growing text change", () => {
  const before = renderBlocks("# One\n\ntwo\n\n- a\n- b");
  const after = renderBlocks("# One\n\ntwo\n\n- a\n- b\n\n- c\n\nend");
  assert.deepEqual(before.slice(0, 2), after.slice(0, 2));
  assert.equal(after.length, 4);
});

test("headings come below the session's title", () => {
  assert.match(html("# A"), /<h3 class="h1">A<\/h3>/);
});

test("boxes of a task list are boxes, and a file with a line is a link without backticks", () => {
  const rendered = html("- [x] done\n- [ ] open\n\nSee src/a.py:16 and [there](src/b.py#L3), at 10:30 or x.y:1.");
  assert.match(rendered, /<li class="task-item"><span class="task-box" role="img" aria-label="done">.*<\/span>done<\/li>\s*<li class="task-item"><span class="task-box" role="img" aria-label="open"><\/span>open<\/li>/);
  assert.deepEqual([...rendered.matchAll(/data-href="([^"]*)"/g)].map((match) => match[1]), ["src/a.py:16", "src/b.py#L3"]);
  assert.match(html("a [x] b"), /a \[x\] b/);
});

test("formulas are found in all four ways to write them, and money and shell variables are none", () => {
  const source = (text: string): string[] => [...html(text).matchAll(/<code>(.*?)<\/code>/gs)].map((match) => match[1] ?? "");
  assert.deepEqual(source("so $a^2$ and \\(b_1\\), \\[x\\] too"), ["$a^2$", "\\(b_1\\)", "\\[x\\]"]);
  assert.deepEqual(source("$$\nx\n= y\n$$\n\n\\[\n- z\n\\]"), ["$$\nx\n= y\n$$", "\\[\n- z\n\\]"]);
  assert.deepEqual(source("- $$\n  x\n  $$\n\ny"), ["$$\nx\n$$"]);
  assert.deepEqual(source("- $$ opens\n\nIt costs $$\n$$"), [], "a formula ends with its list item");
  assert.deepEqual(source(`$${"x".repeat(3_000)}$`), [], "only so much is looked at");
  for (const none of ["$5 and $6", "from $5-$10", "$HOME/$USER", "a\\$b$", "`$x$`", "US$5$", "$$", "$$\nstill open"]) assert.deepEqual(source(none).filter((one) => one !== "$x$"), [], none);
});

test("a formula is MathML without style attributes or links; what is none stays as it is written", async () => {
  await import("../../src/chat/webview/mathml");
  const rendered = html("$$\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}$$ and $\\frac{1}{2}$");
  assert.match(rendered, /<div class="math" tabindex="0"><math.*<mtable>/);
  assert.match(rendered, /<mfrac>/);
  assert.doesNotMatch(rendered, / style=/);
  assert.match(html("$\\href{javascript:alert(1)}{x}$"), /<code>/);
  assert.match(html("$\\frac{1$"), /<code>/);
  assert.doesNotMatch(html('$\\text{<img src=x onerror="alert(1)"> style="a}$'), /<img|data-style="a/);
});
