// Copies the layout library from node_modules to the web page, which has no build step. Run it here after updating the package.
import { readFileSync, writeFileSync } from "node:fs";

const PACKAGE = "node_modules/@dagrejs/dagre";

/** The module as the page serves it: the licence, then the code without the address of its source map. */
export function vendored() {
  const { version } = JSON.parse(readFileSync(`${PACKAGE}/package.json`, "utf8"));
  const licence = readFileSync(`${PACKAGE}/LICENSE`, "utf8").trim();
  const code = readFileSync(`${PACKAGE}/dist/dagre.esm.js`, "utf8").replace(/^(?:\/\/# sourceMappingURL|\/\*! For license).*\n?/gm, "");
  return `// @ts-nocheck\n/*\n@dagrejs/dagre ${version}, copied by vscode-extension/scripts/vendor.mjs\n\n${licence}\n*/\n${code.trim()}\n`;
}

if (process.argv[1]?.endsWith("vendor.mjs")) writeFileSync("../daemon/api/page/dagre.js", vendored());
