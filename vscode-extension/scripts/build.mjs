// Bundles the extension host's script and the webview's. `--watch` rebuilds on change, `--production` minifies.
import { context } from "esbuild";

const production = process.argv.includes("--production");
const watch = process.argv.includes("--watch");

const shared = {
  bundle: true,
  minify: production,
  sourcemap: production ? false : "linked",
  logLevel: "warning",
  outdir: "dist",
  legalComments: "none",
};

const builds = [
  {
    ...shared,
    entryPoints: { extension: "src/extension.ts" },
    platform: "node",
    format: "cjs",
    target: "node20",
    external: ["vscode"],
    // The ES modules of vscode-languageclient's dependencies bundle without `require` of files unknown to esbuild.
    mainFields: ["module", "main"],
  },
  {
    ...shared,
    entryPoints: { chat: "src/chat/webview/main.tsx" },
    platform: "browser",
    format: "iife",
    target: "chrome130",
    jsx: "automatic",
    jsxImportSource: "preact",
  },
];

const contexts = await Promise.all(builds.map((build) => context(build)));
if (watch) await Promise.all(contexts.map((one) => one.watch()));
else {
  await Promise.all(contexts.map((one) => one.rebuild()));
  await Promise.all(contexts.map((one) => one.dispose()));
}
