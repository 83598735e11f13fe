// Bundles test/**/*.test.ts(x) and runs them with Node's own test runner. Names given as arguments choose files.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const extension = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
process.chdir(extension);
const wanted = process.argv.slice(2);
const tests = readdirSync("test", { recursive: true })
  .map(String)
  .filter((name) => /\.test\.tsx?$/.test(name) && (wanted.length === 0 || wanted.some((part) => name.includes(part))))
  .map((name) => path.join("test", name));

rmSync("out/test", { recursive: true, force: true });
await build({
  entryPoints: tests,
  outdir: "out/test",
  outbase: "test",
  outExtension: { ".js": ".cjs" },
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  sourcemap: "inline",
  logLevel: "warning",
  // The scan of the sources for texts uses it.
  external: ["esbuild"],
  alias: { vscode: path.join(extension, "test", "fakes", "vscode.ts") },
  jsx: "automatic",
  jsxImportSource: "preact",
});
const built = tests.map((name) => path.join("out", name.replace(/\.tsx?$/, ".cjs")));
const done = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], { stdio: "inherit" });
process.exit(done.status ?? 1);
