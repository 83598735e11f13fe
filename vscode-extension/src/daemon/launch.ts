import { existsSync } from "node:fs";
import { PROTOCOL_VERSION } from "../protocol.gen";
import { Problem, type ActionId } from "./problems";
import { run, type Finished } from "./process";
import { t } from "../l10n";

/** Address and version of a running daemon. */
export interface Endpoint {
  socket?: string;
  /** Port on 127.0.0.1, on Windows. */
  port?: number;
  token: string;
  pid: number;
  version: string;
  protocolVersion: number;
}

/** Find the workspace's daemon or start it. Throws a Problem. */
export async function launch(python: string, folder: string, log: (line: string) => void): Promise<Endpoint> {
  const args = ["-I", "-m", "goalwright", "start", "--workspace", folder, "--json"];
  log(`> ${python} ${args.join(" ")}`);
  const done = await run(python, args, { cwd: folder, signal: AbortSignal.timeout(60_000) }).catch((error: NodeJS.ErrnoException) => {
    if (error.name === "TimeoutError") {
      throw new Problem("timeout", t("The Goalwright daemon did not answer within a minute."), undefined, true);
    }
    throw new Problem("noPython", t("{0} cannot be started: {1}", python, error.message), ["choosePython", "openSettings"]);
  });
  for (const line of done.stderr.split(/\r?\n/)) if (line) log(line);
  return readAnswer(done, python);
}

/**
 * After a lost connection, return true if the daemon exited in order: it removes its socket first, while a killed one
 * leaves it. For a port there is no way to know, so the result is false.
 */
export function wasStopped(endpoint: Endpoint): boolean {
  return endpoint.socket !== undefined && !existsSync(endpoint.socket);
}

/** Stop the workspace's daemon from the command line. Never throws; errors go to the log. */
export async function stopByForce(python: string, folder: string, log: (line: string) => void): Promise<void> {
  const args = ["-I", "-m", "goalwright", "stop", "--workspace", folder, "--force"];
  log(`> ${python} ${args.join(" ")}`);
  const done = await run(python, args, { cwd: folder, signal: AbortSignal.timeout(20_000) }).catch((error: Error) => error.message);
  const said = typeof done === "string" ? done : `${done.stdout}${done.stderr}`.trim();
  if (said) log(said);
}

/** Parse the output of `goalwright start --json` as an endpoint. Throws a Problem for anything else. */
export function readAnswer(done: Finished, python: string): Endpoint {
  const answer = lastObject(done.stdout);
  if (answer?.error) {
    const { code, message } = answer.error;
    const passing = code === "startTimeout" || code === "unresponsive";
    throw new Problem(code || "startFailed", message || t("The daemon could not be started."), actionsFor(code), passing);
  }
  if (done.code === 0 && answer && isEndpoint(answer)) {
    if (answer.protocolVersion === PROTOCOL_VERSION) return answer;
    const older = answer.protocolVersion < PROTOCOL_VERSION;
    throw new Problem(
      "incompatible",
      older
        ? t("The running daemon ({0}) is older than this extension: restart the daemon, or update Goalwright in your Python.", answer.version)
        : t("The running daemon ({0}) is newer than this extension: update the extension.", answer.version),
      older ? ["restartDaemon", "openSettings"] : ["showLog"],
    );
  }
  if (/No module named '?goalwright'?/.test(done.stderr)) {
    throw new Problem("notInstalled", t("Goalwright is not installed in {0}.", python), [
      "install",
      "choosePython",
      "openSettings",
    ]);
  }
  const reason = done.stderr.trim().split(/\r?\n/).at(-1) || t("exit code {0}", done.code ?? "?");
  throw new Problem("startFailed", t("The Goalwright daemon could not be started: {0}", reason), undefined, true);
}

interface Answer extends Partial<Endpoint> {
  error?: { code?: string; message?: string };
}

function lastObject(output: string): Answer | undefined {
  for (const line of output.trim().split(/\r?\n/).reverse()) {
    try {
      const value: unknown = JSON.parse(line);
      if (typeof value === "object" && value !== null) return value as Answer;
    } catch {
      // Not the answer, but a line that something else printed.
    }
  }
  return undefined;
}

function isEndpoint(answer: Answer): answer is Endpoint {
  return (
    (typeof answer.socket === "string" || typeof answer.port === "number") &&
    typeof answer.token === "string" &&
    typeof answer.protocolVersion === "number"
  );
}

function actionsFor(code: string | undefined): ActionId[] {
  const stuck = code === "incompatible" || code === "unauthorized" || code === "unresponsive";
  return stuck ? ["restartDaemon", "showLog"] : ["tryAgain", "showLog"];
}

/** Number of attempts before the user has to reconnect. */
export const MAX_ATTEMPTS = 8;

/** Return the milliseconds to wait before attempt `n` (the first is 0): doubling from 250 ms up to 15 s. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  if (attempt === 0) return 0;
  const base = Math.min(15_000, 250 * 2 ** (attempt - 1));
  // Jitter keeps two windows that lost the same daemon from reconnecting in step.
  return Math.round(base * (0.8 + 0.4 * random()));
}
