import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import * as vscode from "vscode";
import { catalogue, language } from "../language";

/**
 * Return the HTML of the chat or the graph. Its script and style sheet are inline, because each file that a webview
 * fetches delays the first paint by about 100 ms. Nothing is loaded from other servers. `written`: the user's unsent
 * drafts.
 */
export function page(webview: vscode.Webview, extension: vscode.Uri, name: "chat" | "graph" = "chat", written?: unknown): string {
  const nonce = randomBytes(18).toString("base64url");
  const file = (name: string): vscode.Uri => vscode.Uri.joinPath(extension, "dist", name);
  const policy = [
    "default-src 'none'",
    `style-src ${webview.cspSource} 'nonce-${nonce}'`,
    `font-src ${webview.cspSource}`,
    `script-src 'nonce-${nonce}'`,
    // Messages in the graph can contain images as `data:` URLs.
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

/**
 * Escape a script for use inside a page: after `<!--`, the HTML parser may miss the end of the element. The bundler
 * escapes `</script>` itself.
 */
export function inScript(source: string): string {
  return source.replaceAll("<!--", "\\x3C!--");
}

/**
 * Return the translations as a data block, which the content security policy does not treat as a script. The page reads
 * it before anything else. Empty in English.
 */
export function translations(texts: Readonly<Record<string, string>>): string {
  if (Object.keys(texts).length === 0) return "";
  return data("translations", texts);
}

function data(id: string, value: unknown): string {
  return `<script type="application/json" id="${id}">${JSON.stringify(value).replaceAll("<", "\\u003c")}</script>`;
}
