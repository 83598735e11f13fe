import { spawn } from "node:child_process";
import { PROVIDER_VARIABLE } from "../protocol.gen";
import { t } from "../l10n";

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  cwd?: string;
  signal?: AbortSignal;
  onLine?: (line: string) => void;
}

/**
 * Run a program until it exits. Rejects with the system's error (`ENOENT`, …) when it cannot be started, and with an
 * Error named `AbortError` or `TimeoutError`, as the reason of the signal, when it was stopped.
 */
export function run(command: string, args: readonly string[], { onLine, ...options }: RunOptions = {}): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, env: cleanEnvironment(process.env), stdio: ["ignore", "pipe", "pipe"], windowsHide: true });
    const streams = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      let rest = "";
      child[name].setEncoding("utf8").on("data", (chunk: string) => {
        streams[name] += chunk;
        const lines = (rest + chunk).split(/\r?\n/);
        rest = lines.pop() ?? "";
        for (const line of lines) onLine?.(line);
      });
    }
    let failure: Error | undefined;
    child.on("error", (error) => {
      failure = error.name === "AbortError" ? Object.assign(new Error(t("{0} was stopped", command)), { name: (error.cause as Error).name }) : error;
      // A program that could not be started does not exit either.
      if (child.pid === undefined) reject(failure);
    });
    const settle = (code: number | null): void => (failure ? reject(failure) : resolve({ code, ...streams }));
    child.once("close", settle);
    // A detached grandchild may keep the pipes open for as long as it lives, so do not wait for that.
    child.once("exit", (code) => {
      setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
        settle(code);
      }, 1_000).unref();
    });
  });
}

/**
 * Return the environment without variables of VS Code and of an activated virtual environment, and without keys. The
 * daemon receives keys when a client connects, because other programs can read the environment it was started with.
 */
export function cleanEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const foreign = /^(VSCODE_|ELECTRON_|NODE_OPTIONS$|PYTHONHOME$|PYTHONPATH$|PYTHONSTARTUP$)/;
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !foreign.test(name) && !PROVIDER_VARIABLE.test(name)));
}

/** Return the variables that select and authenticate model providers. */
export function providerEnvironment(environment: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(Object.entries(environment).flatMap(([name, value]) => (value && PROVIDER_VARIABLE.test(name) ? [[name, value]] : [])));
}
