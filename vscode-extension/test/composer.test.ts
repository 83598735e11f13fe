import assert from "node:assert/strict";
import { test } from "node:test";
import { BUILT_INS, commandRows, ownCommands, slash } from "../src/composer/commands";
import { ComposerHost } from "../src/composer/composer";
import { placeOf } from "../src/composer/context";
import { completed, foldersOf, lastPrompt, limited, namedIn, promptOf, promptsOf, ranked, slashOf, tokenAt, withoutMention } from "../src/composer/text";
import type { Daemon } from "../src/daemon/daemon";
import type { CommandInfo } from "../src/protocol.gen";
import { message, text } from "./fakes/protocol";
import { make } from "./fakes/session";

test("a name is completed behind @ at the start or after a blank, a command only at the start", () => {
  assert.deepEqual(tokenAt("fix @src/a", 10), { sign: "@", start: 4, query: "src/a" });
  assert.deepEqual(tokenAt("@", 1), { sign: "@", start: 0, query: "" });
  assert.deepEqual(tokenAt("do @goal change the", 19), { sign: "@", start: 3, query: "goal change the" });
  assert.deepEqual(tokenAt("/com", 4), { sign: "/", start: 0, query: "com" });
  for (const none of ["me@example", "fix it", "@src/a then", "look /com", "/compact now"]) assert.equal(tokenAt(none, none.length), null, none);
});

test("what was chosen takes the place of what was typed, and the caret stands behind it", () => {
  const token = tokenAt("fix @ap now", 7);
  assert.ok(token);
  assert.deepEqual(completed("fix @ap now", 7, token, "@src/app.py "), { text: "fix @src/app.py now", caret: 16 });
});

test("files, lines, folders and kinds of context that a text names in full are found, each once", () => {
  const keys = (value: string): string[] => namedIn(value).map(({ key }) => key);
  assert.deepEqual(keys("Fix @src/app.py, see @src/app.py:3-5 and (@docs/)."), ["file:src/app.py", "lines:src/app.py:3-5", "folder:docs/"]);
  assert.deepEqual(keys("@problems and @problems again"), ["problems"]);
  assert.deepEqual(keys("me@example.org, a@b, @"), []);
  assert.deepEqual(keys("@docs:docs://guide @docs:x:/../../../etc/passwd"), [], "the daemon asks the server, and no file is read");
  assert.equal(namedIn("see @a.py now")[0]?.end, 9);
  assert.equal(namedIn(Array.from({ length: 50 }, (_, n) => `@d${n}`).join(" ")).length, 20);
  assert.equal(withoutMention("see @terminal now", "@terminal"), "see now");
  assert.equal(withoutMention("see @terminal", "@terminal"), "see ");
  assert.equal(withoutMention("@src/a.py.bak and @src/a.py:3, not @src/a.py.", "@src/a.py"), "@src/a.py.bak and @src/a.py:3, not .");
});

test("files are ranked by their name, then by the open tabs", () => {
  const files = ["docs/application.md", "src/app.py", "src/snap/readme.md", "tests/test_app.py", "z/app.py"];
  assert.deepEqual(ranked(files, "app", ["z/app.py"], 9), ["z/app.py", "src/app.py", "docs/application.md", "tests/test_app.py"]);
  assert.deepEqual(ranked(files, "", ["tests/test_app.py"], 1), ["tests/test_app.py"]);
  assert.deepEqual(ranked(files, "tapp", [], 9)[0], "tests/test_app.py");
  assert.deepEqual(foldersOf(["a/b/c.py", "a/d.py", "e.py"]), ["a/", "a/b/"]);
});

test("a command is a word behind a slash; paths and sentences about them are prompts", () => {
  assert.deepEqual(slashOf("/plan  add a cache\nplease"), { name: "plan", rest: "add a cache\nplease" });
  assert.deepEqual(slashOf("/Undo"), { name: "undo", rest: "" });
  assert.equal(slashOf("/etc/hosts is wrong"), undefined);
  assert.equal(slash("usr", "is full", []), undefined);
  assert.equal(slash("comapct", "", [])?.kind, "problem");
  assert.equal(slash("plan", "", [])?.kind, "problem");
  assert.deepEqual(slash("plan", "a cache", []), { kind: "prompt", text: "@plan a cache" });
  assert.deepEqual(slash("compact", "", []), { kind: "command", command: "compact", words: "" });
  assert.deepEqual(slash("compact", "keep the numbers", []), { kind: "command", command: "compact", words: "keep the numbers" });
  for (const name of ["undo", "fork"]) assert.equal(slash(name, "what you did to the tests", [])?.kind, "problem");
  // These only ask, so their words do no harm.
  for (const name of ["model", "mode", "agent", "budget"]) assert.equal(slash(name, "5", [])?.kind, "command");
  assert.deepEqual(commandRows("mo", []).map(({ label, send }) => [label, send]), [["/model", true], ["/mode", true]]);
  assert.deepEqual(commandRows("mode", []).map(({ label }) => label), ["/mode", "/model"], "Enter takes what was typed in full");
  assert.equal(new Set(BUILT_INS.map(({ name }) => name)).size, BUILT_INS.length);
});

test("the user's own commands and skills are listed; the daemon resolves them", () => {
  const command = (name: string, more: Partial<CommandInfo> = {}): CommandInfo => ({ name, description: `Does ${name}`, kind: "command", hint: "", arguments: false, source: "user", file: "", ...more });
  const own = ownCommands([command("test", { arguments: true, hint: "[file]" }), command("git:commit"), command("undo"), command("PDF", { kind: "skill", arguments: true })]);
  const served = command("mcp__docs__review", { kind: "mcp", arguments: true, hint: "<path>" });
  assert.deepEqual(commandRows("rev", [served]).map(({ label }) => label), ["/review", "/mcp__docs__review"], "by its own name, too");
  assert.equal(slash("mcp__docs__review", "a.py", [served]), undefined);
  assert.deepEqual(own.map(({ name }) => name), ["test", "git:commit", "PDF"], "never in place of a command that is always there");
  assert.deepEqual(commandRows("te", own).map(({ label, detail, send }) => [label, detail, send]), [["/test", "[file] Does test", undefined]]);
  assert.deepEqual(commandRows("git:", own).map(({ label, send }) => [label, send]), [["/git:commit", true]]);
  assert.deepEqual(commandRows("pdf", own).map(({ label }) => label), ["/PDF"]);
  for (const name of ["test", "git:commit", "pdf"]) assert.equal(slash(name, "", own), undefined);
  assert.deepEqual(slashOf("/git:commit now"), { name: "git:commit", rest: "now" });
  assert.deepEqual(tokenAt("/git:co", 7), { sign: "/", start: 0, query: "git:co" });
  const typed = [{ type: "command" as const, text: "/test a.py" }, { type: "agent" as const, agent: "plan" }, text("Test a.py.")];
  assert.equal(promptOf(typed).text, "/test a.py");
});

test("earlier prompts come newest first, each once, without what Goalwright wrote", () => {
  const items = ["one", "two", "one"].map((words, index) => ({ kind: "message" as const, key: `m${index}`, message: message("user", index + 1, [text(words)]) }));
  assert.deepEqual(promptsOf(items), ["one", "two"]);
});

test("the last prompt is sent again with its files and its agent", () => {
  const file = { type: "file" as const, name: "a.py", mediaType: "text/plain", data: "YQ==" };
  const asked = message("user", 1, [{ type: "agent", agent: "plan" }, text("a cache"), file]);
  const items = [asked, message("assistant", 2, [text("Done.")]), message("user", 3, [{ type: "note", text: "a note" }])].map((one, index) => ({ kind: "message" as const, key: `m${index}`, message: one }));
  assert.deepEqual(lastPrompt(items), { key: "m0", text: "@plan a cache", attachments: [file] });
  assert.equal(lastPrompt(items.slice(1)), undefined);
});

test("a text that is cut says so in its name", () => {
  assert.deepEqual(limited("a.txt", "abc", 3, "first"), { name: "a.txt", text: "abc" });
  assert.deepEqual(limited("a.txt", "x".repeat(2048) + "y", 2048, "last"), { name: "a.txt (last 2 KB)", text: "x".repeat(2047) + "y" });
});

test("lines of a file are sent by their name, for the daemon to read by the rules", async () => {
  const { daemon, sessions } = make();
  const host = new ComposerHost(daemon as unknown as Daemon, sessions);
  assert.deepEqual(await host.mention("lines:.env:1-9"), [{ type: "file", name: ".env:1-9", mediaType: "", data: null }]);
});

test("a chip leads to its file and its first line", () => {
  assert.deepEqual(placeOf("src/a.py:3-9"), { path: "src/a.py", line: 3 });
  for (const path of ["src/a.py", "docs/C#.md", "100%25 sure?.txt", "C:\\x\\a.py"]) assert.deepEqual(placeOf(path), { path, line: undefined });
  for (const name of ["docs:x:/../../../etc/passwd", "docs:file:///etc/passwd", "/mcp__docs__review"]) assert.equal(placeOf(name), undefined, "a server's content is no file");
});
