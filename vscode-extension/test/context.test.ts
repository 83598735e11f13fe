import assert from "node:assert/strict";
import { test } from "node:test";
import { ContextCommands } from "../src/context/commands";
import type { Daemon } from "../src/daemon/daemon";
import { contextDocument } from "../src/context/document";
import type { ContextMessage, ContextResult, GoalTree } from "../src/protocol.gen";
import { call, goal, loaded, meter, result, text } from "./fakes/protocol";
import { sent } from "./fakes/plans";
import { make, named } from "./fakes/session";
import { answers, window } from "./fakes/vscode";

const tree: GoalTree = sent({ mission: "", currentId: null, goals: [goal("1"), goal("2", { status: "abandoned" })] });

function context(messages: ContextMessage[], over: Partial<ContextResult> = {}): ContextResult {
  return {
    model: "anthropic/claude",
    system: ["You are an agent.", "Directory: /w"],
    tools: [{ name: "read", description: "Reads a file.", inputSchema: { type: "object" } }],
    messages,
    tail: "## Current Plan\n1 Fix it",
    parts: [
      { layer: "system", name: "agent", goalId: null, tokens: 1_200 },
      { layer: "system", name: "environment", goalId: null, tokens: 100 },
      { layer: "tools", name: "1 tool", goalId: null, tokens: 700 },
      { layer: "messages", name: "1 | Fix it", goalId: "1", tokens: 7_500 },
      { layer: "plan", name: "plan", goalId: null, tokens: 500 },
    ],
    tokens: 10_000,
    meter: meter(),
    ...over,
  };
}

function said(role: ContextMessage["role"], content: ContextMessage["content"], over: Partial<ContextMessage> = {}): ContextMessage {
  return { role, goalId: null, kind: "message", tokens: 340, content, ...over };
}

/** Headings as an outline finds them: outside of fences. */
function outline(markdown: string): string[] {
  let fence = "";
  return markdown.split("\n").filter((line) => {
    const ticks = /^(`{3,})/.exec(line)?.[1];
    if (ticks && !fence) fence = ticks;
    else if (fence && line === fence) fence = "";
    else if (!fence) return line.startsWith("#");
    return false;
  });
}

test("the outline has the layers, the parts of the system prompt, tools and messages", () => {
  const messages = [
    said("user", [text("Please fix it")]),
    said("assistant", [text("ok"), call("c", "read", { path: "a" })], { goalId: "1" }),
    said("tool", [result("c", { name: "read" })], { goalId: "1" }),
    said("user", [text("It failed")], { goalId: "2", kind: "goal_summary" }),
  ];
  assert.deepEqual(outline(contextDocument(context(messages), tree, "Fix\nthe shop")), [
    "# Context of Fix the shop",
    "## System prompt · 1.3k tokens",
    "### agent · 1.2k tokens",
    "### environment · 100 tokens",
    "## Tools · 1 · 700 tokens",
    "### read",
    "## Messages · 4 · 7.5k tokens",
    "### 1 · user · Please fix it · 340 tokens",
    "### 2 · assistant · goal 1 · calls read · 340 tokens",
    "### 3 · tool · goal 1 · result of read · 340 tokens",
    "### 4 · user · replaces the messages of an ended goal · goal abandoned · It failed · 340 tokens",
    "## Plan · at the end of the last message · 500 tokens",
  ]);
});

test("no text can break out of its block", () => {
  const evil = "# not a heading\n```\n## nor this\n````\n### nor that";
  const markdown = contextDocument(context([said("user", [text(evil)])]), tree, "x");
  assert.ok(!outline(markdown).some((line) => /nor|not a/.test(line) && !line.startsWith("### 1 ·")), markdown);
  assert.ok(markdown.includes(`\`\`\`\`\`text\n${evil}\n\`\`\`\`\``), markdown);
});

test("the table has every part with its share, and a bar in a name does not break it", () => {
  const markdown = contextDocument(context([]), tree, "x");
  const rows = markdown.split("\n").filter((line) => line.startsWith("|"));
  assert.deepEqual(rows.slice(0, 3), [
    "| Layer         | What        | Tokens | Share |",
    "| ------------- | ----------- | -----: | ----: |",
    "| System prompt | agent       |   1.2k |  12 % |",
  ]);
  assert.ok(rows.includes("| Messages      | 1 \\| Fix it |   7.5k |  75 % |"), markdown);
  assert.match(markdown, /about 10k tokens of a 200k window; auto-compacts at 150k/);
});

test("without a plan at the end there is no heading for it, and blocks without names are counted", () => {
  const markdown = contextDocument(context([], { tail: "", system: ["all in one"] }), tree, "x");
  assert.ok(!outline(markdown).some((line) => line.startsWith("## Plan")));
  assert.ok(outline(markdown).includes("### Block 1"));
  const inside = outline(contextDocument(context([], { tail: "", system: ["a", "b", "the plan"] }), tree, "x"));
  assert.deepEqual(inside.slice(2, 5), ["### agent · 1.2k tokens", "### environment · 100 tokens", "### Block 3"]);
});

test("every kind of part is shown, notes as what they are", () => {
  const content: ContextMessage["content"] = [
    { type: "note", text: "the person renamed it" },
    { type: "reasoning", text: "hm", signature: null, redacted: null },
    { type: "file", name: "a.png", mediaType: "image/png", data: null },
    { type: "subtask", agent: "explore", prompt: "look" },
    result("c", { isError: true, name: "edit", content: "no" }),
  ];
  const markdown = contextDocument(context([said("user", content)]), tree, "x");
  for (const words of ["Note:", "the person renamed it", "Reasoning:", "File `a.png`", "Task for `explore`", "Error of `edit`"]) {
    assert.ok(markdown.includes(words), words);
  }
});

test("a budget is added to those of its own session", async () => {
  const { daemon, sessions } = make();
  const limited = (budget: object) => meter({ budget: { ...meter().budget, ...budget } });
  daemon.answers["session/load"] = ({ sessionId }) => loaded({ session: named(String(sessionId)), meter: limited(sessionId === "s1" ? {} : { goalUsd: 5 }) });
  const commands = new ContextCommands({ daemon: daemon as unknown as Daemon, sessions });
  await sessions.open("s1");
  const { showInputBox } = window;
  window.showInputBox = async () => {
    // Another session comes while the user types.
    await sessions.open("s2");
    return "3";
  };
  answers.push("");
  await commands.setBudget();
  window.showInputBox = showInputBox;
  const sent = daemon.asked.at(-1)?.[1] as { sessionId: string; budget: { goalUsd: number | null } };
  assert.deepEqual([sent.sessionId, sent.budget.goalUsd], ["s1", null]);
  commands.dispose();
});
