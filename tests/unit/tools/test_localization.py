"""The language of texts, and the catalogues against the code that uses them."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from pydantic import TypeAdapter

from lsp_bridge.cli.command_description import Group
from lsp_bridge.cli.command_table import COMMANDS
from tools import localization
from tools.localization import (
    LANGUAGES,
    Language,
    catalogue,
    english,
    joined,
    language,
    n,
    noted,
    set_language,
    t,
    written_for_models,
)
from tools.shell import harm, options

ROOT = Path(__file__).parents[3]
SOURCES = [
    file
    for package in ("daemon", "lsp_bridge", "tools")
    for file in sorted((ROOT / package).rglob("*.py"))
    if "demo/workspace" not in file.as_posix()
]
OTHERS = [name for name in LANGUAGES if name != "en"]


def test_english_is_the_default_and_reads_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localization, "catalogue", None)  # would fail when called
    assert language() == "en"
    assert t("Not there at all.") == "Not there at all."
    assert t("{count:,} of {name!r}", count=1200, name="a") == "1,200 of 'a'"
    assert noted("x {y}") == "x {y}"


def test_braces_are_text_without_values() -> None:
    assert t('{"url", "token"}') == '{"url", "token"}'


@pytest.mark.parametrize(("count", "told"), [(0, "0 hats"), (1, "1 hat"), (2, "2 hats")])
def test_singular_and_plural_are_translated(count: int, told: str) -> None:
    assert n("{count} hat", "{count} hats", count) == told


@pytest.mark.usefixtures("chinese")
def test_texts_come_from_the_catalogue_or_stay_english() -> None:
    assert language() == "zh-CN"
    assert n("Explore {count} approach", "Explore {count} approaches", 2) == "探索 2 个方案"
    assert t("## Exploration results") == "## 探索结果"
    assert t("No entry for {this}.", this=1) == "No entry for 1."


@pytest.mark.usefixtures("chinese")
def test_nested_translation_keeps_its_english_text() -> None:
    inner = t("focus a goal first")
    said = joined(t("No plan was made: {why}", why=ValueError(inner)), "x", sep=" | ")
    assert said == "未制定计划: 请先关注一个目标 | x"
    assert english(said) == english(KeyError(said)) == "No plan was made: focus a goal first | x"
    assert english("plain") == "plain"
    stored = TypeAdapter(dict[str, str]).validate_json(json.dumps({"said": said}))
    assert stored == {"said": str(said)}
    assert written_for_models("wrong JSON", "其他") == "其他"


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("copied", [deepcopy, lambda text: pickle.loads(pickle.dumps(text))])
def test_copy_of_a_translated_text_keeps_both(copied: Callable[[str], str]) -> None:
    told = copied(t("The file does not exist."))
    assert told == catalogue("zh-CN")["The file does not exist."]
    assert english(told) == "The file does not exist."


@pytest.mark.parametrize("name", ["fr", "zh", "EN", ""])
def test_an_unknown_language_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a language of Goalwright\. Choose one of: en, zh-CN\."):
        set_language(name)
    assert language() == "en"


# -- the catalogues against the code


@cache
def calls() -> list[tuple[str, ast.Call, list[str]]]:
    """Each call of ``t``, ``n`` and ``noted`` with its place and the texts that it names literally."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, ast.Call, list[str]]]:
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in ("t", "n", "noted") or not node.args:
                continue
            texts = node.args[: 2 if node.func.id == "n" else 1]
            said = [
                value.value
                for argument in texts
                for value in _literals(argument)
                if isinstance(value.value, str)
            ]
            yield f"{file.relative_to(ROOT)}:{node.lineno}", node, said


def _literals(node: ast.expr) -> list[ast.Constant]:
    if isinstance(node, ast.IfExp):
        return [*_literals(node.body), *_literals(node.orelse)]
    return [node] if isinstance(node, ast.Constant) else []


def texts_in_data() -> dict[str, str]:
    """Texts that stand in rows of data and in the front matter of agents."""
    found = {words: "tools/shell/harm.txt" for rows in harm._rows().values() for *_, words in rows}
    found |= {row.opaque: "tools/shell/programs.txt" for row in options.rows().values() if row.opaque}
    for file in sorted((ROOT / "daemon" / "agents").glob("*.md")):
        for line in file.read_text(encoding="utf-8").splitlines()[:10]:
            if line.startswith("description: "):
                found[line.removeprefix("description: ").strip("\"'")] = file.name
    return found | {text: "lsp_bridge/cli/command_table.py" for text in _texts_of_commands() if text}


def _texts_of_commands() -> Iterator[str | None]:
    for command in COMMANDS:
        yield from (command.help, command.epilog)
        for one in command.arguments:
            yield from (one.help, one.title) if isinstance(one, Group) else (one.help,)
            yield from (each.help for each in one.arguments) if isinstance(one, Group) else ()


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def formatted(node: ast.Call) -> bool:
    assert isinstance(node.func, ast.Name)
    return bool(node.keywords) or node.func.id == "n"


@pytest.mark.parametrize("name", OTHERS)
def test_every_text_is_translated_and_every_translation_used(name: Language) -> None:
    known = catalogue(name)
    used = {text: place for place, _, texts in calls() for text in texts} | texts_in_data()
    assert {text: place for text, place in used.items() if text not in known} == {}
    assert sorted(set(known) - set(used)) == []


@pytest.mark.parametrize("name", OTHERS)
def test_translations_have_the_placeholders_of_their_texts(name: Language) -> None:
    known = catalogue(name)
    filled = {text for _, node, texts in calls() for text in texts if formatted(node)}
    wrong = {
        text: known[text] for text in filled if placeholders(text) != placeholders(known.get(text, text))
    }
    assert wrong == {}


def test_every_placeholder_is_given_a_value() -> None:
    wrong: list[str] = []
    for place, node, texts in calls():
        if any(keyword.arg is None for keyword in node.keywords) or not formatted(node):
            continue
        assert isinstance(node.func, ast.Name)
        given = {str(keyword.arg) for keyword in node.keywords} | (
            {"count"} if node.func.id == "n" else set[str]()
        )
        wrong += [f"{place}: {text}" for text in texts if placeholders(text) - given]
    assert wrong == []


@pytest.mark.parametrize("name", OTHERS)
def test_catalogue_is_sorted_and_complete(name: str) -> None:
    file = ROOT / "tools" / "translations" / f"{name}.json"
    raw = file.read_text(encoding="utf-8")
    known = json.loads(raw)
    assert raw == json.dumps(dict(sorted(known.items())), ensure_ascii=False, indent=1) + "\n"
    assert [text for text, told in known.items() if not told.strip()] == []
    # Lines that begin indented or with an empty line stay so, and lines end where they end.
    begins, ends = re.compile(r"\A(?:\n\s*|\s{2,}|)"), re.compile(r"\n*\Z")
    for text, told in known.items():
        for edge in (begins, ends):
            there, here = edge.search(text), edge.search(told)
            assert there is not None
            assert here is not None
            assert there[0] == here[0], text


def test_code_contains_no_chinese_text() -> None:
    # What reads numbered lists of models knows the Chinese words for steps.
    reads_chinese = {"daemon/plan/goal_lookup.py", "daemon/planner/plan_parser.py"}
    chinese = re.compile(r"[\u4e00-\u9fff]")
    may_have_some = re.compile(rf"{chinese.pattern}|\\[uUN]")  # written as such, or escaped
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in SOURCES
        if file.relative_to(ROOT).as_posix() not in reads_chinese
        and may_have_some.search(source := file.read_text(encoding="utf-8"))
        for node in _strings(ast.parse(source))
        if chinese.search(str(node.value))
    ]
    assert found == []


def _strings(tree: ast.Module) -> Iterator[ast.Constant]:
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node
