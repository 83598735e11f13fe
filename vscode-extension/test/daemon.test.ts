import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { Installation, interpreter, lastWords, progress } from "../src/daemon/install";
import { backoff, launch, readAnswer, wasStopped } from "../src/daemon/launch";
import { Problem } from "../src/daemon/problems";
import { cleanEnvironment, providerEnvironment, run } from "../src/daemon/process";
import { candidates, findBasePython, objection } from "../src/daemon/python";

const silent = (): void => undefined;
const problemOf = (work: () => unknown): Problem => {
  try {
    work();
  } catch (error) {
    if (error instanceof Problem) return error;
  }
  return assert.fail("no Problem was thrown");
};
const answer = (stdout: unknown, over: object = {}): { code: number; stdout: string; stderr: string } => ({
  code: 0,
  stdout: typeof stdout === "string" ? stdout : `${JSON.stringify(stdout)}\n`,
  stderr: "",
  ...over,
});
const ENDPOINT = { socket: "/s", token: "t", pid: 1, version: "0.1.0", protocolVersion: 1 };

test("the answer of start is the last JSON line", () => {
  assert.deepEqual(readAnswer(answer(`a banner\n${JSON.stringify(ENDPOINT)}\n`), "python"), ENDPOINT);
  const windows = { ...ENDPOINT, socket: undefined, port: 4711 };
  assert.equal(readAnswer(answer(windows), "python").port, 4711);
});

test("what start could not do is told in its own words", () => {
  const error = { error: { code: "workspace", message: "/w is not a folder." } };
  const problem = problemOf(() => readAnswer(answer(error, { code: 1 }), "python"));
  assert.deepEqual([problem.code, problem.message, problem.passing], ["workspace", "/w is not a folder.", false]);
  assert.equal(problemOf(() => readAnswer(answer({ error: { code: "startTimeout", message: "m" } }), "p")).passing, true);
});

test("a Python without Goalwright gets the button that installs it", () => {
  const done = answer("", { code: 1, stderr: "/usr/bin/python3: No module named goalwright\n" });
  const problem = problemOf(() => readAnswer(done, "/usr/bin/python3"));
  assert.equal(problem.code, "notInstalled");
  assert.deepEqual(problem.actions[0], "install");
});

test("a daemon of another protocol is not spoken to", () => {
  const problem = problemOf(() => readAnswer(answer({ ...ENDPOINT, protocolVersion: 0 }), "python"));
  assert.deepEqual([problem.code, problem.actions[0]], ["incompatible", "restartDaemon"]);
});

test("silence is a problem with the reason that stderr has", () => {
  const problem = problemOf(() => readAnswer(answer("", { code: 3, stderr: "x\nMemoryError\n" }), "python"));
  assert.match(problem.message, /MemoryError$/);
});

test("a Python that is not there is told with the button to choose one", async () => {
  await assert.rejects(launch("/nowhere/python", os.tmpdir(), silent), (error: Problem) => {
    assert.equal(error.code, "noPython");
    return error.actions.includes("choosePython");
  });
});

test("a daemon that took its socket along was stopped, one that left it was killed", async () => {
  const { bundle, done } = await folders();
  const socket = path.join(bundle, "daemon.sock");
  assert.equal(wasStopped({ ...ENDPOINT, socket }), true);
  await writeFile(socket, "");
  assert.equal(wasStopped({ ...ENDPOINT, socket }), false);
  const { socket: _, ...rest } = ENDPOINT;
  assert.equal(wasStopped({ ...rest, port: 1 }), false);
  await done();
});

test("back-off begins at once, doubles, and has an end", () => {
  const waits = [0, 1, 2, 3, 10].map((attempt) => backoff(attempt, () => 0.5));
  assert.deepEqual(waits, [0, 250, 500, 1000, 15_000]);
  assert.ok(backoff(2, () => 0) < 500 && backoff(2, () => 1) > 500);
});

test("a program's output comes line by line, its exit code at the end", async () => {
  const lines: string[] = [];
  const script = "process.stdout.write('a\\nb'); process.stderr.write('c\\n'); process.exitCode = 3";
  const done = await run(process.execPath, ["-e", script], { onLine: (line) => lines.push(line) });
  assert.deepEqual([done.code, done.stdout, done.stderr], [3, "a\nb", "c\n"]);
  assert.deepEqual(lines.sort(), ["a", "c"]);
});

test("a program that is aborted or too slow is stopped", async () => {
  const forever = ["-e", "setInterval(() => {}, 1000)"];
  const abort = new AbortController();
  const aborted = run(process.execPath, forever, { signal: abort.signal });
  abort.abort();
  await assert.rejects(aborted, { name: "AbortError" });
  await assert.rejects(run(process.execPath, forever, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
});

test("a grandchild that holds the pipes does not hold the answer", async () => {
  const script = `
    const { spawn } = require("node:child_process");
    spawn(process.execPath, ["-e", "setTimeout(() => {}, 20000)"], { stdio: ["ignore", "inherit", "inherit"], detached: true }).unref();
    console.log("started");
    process.exit(0);`;
  const done = await run(process.execPath, ["-e", script], { signal: AbortSignal.timeout(15_000) });
  assert.equal(done.stdout, "started\n");
});

test("programs are started without the keys, which the daemon gets when the extension connects", async () => {
  process.env["ANTHROPIC_API_KEY"] = "sk-secret";
  try {
    const done = await run(process.execPath, ["-e", "console.log(process.env.ANTHROPIC_API_KEY ?? 'none')"]);
    assert.equal(done.stdout.trim(), "none");
    assert.equal(providerEnvironment(process.env)["ANTHROPIC_API_KEY"], "sk-secret");
  } finally {
    delete process.env["ANTHROPIC_API_KEY"];
  }
});

test("the environment is passed on without VS Code's own variables", () => {
  assert.deepEqual(cleanEnvironment({ PATH: "p", VSCODE_PID: "1", ELECTRON_RUN_AS_NODE: "1", PYTHONPATH: "x" }), { PATH: "p" });
  const given = { ANTHROPIC_API_KEY: "k", OLLAMA_HOST: "h", OPENAI_BASE_URL: "u", GROQ_API_KEY: "g", HOME: "/", EMPTY_API_KEY: "" };
  assert.deepEqual(Object.keys(providerEnvironment(given)), ["ANTHROPIC_API_KEY", "OLLAMA_HOST", "OPENAI_BASE_URL", "GROQ_API_KEY"]);
});

test("a Python that is too old or has no venv is objected to", () => {
  const probe = { executable: "/usr/bin/python3", version: [3, 11, 2] as [number, number, number], missing: [] };
  assert.equal(objection(probe), undefined);
  assert.match(objection({ ...probe, version: [3, 10, 1] }) ?? "", /is Python 3\.10\.1/);
  assert.match(objection({ ...probe, version: [2, 12, 0] }) ?? "", /is Python 2/);
  assert.match(objection({ ...probe, missing: ["ensurepip"] }, "linux") ?? "", /apt install python3\.11-venv/);
});

test("the setting is the only candidate when it is there", () => {
  assert.deepEqual(candidates("/my/python"), [["/my/python"]]);
  assert.deepEqual(candidates("", "win32")[0], ["py", "-3"]);
  assert.deepEqual(candidates("", "linux")[0], ["python3"]);
});

test("no suitable Python is told with the buttons that help", async () => {
  await assert.rejects(findBasePython("/nowhere/python", silent), (error: Problem) => {
    assert.match(error.message, /Python 3\.11 or newer.*goalwright\.basePython.*not found/);
    assert.deepEqual(error.actions, ["choosePython", "downloadPython", "tryAgain"]);
    return true;
  });
});

test("pip's lines become progress and reasons", () => {
  assert.equal(progress("Collecting pydantic-core==2.50.4 (from x)"), "collecting pydantic-core…");
  assert.equal(progress("  Downloading x"), undefined);
  assert.equal(lastWords("a\nERROR: No matching distribution\n[notice] new pip\n"), "ERROR: No matching distribution");
});

test("an environment's interpreter is where the platform has it", () => {
  assert.equal(interpreter("/e", "linux"), "/e/bin/python");
  assert.equal(interpreter("C:\\e", "win32"), "C:\\e\\Scripts\\python.exe");
});

async function folders(): Promise<{ bundle: string; storage: string; done: () => Promise<void> }> {
  const root = await mkdtemp(path.join(os.tmpdir(), "goalwright-test-"));
  const [bundle, storage] = [path.join(root, "bundled"), path.join(root, "storage")];
  await run(process.execPath, ["-e", "for (const f of process.argv.slice(1)) require('fs').mkdirSync(f)", bundle, storage]);
  return { bundle, storage, done: () => rm(root, { recursive: true, force: true }) };
}

test("an installation that fails leaves nothing half done and says why", async () => {
  const { bundle, storage, done } = await folders();
  await writeFile(path.join(bundle, "goalwright-9.9.9-py3-none-any.whl"), "this is no wheel");
  await writeFile(path.join(bundle, "constraints.txt"), "");
  const installation = new Installation(bundle, storage);
  assert.equal(await installation.version(), "9.9.9");
  assert.equal(await installation.python(), undefined);
  const options = { basePython: "", signal: new AbortController().signal, log: silent, report: silent };
  await assert.rejects(installation.install(options), (error: Problem) => {
    assert.equal(error.code, "installFailed", error.message);
    assert.match(error.message, /Could not install the packages: ERROR/);
    return true;
  });
  assert.deepEqual(await readdir(storage), []);
  await done();
});

test("a build without a wheel says what to set", async () => {
  const { bundle, storage, done } = await folders();
  await assert.rejects(new Installation(bundle, storage).python(), (error: Problem) => error.code === "noBundle");
  await done();
});
