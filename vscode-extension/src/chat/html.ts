import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

/** The page of the chat: one script, one style sheet, both of ours; nothing from anywhere else. */
export function page(webview: vscode.Webview, extension: vscode.Uri): string {
  const nonce = randomBytes(18).toString("base64url");
  const asset = (name: string): string => webview.asWebviewUri(vscode.Uri.joinPath(extension, "dist", name)).toString();
  const policy = [
    "default-src 'none'",
    `style-src ${webview.cspSource}`,
    `font-src ${webview.cspSource}`,
    `script-src 'nonce-${nonce}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${asset("chat.css")}">
<title>Goalwright</title>
</head>
<body>
<div id="app"></div>
<script nonce="${nonce}" src="${asset("chat.js")}"></script>
</body>
</html>`;
}
