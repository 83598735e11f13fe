"""The help and the errors of the command line are in one language."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from lsp_bridge.cli import command_line as cli

# Names of programs, formats, protocols and files, and values that are typed as they are.
NAMES = """
goalwright mcp git apply JSON LSP REST WebSocket PDF Markdown MB txt stdin stdout stderr none latest
agents sessions history goals trace export list init execute bash read edit planner tar gz
ollama qwen py test cart add schema token url Goalwright id shell provider model run src docs
store_url sqlite postgresql mistral
trace_keep_days trace_max_mb AGENTS md revert files budget Agent Client Protocol stdio eval github get_issue
"""
PROGRAM_WORDS = frozenset(NAMES.split())
WORD = re.compile(r"[A-Za-z_][A-Za-z_]+")
NAMED = re.compile(r"--?[a-z][a-z-]*|\{[^}]*\}|\b[A-Z_]{2,}\b|`[^`]*`|\b127\.0\.0\.1\b|\"[^\"]*\"")


def parsers() -> Iterator[argparse.ArgumentParser]:
    """The parser of each command and action."""
    found: list[argparse.ArgumentParser] = []

    class _FoundError(Exception):
        pass

    def keep(self: argparse.ArgumentParser, *_: object) -> None:
        found.append(self)
        raise _FoundError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", keep)
        with pytest.raises(_FoundError):
            cli.parse([])
    while found:
        parser = found.pop()
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += set(action.choices.values())


@pytest.fixture(autouse=True)
def argparse_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_", "ngettext"):
        monkeypatch.setattr(argparse, name, getattr(argparse, name))


@pytest.mark.usefixtures("chinese")
def test_chinese_help_contains_no_english_words() -> None:
    seen = 0
    for parser in parsers():
        usage, _, rest = parser.format_help().partition("\n\n")
        assert usage.startswith("用法: ")
        # Below, a command or an argument is named at the beginning of its line.
        told = "\n".join(re.sub(r"^  +[\w-]+(?=  |$)", "", line) for line in rest.splitlines())
        words = set(WORD.findall(NAMED.sub(" ", told))) - PROGRAM_WORDS - {"command", "action"}
        assert words == set(), parser.prog
        seen += 1
    assert seen > 50


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "goal done",
        "mode never",
        "run x --max-steps many",
        "run x --session",
        "undo --message 3",
    ],
)
def test_chinese_command_line_errors_contain_no_english(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(line.split())
    assert ended.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    _, marked, told = error.partition(" 错误: ")
    assert marked
    words = set(WORD.findall(re.sub(r"'[^']*'|--[a-z-]+|[A-Z]{2,}", " ", told)))
    assert words - {"command", "goalwright", "mode", "message"} == set(), error


def test_english_help_contains_no_chinese_characters() -> None:
    for parser in parsers():
        text = parser.format_help()
        assert text.startswith("usage: ")
        assert not re.search("[\u3000-\u9fff\uff00-\uffef]", text), parser.prog
