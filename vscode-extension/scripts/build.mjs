// Bundles the extension host's script and those of the webviews; the graph's modules are those of the web page (daemon/api/page). `--watch` rebuilds on change, `--production` minifies.
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { context } from "esbuild";

const production = process.argv.includes("--production");
const watch = process.argv.includes("--watch");

const shared = {
  bundle: true,
  minify: production,
  sourcemap: production ? false : "linked",
  logLevel: "warning",
  outdir: "dist",
  // The licences of what is bundled are written in full, see below.
  legalComments: "none",
  metafile: true,
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
    entryPoints: { chat: "src/chat/webview/main.tsx", mathml: "src/chat/webview/mathml.ts", graph: "src/dag/webview/main.ts" },
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
  const results = await Promise.all(contexts.map((one) => one.rebuild()));
  await Promise.all(contexts.map((one) => one.dispose()));
  copyFileSync("../daemon/api/page/zh-cn.json", "dist/page.zh-cn.json");
  writeFileSync("dist/THIRD_PARTY_LICENSES.txt", licences(results.flatMap(({ metafile }) => Object.keys(metafile.inputs))));
}

/** The licence texts of all packages that the given source files are from. */
function licences(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
    // The page's copy of the layout library, see vendor.mjs.
    if (input.endsWith("page/dagre.js")) packages.add("node_modules/@dagrejs/dagre");
  }
  const texts = [...packages].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    const text = file ? readFileSync(path.join(folder, file), "utf8").trim() : "";
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
