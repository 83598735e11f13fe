// Builds the daemon's wheel into `bundled/`, with the constraints it is installed by.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, readdirSync } from "node:fs";
import * as path from "node:path";
import { fileURLToPath } from "node:url";

const extension = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const root = path.dirname(extension);
const target = path.join(extension, "bundled");

/** $PYTHON, the project's own environment, or what is on PATH: whichever has pip first. */
function findPython() {
  const own = process.platform === "win32" ? [".venv", "Scripts", "python.exe"] : [".venv", "bin", "python"];
  const candidates = [process.env.PYTHON, path.join(root, ...own), "python3", "python"];
  for (const candidate of candidates) {
    if (!candidate) continue;
    const probe = spawnSync(candidate, ["-m", "pip", "--version"], { stdio: "ignore" });
    if (probe.status === 0) return candidate;
  }
  console.error("bundle: no Python with pip was found. Set PYTHON to one of version 3.11 or newer.");
  process.exit(1);
}

rmSync(target, { recursive: true, force: true });
mkdirSync(target);
const built = spawnSync(
  findPython(),
  ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", target, root],
  { stdio: "inherit" },
);
if (built.status !== 0) process.exit(built.status ?? 1);
copyFileSync(path.join(root, "constraints.txt"), path.join(target, "constraints.txt"));
console.log(`bundled ${readdirSync(target).join(", ")}`);
