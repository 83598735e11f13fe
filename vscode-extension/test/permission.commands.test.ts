import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { Daemon } from "../src/daemon/daemon";
import { PermissionCommands } from "../src/permission/commands";
import { showServers } from "../src/mcp/servers";
import { showJobs } from "../src/permission/jobs";
import type { JobInfo, McpServer, StoredGrant } from "../src/protocol.gen";
import type { SessionController } from "../src/session/controller";
import { fromLoad } from "../src/session/state";
import { grant, loaded, rule, session } from "./fakes/protocol";
import { answers, opened, picks, ran, shown, workspace } from "./fakes/vscode";

const job = (jobId: string, over: Partial<JobInfo> = {}): JobInfo => ({
  jobId, sessionId: "s1", command: `run ${jobId}`, startedAt: "2026-01-01T00:00:00Z", exitCode: null, outputFile: null, ...over,
});

/** The commands over a daemon that keeps grants and jobs, and notes what it was asked. */
function make(granted: StoredGrant[] = [], jobs: JobInfo[] = [], refuse?: Error) {
  const asked: [string, Record<string, unknown>][] = [];
  const request = async (method: string, params: Record<string, unknown>): Promise<unknown> => {
    const name = method.replace("goalwright/", "");
    asked.push([name, params]);
    if (refuse) throw refuse;
    if (name === "permission/forget") {
      const ids = params["grantIds"] as string[];
      granted = granted.filter(({ grantId }) => !ids.includes(grantId));
    }
    if (name === "job/kill") jobs = jobs.map((one) => (one.jobId === params["jobId"] ? { ...one, exitCode: 143 } : one));
    const rules = [rule("edit", "*"), rule("bash", "git push *", { source: "user", file: "/no/such/config.json" })];
    return { grants: granted, rules, mode: "plan", trust: "trusted", forgotten: [], jobs };
  };
  const sessions = { sessionId: "s1", state: fromLoad(loaded({ session: session() })), ensure: () => Promise.resolve("s1") };
  const daemon = { request } as unknown as Daemon;
  const controller = sessions as unknown as SessionController;
  const commands = new PermissionCommands({ daemon, sessions: controller, surrounding: { defaultMode: "ask" } as never });
  return { commands, asked, daemon, sessions: controller };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const labels = (): string[] => picks.at(-1)?.items.map(({ label }) => label) ?? [];

beforeEach(() => {
  for (const list of [answers, picks, ran, shown]) list.splice(0);
  workspace.isTrusted = true;
});

test("a mode is chosen for the session on display", async () => {
  const { commands, asked } = make();
  answers.push("Read only");
  await commands.setMode();
  assert.deepEqual(asked, [["session/set", { sessionId: "s1", mode: "plan" }]]);
});

test("a mode is for the session that was shown when it was asked", async () => {
  const { commands, asked, sessions } = make();
  answers.push("Read only");
  const choosing = commands.setMode();
  Object.assign(sessions, { sessionId: "s2", ensure: () => Promise.resolve("s2") });
  await choosing;
  assert.deepEqual(asked, [["session/set", { sessionId: "s1", mode: "plan" }]]);
});

test("the present mode is no change, and nothing chosen is none either", async () => {
  const { commands, asked } = make();
  answers.push("Approve each step", undefined);
  await commands.setMode();
  await commands.setMode();
  assert.deepEqual(asked, []);
});

test("a mode that needs trust is refused in the daemon's words, with the way to give it", async () => {
  workspace.isTrusted = false;
  const { commands } = make([], [], new Error("auto needs a trusted folder."));
  answers.push("Autonomous", "Manage Workspace Trust");
  await commands.setMode();
  assert.equal(shown.at(-1), "auto needs a trusted folder.");
  assert.deepEqual(ran, [["workbench.trust.manage"]]);
});

test("in a trusted folder another refusal is thrown", async () => {
  const { commands } = make([], [], new Error("The store failed."));
  answers.push("Autonomous");
  await assert.rejects(commands.setMode(), /store failed/);
});

test("what was granted is listed newest first, above the rules, the strongest of them first", async () => {
  const old = grant("g1", { grantedAt: "2025-01-01T00:00:00Z" });
  const { commands } = make([old, grant("g2", { pattern: "git diff *", scope: "user" })]);
  void commands.manage();
  await settled();
  assert.deepEqual(labels(), ["Granted by you", "bash: git diff *", "bash: git log *", "Active rules, highest priority first", "bash: git push *", "edit: *"]);
  assert.match(picks[0]?.title ?? "", /mode Read only · trusted folder/);
});

test("a grant is removed by its row's button, and the list stays", async () => {
  const { commands, asked } = make([grant("g1"), grant("g2", { pattern: "git diff *", scope: "user" })]);
  void commands.manage();
  await settled();
  picks[0]?.press("bash: git log *");
  await settled();
  assert.deepEqual(asked[1], ["permission/forget", { grantIds: ["g1"], sessionId: "s1" }]);
  assert.equal(labels().includes("bash: git log *"), false);
  picks[0]?.press("bash: git diff *");
  await settled();
  assert.deepEqual(asked[3], ["permission/forget", { grantIds: ["g2"] }], "only a grant of the session is the session's");
  assert.equal(labels().includes("Nothing yet"), true);
  assert.equal(picks.length, 1);
});

test("a grant is removed from the session whose list it is in", async () => {
  const { commands, asked, sessions } = make([grant("g1", { scope: "session" })]);
  const closed = commands.manage();
  await settled();
  Object.assign(sessions, { sessionId: "s2" });
  const row = picks.at(-1)?.items.find(({ buttons }) => buttons?.length);
  picks.at(-1)?.press(row?.label ?? "");
  await settled();
  assert.deepEqual(asked.find(([name]) => name === "permission/forget")?.[1], { grantIds: ["g1"], sessionId: "s1" });
  picks.at(-1)?.hide();
  await closed;
});

test("the keyboard removes a grant after a question, and the list is there again", async () => {
  const { commands, asked } = make([grant("g1")]);
  answers.push("Remove Permission");
  void commands.manage();
  await settled();
  picks[0]?.enter("bash: git log *");
  await settled();
  assert.match(shown[0] ?? "", /^Ask again for bash: git log \*\?\nThis session\nGranted/);
  assert.deepEqual(asked.map(([name]) => name), ["permission/rules", "permission/forget", "permission/rules"]);
  assert.equal(picks.length, 2);
});

test("a rule without a file cannot be opened, and says why", async () => {
  const { commands } = make();
  const done = commands.manage();
  await settled();
  picks[0]?.enter("edit: *");
  await done;
  assert.match(shown.at(-1) ?? "", /built-in rule/);
});

test("trouble with the list is told by whoever ran the command", async () => {
  const { commands } = make([], [], new Error("no connection"));
  await assert.rejects(commands.manage(), /no connection/);
});

test("a background job is stopped from the list, the newest of which stands first", async () => {
  const { daemon, sessions, asked } = make([], [job("j1"), job("j2", { exitCode: 0 })]);
  void showJobs(daemon, sessions);
  await settled();
  assert.deepEqual(labels(), ["run j2", "run j1"]);
  assert.equal(picks[0]?.row("run j2").buttons?.length, 0);
  picks[0]?.press("run j1");
  await settled();
  assert.deepEqual(asked[1], ["job/kill", { sessionId: "s1", jobId: "j1" }]);
  assert.match(picks[0]?.row("run j1").description ?? "", /^ended with 143/);
});

test("without jobs the list says so", async () => {
  const { daemon, sessions } = make();
  void showJobs(daemon, sessions);
  await settled();
  assert.deepEqual(labels(), ["No command runs in the background."]);
});

test("MCP servers are listed with their states, and switched off and on", async () => {
  const server: McpServer = { name: "docs", source: "config.json", state: "ready", error: "", signedIn: false, tools: [], prompts: [], resources: 0, logFile: "" };
  const asked: [string, Record<string, unknown>][] = [];
  const request = async (method: string, params: Record<string, unknown>): Promise<unknown> => {
    asked.push([method, params]);
    if (method === "goalwright/mcp/set") server.state = params["enabled"] === true ? "ready" : "disabled";
    return { servers: [{ ...server }], problems: ["x is not used"] };
  };
  void showServers({ request, connect: () => Promise.resolve() } as unknown as Daemon);
  await settled();
  assert.deepEqual(labels(), ["docs", "$(warning) Not used"]);
  assert.equal(picks[0]?.row("docs").description, "ready, tools: 0 · config.json");
  picks[0]?.press("docs");
  await settled();
  assert.equal(asked.at(-1)?.[0], "goalwright/mcp/restart");
  server.state = "disabled";
  picks[0]?.press("docs");
  await settled();
  picks[0]?.press("docs");
  await settled();
  assert.deepEqual(asked.at(-1), ["goalwright/mcp/set", { name: "docs", enabled: true }]);
  assert.equal(picks[0]?.row("docs").buttons?.length, 2);
});

test("single tools of an MCP server are switched off and on", async () => {
  const tool = (name: string, disabled = false): McpServer["tools"][number] => ({ name: `mcp__docs__${name}`, tool: name, description: "", readOnly: false, disabled });
  const prompts = [{ name: "mcp__docs__p", prompt: "p", description: "", hint: "" }];
  const server: McpServer = { name: "docs", source: "config.json", state: "ready", error: "", signedIn: false, tools: [tool("a"), tool("b"), tool("c", true)], prompts, resources: 7, logFile: "" };
  const asked: [string, Record<string, unknown>][] = [];
  const request = async (method: string, params: Record<string, unknown>): Promise<unknown> => {
    asked.push([method, params]);
    return { servers: [server], problems: [] };
  };
  void showServers({ request, connect: () => Promise.resolve() } as unknown as Daemon);
  await settled();
  assert.equal(picks[0]?.row("docs").description, "ready, tools: 3, prompts: 1, resources: 7 · config.json");
  assert.equal(picks[0]?.row("docs").detail, "a, b, c (disabled)");
  answers.push("a, c");
  picks[0]?.press("docs");
  await settled();
  const set = (name: string, enabled: boolean): [string, Record<string, unknown>] => ["goalwright/mcp/set", { name, enabled }];
  assert.deepEqual(asked.slice(1), [set("docs/b", false), set("docs/c", true)]);
});

test("a server that needs a sign-in has a button that opens its page", async () => {
  const server: McpServer = { name: "docs", source: "config.json", state: "signed_out", error: "", signedIn: false, tools: [], prompts: [], resources: 0, logFile: "" };
  const asked: string[] = [];
  const request = async (method: string): Promise<unknown> => {
    asked.push(method);
    return method === "goalwright/mcp/login" ? { url: "https://sign.example/authorize?state=x" } : { servers: [server], problems: [] };
  };
  void showServers({ request, connect: () => Promise.resolve() } as unknown as Daemon);
  await settled();
  assert.equal(picks.at(-1)?.row("docs").description, "needs sign-in · config.json");
  picks.at(-1)?.press("docs");
  await settled();
  assert.equal(opened.at(-1), "https://sign.example/authorize?state=x");
  assert.deepEqual(asked, ["goalwright/mcp/list", "goalwright/mcp/login", "goalwright/mcp/loggedIn"]);
  assert.equal(shown.at(-1), "You are signed in to docs.");
});

test("MCP servers that start are looked at until they have started", { timeout: 30_000 }, async () => {
  const server: McpServer = { name: "docs", source: "config.json", state: "starting", error: "", signedIn: false, tools: [], prompts: [], resources: 0, logFile: "" };
  const starts: unknown[] = [];
  const request = async (_: string, { start }: { start: boolean }): Promise<unknown> => {
    starts.push(start);
    return { servers: [{ ...server }], problems: [] };
  };
  void showServers({ request, connect: () => Promise.resolve() } as unknown as Daemon);
  await settled();
  assert.equal(picks[0]?.row("docs").description, "starting · config.json");
  server.state = "ready";
  while (picks[0]?.row("docs").description !== "ready, tools: 0 · config.json") await settled();
  assert.deepEqual(starts, [true, false]);
});
