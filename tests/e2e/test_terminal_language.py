"""Everything that the terminal shows is in one language: real processes, a daemon, a scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.drivers.command_line import CommandLine

# What is no English: programs, tools, agents, models, formats, permissions and values of the configuration, keys.
NAMES = """
goalwright Goalwright git ripgrep VS Code Ollama JSON JSONL LSP REST MB kB URL SESSION TRACE NUMBER Python Node js
AGENTS md py txt tar gz API HTTP token shell PATH DNS bwrap landlock cat rm
bash read edit write patch grep glob ls goal step task explore question job rename definition references
diagnostics symbols
build plan general scout init execute compaction hand over agents sessions goals history trace permissions forget trust
ask allow deny once session workspace user auto accept edits none latest network on
scripted test cart diff undo redo focus show context list pick leave stdin stdout stderr
print tool skill assistant limit nowhere
thought action result evaluation response error ok
pyright basedpyright ruff typescript rust gopls clangd css html json yaml eslint deno ty ShellCheck bashls Rust Go
"""
CHANGE: list[dict[str, Any]] = [
    {
        "text": "我先看看。",
        "tool_calls": [
            {"name": "goal", "input": {"add": "修改限制, 检查结果", "reason": "任务"}},
            {"name": "goal", "input": {"focus": "1"}},
            {"name": "read", "input": {"file_path": "${workspace}/a.py"}},
        ],
    },
    {
        "text": "我来改。",
        "tool_calls": [
            {
                "name": "edit",
                "input": {
                    "file_path": "${workspace}/a.py",
                    "old_string": "limit = 1",
                    "new_string": "limit = 2",
                },
            }
        ],
    },
    {"text": "改好了。"},
]


@pytest.fixture
def goalwright(goalwright: CommandLine) -> CommandLine:
    (goalwright.workspace / "a.py").write_text("limit = 1\n")
    return goalwright


def everything(goalwright: CommandLine) -> Iterator[tuple[str, str]]:
    """Each command with what it shows: what goes well, and what does not."""
    model = goalwright.script(CHANGE)
    archive = str(goalwright.folder / "a.tar.gz")
    lines = [
        ["status"],
        ["sessions"],
        ["goals"],
        ["run", "改一下", "--model", model],  # nobody can be asked
        ["run", "改一下", "--yes", "--model", model],
        ["status"],
        ["sessions"],
        ["history"],
        ["undo", "--dry-run"],
        ["undo"],
        ["redo"],
        ["redo"],
        ["goals"],
        ["goal", "add", "写测试", "--reason", "需要"],
        ["goal", "rename", "3", "写更多测试"],
        ["goal", "move", "3", "--before", "2"],
        ["goal", "focus", "2"],
        ["goal", "done", "2", "--summary", "写好了"],
        ["goal", "done", "2", "--summary", "写好了"],
        ["goal", "abandon", "1", "--reason", "不需要", "--revert-files", "--dry-run"],
        ["goal", "abandon", "1", "--reason", "不需要"],
        ["goal", "focus", "9"],
        ["context", "--brief"],
        ["budget"],
        ["budget", "--usd", "1", "--goal-tokens", "5k"],
        ["compact"],
        ["permissions"],
        ["permissions", "explain", "bash", "rm -rf x && cat .env"],
        ["permissions", "explain", "edit", ".git/config"],
        ["permissions", "forget", "7"],
        ["mode"],
        ["mode", "plan"],
        ["mode", "auto"],
        ["mode", "ask"],
        ["plan", "build"],
        ["trust"],
        ["trust", "--remove"],
        ["jobs"],
        ["jobs", "--kill", "j9"],
        ["explore"],
        ["explore", "show", "A"],
        ["explore", "leave"],
        ["agents"],
        ["trace", "list"],
        ["trace", "show"],
        ["trace", "tail", "--no-follow", "--since", "0"],
        ["trace", "rebuild"],
        ["trace", "export", "--output", archive],
        ["trace", "export", "--output", archive],
        ["trace", "import", archive],
        ["trace", "prune", "--dry-run", "--keep", "1"],
        ["trace", "prune"],
        ["trace", "show", "nowhere"],
        ["run", "再来", "--session", "nowhere"],
        ["run", "再来", "--continue", "--file", "missing.txt", "--model", model],
        ["doctor"],
        ["stop"],
        ["stop"],
    ]
    for line in lines:
        result = goalwright.run(*line)
        shown = result.stdout + result.stderr
        if line[0] == "context":
            # Below its headings it shows what the model reads.
            table, _, rest = shown.partition("──")
            shown = table + "\n".join(text for text in rest.splitlines() if text.startswith("──"))
        yield " ".join(line), shown


def words(text: str) -> set[str]:
    """The English words of an output, without what is code, a path, an option, an id or a name."""
    text = re.sub(r"`[^`]*`|\"[^\"]*\"|--?[a-z][\w-]*|\x1b\[[\d;]*m", " ", text)
    # Paths, rules, ids, numbers with units and keys hold characters that words have not.
    text = re.sub(r"[A-Za-z0-9~]*[\d/._=*$<>{}~][\w/._=*$<>{}:~-]*", " ", text)
    return set(re.findall(r"[A-Za-z]{2,}", text)) - set(NAMES.split())


def test_chinese_output_contains_no_english_words(goalwright: CommandLine) -> None:
    goalwright.configure(language="zh-CN")
    wrong = {line: (sorted(words(shown)), shown) for line, shown in everything(goalwright) if words(shown)}
    assert not wrong, str(wrong)


def test_in_english_no_output_has_a_chinese_letter(goalwright: CommandLine) -> None:
    said = "".join(re.findall("[\u3000-\u9fff\uff00-\uffef]", json.dumps(CHANGE, ensure_ascii=False)))
    said += "改一下写更多测试需要好了不再来"
    for line, shown in everything(goalwright):
        letters = re.findall("[\u3000-\u9fff\uff00-\uffef]", shown)
        assert set(letters) <= set(said), f"{line}\n{shown}"


def test_unknown_language_warns_and_falls_back_to_english(goalwright: CommandLine) -> None:
    goalwright.configure(language="fr")
    result = goalwright.run("sessions")
    assert result.returncode == 0
    assert "'fr' is not a language of Goalwright. Choose one of: en, zh-CN." in result.stderr
    assert result.stdout.startswith("No sessions in ")
