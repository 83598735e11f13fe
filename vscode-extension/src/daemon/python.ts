import { Problem } from "./problems";
import { run } from "./process";

export interface Python {
  /** Program and arguments that start it, e.g. `["py", "-3"]`. */
  command: readonly string[];
  executable: string;
}

const MINIMUM = [3, 11] as const;
const PROBE = `
import json, sys
missing = []
for name in ("venv", "ensurepip"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print(json.dumps({"executable": sys.executable, "version": list(sys.version_info[:3]), "missing": missing}))
`;
import { t } from "../l10n";

interface Probe {
  executable: string;
  version: [number, number, number];
  missing: string[];
}

/** Run a command and return its Python's properties, or the reason why it cannot be used. */
async function probe(command: readonly string[]): Promise<Probe | string> {
  try {
    const [program = "", ...args] = command;
    const done = await run(program, [...args, "-I", "-c", PROBE], { signal: AbortSignal.timeout(20_000) });
    if (done.code !== 0) return t("{0} ended with code {1}", command.join(" "), done.code ?? "?");
    return JSON.parse(done.stdout) as Probe;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT"
      ? absent(command)
      : `${command.join(" ")}: ${(error as Error).message}`;
  }
}

function absent(command: readonly string[]): string {
  return t("{0} was not found", command.join(" "));
}

/** Return the reason why a Python is unsuitable, or undefined if it is suitable. */
export function objection(found: Probe, platform: NodeJS.Platform = process.platform): string | undefined {
  const [major, minor] = found.version;
  const version = found.version.join(".");
  if (major !== MINIMUM[0] || minor < MINIMUM[1]) return t("{0} is Python {1}", found.executable, version);
  if (found.missing.length > 0) {
    const modules = found.missing.join(t(" and "));
    return platform === "linux"
      ? t("{0} ({1}) has no module {2} (on Debian and Ubuntu: sudo apt install {3})", found.executable, version, modules, `python${major}.${minor}-venv`)
      : t("{0} ({1}) has no module {2}", found.executable, version, modules);
  }
  return undefined;
}

export function candidates(configured: string, platform: NodeJS.Platform = process.platform): string[][] {
  if (configured) return [[configured]];
  if (platform === "win32") return [["py", "-3"], ["python"], ["python3"]];
  return ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"].map((name) => [name]);
}

/** Return the first Python that can create an environment. Throws a Problem that lists the attempts. */
export async function findBasePython(configured: string, log: (line: string) => void): Promise<Python> {
  const reasons: string[] = [];
  const telling: string[] = [];
  for (const command of candidates(configured)) {
    const found = await probe(command);
    const reason = typeof found === "string" ? found : objection(found);
    if (reason === undefined && typeof found !== "string") {
      log(`Python ${found.version.join(".")} at ${found.executable}`);
      return { command, executable: found.executable };
    }
    reasons.push(String(reason));
    if (reason !== absent(command)) telling.push(String(reason));
  }
  for (const reason of reasons) log(reason);
  const tried = configured
    ? t("goalwright.basePython is not usable: {0}.", reasons[0] ?? "")
    : telling.length > 0
      ? t("Found: {0}.", telling.slice(0, 2).join("; "))
      : t("None was found on PATH.");
  throw new Problem("noPython", t("Goalwright needs Python 3.11 or newer. {0}", tried), [
    "choosePython",
    "downloadPython",
    "tryAgain",
  ]);
}
