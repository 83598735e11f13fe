"""Commands, settings and names in VS Code that documents tell users to type exist."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from pathlib import Path

import pytest

from daemon.settings import SETTINGS, Settings
from lsp_bridge.cli.command_line import parse

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "vscode-extension/README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in DOCUMENTS}
COMMANDS = sorted(
    {
        line.partition("  #")[0].strip()
        for text in TEXTS.values()
        for line in [
            *re.findall(r"^    (goalwright .*)$", text, re.MULTILINE),
            *re.findall(r"`(goalwright [^`]+)`", text),
        ]
        if "COMMAND" not in line
    }
)
BLOCKS = [
    (name, json.loads(block))
    for name, text in TEXTS.items()
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)
]
MANIFEST = json.loads((ROOT / "vscode-extension/package.json").read_text("utf-8"))["contributes"]
ENGLISH: dict[str, str] = json.loads((ROOT / "vscode-extension/package.nls.json").read_text("utf-8"))


@pytest.mark.parametrize("line", COMMANDS)
def test_goalwright_commands_in_documents_exist(line: str) -> None:
    words = [word.strip("[]") for word in shlex.split(line)[1:]]
    words = list(itertools.takewhile(lambda word: word not in ("<", ">", "|"), words))
    if words[0] == "run" and '"' not in line:
        words.append("a task")
    parse(["a/b" if word == "…" else word for word in words])


@pytest.mark.parametrize(("name", "values"), BLOCKS)
def test_settings_in_documents_are_valid(name: str, values: dict[str, object]) -> None:
    # A plan; settings of another editor or agent; a tool.
    if not {"steps", "clients", "mcpServers", "command"} & values.keys():
        for key, value in values.items():
            Settings.parsed(key, value)


def test_vscode_names_in_docs_exist_in_the_extension_manifest() -> None:
    sections = MANIFEST["configuration"]
    known = {name for section in sections for name in section["properties"]}
    known |= {command["command"] for command in MANIFEST["commands"]}
    titles = {text for key, text in ENGLISH.items() if key.startswith("command.")}
    for name, text in TEXTS.items():
        if name == "docs/editors.md":
            continue  # commands for other editors
        for setting in re.findall(r"`(goalwright\.[\w.]+)`", text):
            assert setting in known or setting.endswith(".vsix"), f"{name}: {setting}"
        for title in re.findall(r"\*\*Goalwright: ([^*]+)\*\*", text):
            assert title in titles, f"{name}: {title}"


def test_agents_document_lists_every_shipped_agent() -> None:
    table = TEXTS["docs/agents.md"].partition("## Your own agents")[0]
    for agent in (ROOT / "daemon/agents").glob("*.md"):
        assert f"`{agent.stem}`" in table


def test_configuration_lists_each_setting_once_with_a_short_type() -> None:
    settings = TEXTS["docs/configuration.md"].partition("## A hook")[0]
    rows = re.findall(r"^\| `(\w+)`(?:<br>`[\w.]+`)? \| (.*?) \| ", settings, re.MULTILINE)
    names = [name for name, _ in rows]
    assert sorted(names) == sorted(SETTINGS)
    assert [kind for _, kind in rows if kind.count(" or ") > 1 or kind.count(" of ") > 2] == []
