"""An extension of somebody else that offers language models, as a ``.vsix``: it passes calls on to a model server.

The server speaks OpenAI's chat completions, so a test plays the answers with ``ModelServer``. Its address is in the
environment of VS Code. ``tests/one`` can be used at once; ``private/two`` needs the user's consent, as Copilot's models
do. A third model appears when a file does.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

NAME = "model-offerer"
ADDRESS = "MODEL_OFFERER_URL"
"""The variable with the server's address, ``…/v1``."""
MORE = "more-models"
"""A file beside the workspace; its appearance is a change of the models."""

_MANIFEST = {
    "name": NAME,
    "displayName": "Model Offerer",
    "publisher": "tests",
    "version": "1.0.0",
    "engines": {"vscode": "^1.106.0"},
    "extensionKind": ["workspace"],
    "main": "./main.js",
    # Only so may an extension ask for the consent that Copilot asks for.
    "enabledApiProposals": ["chatProvider"],
    "activationEvents": ["onStartupFinished"],
    "contributes": {
        "languageModelChatProviders": [
            {"vendor": "tests", "displayName": "Tests"},
            {"vendor": "private", "displayName": "Private"},
        ]
    },
}


def make_vsix(folder: Path) -> Path:
    """The extension as a file to install."""
    vsix = folder / f"{NAME}.vsix"
    with zipfile.ZipFile(vsix, "w") as archive:
        archive.writestr("extension/package.json", json.dumps(_MANIFEST))
        archive.write(Path(__file__).with_suffix(".js"), "extension/main.js")
    return vsix
