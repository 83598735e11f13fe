import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import * as vscode from "vscode";
import { catalogue, language } from "../language";

/**
 * The page of the chat or the graph: one script, one style sheet, both of ours; nothing from anywhere else. They stand in
 * the page itself: on its way through a webview each file takes a tenth of a second until the first paint. `written`: what
 * the user had not sent.
 */
export function page(webview: vscode.Webview, extension: vscode.Uri, name: "chat" | "graph" = "chat", written?: unknown): string {
  const nonce = randomBytes(18).toString("base64url");
  const file = (name: string): vscode.Uri => vscode.Uri.joinPath(extension, "dist", name);
  const policy = [
    "default-src 'none'",
    `style-src ${webview.cspSource} 'nonce-${nonce}'`,
    `font-src ${webview.cspSource}`,
    `script-src 'nonce-${nonce}'`,
    // Images in messages of the graph come with them.
    ...(name === "graph" ? ["img-src data:"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="${language()}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style nonce="${nonce}">${readFileSync(file(`${name}.css`).fsPath, "utf8")}</style>
<title>Goalwright</title>
</head>
<body>
<div id="app"></div>
${translations(catalogue)}
${written === undefined ? "" : data("written", written)}
<script nonce="${nonce}" data-math="${webview.asWebviewUri(file("mathml.js")).toString()}">${inScript(readFileSync(file(`${name}.js`).fsPath, "utf8"))}</script>
</body>
</html>`;
}

/** A script as it may stand within a page: behind `<!--` the end of the element would not count. (Its own `</script>` the bundler writes in another way.) */
export function inScript(source: string): string {
  return source.replaceAll("<!--", "\\x3C!--");
}

/** The catalogue as a block of data, which is no script to the policy; the page reads it before anything else. Nothing in English. */
export function translations(texts: Readonly<Record<string, string>>): string {
  if (Object.keys(texts).length === 0) return "";
  return data("translations", texts);
}

function data(id: string, value: unknown): string {
  return `<script type="application/json" id="${id}">${JSON.stringify(value).replaceAll("<", "\\u003c")}</script>`;
}
