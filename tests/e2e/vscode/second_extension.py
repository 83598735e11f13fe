"""A tiny extension of somebody else, as a ``.vsix``: it reports each ``BAD`` of ``.bad`` files, a while after a change.

It writes one line for each look at a file into ``looks.log`` beside the workspace, so that a test can count them.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

NAME = "bad-looker"
COMPLAINT = "No BAD things here"

_MANIFEST = {
    "name": NAME,
    "publisher": "tests",
    "version": "1.0.0",
    "engines": {"vscode": "^1.106.0"},
    "extensionKind": ["workspace"],
    "main": "./main.js",
    "activationEvents": ["onLanguage:bad"],
    "contributes": {"languages": [{"id": "bad", "extensions": [".bad"]}]},
}

_MAIN = """
const vscode = require("vscode");
const fs = require("node:fs");
const path = require("node:path");

exports.activate = (context) => {
  const problems = vscode.languages.createDiagnosticCollection("bad-looker");
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const log = path.join(path.dirname(folder), "looks.log");
  const timers = new Map();
  const look = (document) => {
    if (document.languageId !== "bad") return;
    clearTimeout(timers.get(document.uri.toString()));
    timers.set(document.uri.toString(), setTimeout(() => {
      const found = [...document.getText().matchAll(/\\bBAD\\b/g)].map((match) => {
        const range = new vscode.Range(document.positionAt(match.index), document.positionAt(match.index + 3));
        const problem = new vscode.Diagnostic(range, "COMPLAINT", vscode.DiagnosticSeverity.Error);
        problem.source = "bad-looker";
        problem.code = "B1";
        return problem;
      });
      problems.set(document.uri, found);
      fs.appendFileSync(log, `${path.basename(document.uri.fsPath)} ${found.length}\\n`);
    }, 150));
  };
  context.subscriptions.push(
    problems,
    vscode.workspace.onDidOpenTextDocument(look),
    vscode.workspace.onDidChangeTextDocument((event) => look(event.document)),
  );
  vscode.workspace.textDocuments.forEach(look);
};
"""


def make_vsix(folder: Path) -> Path:
    """The extension as a file to install."""
    vsix = folder / f"{NAME}.vsix"
    with zipfile.ZipFile(vsix, "w") as archive:
        archive.writestr("extension/package.json", json.dumps(_MANIFEST))
        archive.writestr("extension/main.js", _MAIN.replace("COMPLAINT", COMPLAINT))
    return vsix
