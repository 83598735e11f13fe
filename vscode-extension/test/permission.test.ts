import assert from "node:assert/strict";
import { test } from "node:test";
import { changed, draftsOf, grantsOf, isBroad, isDefinition, type GrantDraft } from "../src/permission/answers";
import { forgottenLine, grantRow, headline, jobRow, MODES, modeWords, reasonLines, rememberedLine, ruleRow, ruleText, scopesFor, shortPath, verb, whose, type ReasonLine } from "../src/permission/format";
import { visibleLine } from "../src/chat/webview/visible";
import type { Mode, RuleSource } from "../src/protocol.gen";
import { grant, reason, request, rule } from "./fakes/protocol";

const draft = (pattern: string, over: Partial<GrantDraft> = {}): GrantDraft => ({ permission: "bash", suggested: pattern, pattern, chosen: true, ...over });
const PLACES = { home: "/home/me", folder: "/home/me/app" };
const NOW = Date.parse("2026-01-01T00:05:00Z");

const said = ({ verb: does, targets, rule: by, why }: ReasonLine): string => [does, targets.join(" + "), whose(by), ruleText(by), why].filter(Boolean).join(" ");

test("one thing that the card shows anyway is not said again", () => {
  const asked = request("r", { permission: "bash", targets: ["git log"], reasons: [reason("bash", "git log")] });
  assert.deepEqual(reasonLines(asked).map(said), ["the built-in rule bash: * → ask"]);
});

test("a card's heading leaves out only a command that stands below it in full", () => {
  const long = `printf ${"x".repeat(300)}\nrm -rf tests`;
  for (const [title, detail, expected] of [
    ["Run git push --force", "git push --force", "Run"],
    ["Run  ls\u202e", " ls\u202e\n", "Run"],
    ["Outside of the sandbox: Run npm ci", "npm ci", "Outside of the sandbox: Run"],
    ["Job: kill job_1: npm run dev", "npm run dev", "Job: kill job_1"],
    [`Run ${long.slice(0, 160)}… (153 more characters)`, long, "Run"],
    [`Run printf ${"x".repeat(40)}…(240 more characters)…${"x".repeat(20)}␊rm -rf tests`, long, "Run"],
    [`Run printf ${"x".repeat(40)}…(240 more characters)…${"x".repeat(20)}␊rm -rf a`, long, `Run printf ${"x".repeat(40)}…(240 more characters)…${"x".repeat(20)}␊rm -rf a`],
    ["Run ls␊rm -rf tests", "ls\nrm -rf tests", "Run"],
    // Another command than the one below: both are told.
    ["Run the unit tests", "git push --force", "Run the unit tests"],
    ["Run git push… (9 more characters)", "git pull --rebase", "Run git push… (9 more characters)"],
    ["Build this plan?", "", "Build this plan?"],
  ] as const) {
    assert.equal(headline(request("r", { permission: "bash", files: [], title: visibleLine(title), detail })), visibleLine(expected));
  }
  assert.equal(headline(request("r", { detail: "a.py" })), "Edit a.py", "the counts stand at the file, and follow what is chosen");
});

test("an older daemon's request has one rule and no reasons", () => {
  const asked = request("r", { targets: ["a", "b"], rule: rule("edit", "*.py", { source: "user" }) });
  assert.deepEqual(reasonLines(asked).map(said), ["your rule edit: *.py → ask"]);
});

test("each of several things is named with its own rule", () => {
  const asked = request("r", {
    permission: "bash",
    targets: ["cat .env"],
    reasons: [
      reason("read", ".env", { rule: rule("read", "secrets", { source: "protected" }), why: "argument of cat" }),
      reason("bash", "cat .env", { rule: rule("bash", "cat *", { source: "workspace", file: ".goalwright/config.json" }) }),
    ],
  });
  assert.deepEqual(reasonLines(asked).map(said), ["reads .env protected: secrets argument of cat", "runs cat .env this folder's rule bash: cat * → ask"]);
  assert.equal(reasonLines(asked)[1]?.rule.file, ".goalwright/config.json");
});

test("what one rule asks about is one line", () => {
  const asked = (targets: string[], over: object = {}): string[] =>
    reasonLines(request("r", { permission: "bash", files: [], targets, reasons: [reason("bash", "ls"), reason("bash", "npm test")], ...over })).map(said);
  assert.deepEqual(asked(["ls", "npm test"]), ["runs ls + npm test the built-in rule bash: * → ask"]);
  assert.deepEqual(asked(["ls", "npm test", "git log"]), ["runs ls + npm test the built-in rule bash: * → ask"]);
});

test("files whose diffs are shown are not listed again, unless only some of them are asked about", () => {
  const asked = (targets: string[]): string[] =>
    reasonLines(request("r", { targets, reasons: [reason("edit", "a.py"), reason("edit", "b.py")] })).map(said);
  assert.deepEqual(asked(["a.py", "b.py"]), ["the built-in rule edit: * → ask"]);
  assert.deepEqual(asked(["a.py", "b.py", "c.py"]), ["changes a.py + b.py the built-in rule edit: * → ask"]);
});

test("one thing that is not the command itself is named", () => {
  const asked = request("r", { permission: "bash", targets: ["cat .env"], reasons: [reason("read", ".env")] });
  assert.equal(reasonLines(asked).map(said)[0], "reads .env the built-in rule read: * → ask");
});

test("what a newer daemon says otherwise is shown by its name", () => {
  assert.equal(whose(rule("a", "b", { source: "company" as RuleSource })), "company");
  assert.equal(verb("teleport"), "teleport:");
  assert.equal(verb("constructor"), "constructor:");
  assert.equal(modeWords("night" as Mode).label, "night");
  assert.equal(whose(rule("a", "b", { source: "toString" as RuleSource })), "toString");
});

test("what is remembered is what the person chose and wrote, each once", () => {
  let drafts = draftsOf([
    { permission: "bash", pattern: "git log *" },
    { permission: "read", pattern: "src/*" },
    { permission: "bash", pattern: "git diff *" },
  ]);
  assert.equal(grantsOf(drafts).length, 3);
  drafts = changed(drafts, 1, { chosen: false });
  drafts = changed(drafts, 2, { pattern: "  git log * " });
  assert.deepEqual(grantsOf(drafts), [{ permission: "bash", pattern: "git log *" }]);
});

test("who empties a pattern does not want it, who writes into it does", () => {
  let drafts = changed([draft("git log *")], 0, { pattern: " " });
  assert.deepEqual(grantsOf(drafts), []);
  drafts = changed(drafts, 0, { pattern: "git log" });
  assert.deepEqual(grantsOf(drafts), [{ permission: "bash", pattern: "git log" }]);
  assert.deepEqual(grantsOf(changed([draft("")], 0, { chosen: true })), []);
});

test("a suggestion goes back as it came, blanks and all", () => {
  assert.deepEqual(grantsOf([draft(" odd name ")]), [{ permission: "bash", pattern: " odd name " }]);
});

test("a pattern that names nothing is told", () => {
  assert.deepEqual(["*", "**", "**/*", "* *", "~/*", "./**"].filter((pattern) => !isBroad(draft(pattern))), []);
  assert.deepEqual(["git *", "src/**", "*.py", "?", "", "."].filter((pattern) => isBroad(draft(pattern))), []);
  assert.equal(isBroad(draft("*", { chosen: false })), false);
});

test("the definition of a tool that is not built in is not for editing", () => {
  const wanted = draft("definition 0af3", { permission: "mcp__docs__look" });
  assert.ok(isDefinition(wanted));
  assert.ok(!isDefinition(draft("definition 0af3")));
  assert.ok(!isDefinition(draft("look", { permission: "mcp__docs__look" })));
});

test("rows of the list say what, where, when and by whom", () => {
  assert.deepEqual(grantRow(grant("g", { scope: "workspace" }), NOW), {
    label: "bash: git log *",
    description: "This workspace",
    detail: "Granted 5 min ago by VS Code — Run git log",
  });
  assert.equal(grantRow(grant("g", { grantedAt: null, by: "", title: "" }), NOW).detail, "");
  assert.deepEqual(ruleRow({ ...rule("read", "*.env"), idle: false }, PLACES), { label: "read: *.env", description: "ask · built-in rule", detail: "" });
  const allowed = rule("edit", "*", { source: "workspace", action: "allow" });
  assert.doesNotMatch(ruleRow({ ...allowed, idle: false }, PLACES).description, /gives no permission/);
  assert.match(ruleRow({ ...allowed, idle: true }, PLACES).description, /^allow · .* · gives no permission: the folder is not trusted$/);
});

test("a command in the background tells how it goes", () => {
  const job = { jobId: "j", sessionId: "s1", command: "npm run\n  dev", startedAt: "2026-01-01T00:00:00Z", exitCode: null, outputFile: "/o.txt" };
  assert.deepEqual(jobRow(job, NOW), { label: "npm run dev", description: "running · started 5 min ago", detail: "/o.txt" });
  assert.match(jobRow({ ...job, exitCode: -15 }, NOW).description, /^stopped by signal 15/);
  assert.match(jobRow({ ...job, exitCode: 0 }, NOW).description, /^done/);
  assert.match(jobRow({ ...job, exitCode: 137, outputFile: null }, NOW).description, /^ended with 137/);
});

test("lines of the conversation tell what holds from now on, and what no longer does", () => {
  assert.equal(rememberedLine([{ permission: "bash", pattern: "git log *" }], "workspace"), "Always allowed in this workspace: bash: git log *");
  assert.equal(forgottenLine([{ permission: "bash", pattern: "a" }, { permission: "read", pattern: "b" }]), "No longer allowed: bash: a, read: b");
});

test("all modes have words of their own", () => {
  assert.deepEqual(MODES.map(({ mode, label }) => `${mode} ${label}`), ["ask Approve each step", "accept-edits Accept edits", "plan Read only", "auto Autonomous"]);
});

test("a file is named as people write it", () => {
  const names = ["/home/me/app/.goalwright/config.json", "/home/me/.goalwright/config.json", "/home/me2/x", "/home/me", "/etc/x", "C:\\x", ""];
  assert.deepEqual(names.map((name) => shortPath(name, PLACES)), [".goalwright/config.json", "~/.goalwright/config.json", ...names.slice(2)]);
  assert.equal(shortPath("/x/y", { home: "", folder: "" }), "/x/y");
});

test("what is about the run itself is remembered for the session only", () => {
  assert.deepEqual(scopesFor(["doom_loop"]).map(({ scope }) => scope), ["session"]);
  assert.deepEqual(scopesFor(["bash", "read"]).map(({ scope }) => scope), ["session", "workspace", "user"]);
});
