from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.scenarios.command_rules import build, verdicts
from tools.shell.wildcards import expression, simple

NAMES = ["env", "lock", "e", "E", "n-v", "[e]", "a]b", "x.py", "1", "-", "!x", "^x"]

LEAKS = [
    "cat .[^x]nv",
    "cat .[[:alpha:]]nv",
    "cat .[[=e=]]nv",
    "cat .[[.e.]]nv",
    "cat '.'[^x]nv",
    'cat "."[[:alpha:]]"nv"',
    "cat .[\\e]nv",
    'cat .["e"]nv',
    "cat .[\\!x]nv",
    "cat .[]e]nv",
    "cat .[d-f]nv",
    "cat .[!]x]nv",
    "cat ./.[^x]nv",
    "cat $PWD/.[^x]nv",
    "cat [^x]ecrets/key.txt",
    "cat s[[:lower:]]crets/[[:lower:]]ey.txt",
    "cat {secret[^x],src}/key.txt",
    "cat < secret[^x]/key.txt",
    "cat < .[[:alpha:]]nv",
    "grep -r TOP secret[^x]",
    "shopt -s extglob\ncat @(.env)",
    "bash -O extglob -c 'cat !(x)'",
]
HARMS = [
    "echo x > poetry.[^x]ock",
    "echo x > poetry.[[:alpha:]]ock",
    "tee poetry.loc[^x] < src/a.py",
    "rm poetry.loc[^x]",
    "cp src/a.py poetry.[^x]*",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return build(tmp_path)


@pytest.mark.parametrize("line", [*LEAKS, *HARMS])
def test_brackets_as_bash_means_them_lead_past_no_rule(line: str, workspace: Path) -> None:
    assert "allow" not in verdicts(line, workspace).values()


@pytest.mark.parametrize(
    "line", ["cat src/[a-z].py", "cat src/[!.]*", "ls *.[ch]", "cat 'a[1].txt'", "wc -l [a-m]*"]
)
def test_everyday_brackets_are_not_asked_about(line: str, workspace: Path) -> None:
    assert verdicts(line, workspace)["looking"] == "allow"


_PIECES = st.sampled_from(
    ["[", "]", "!", "^", "-", "e", "n", "v", ".", "*", "?", "[:alpha:]", "[=e=]", "[.e.]", "a-f"]
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=6).map("".join))
def test_what_bash_finds_is_found(tmp_path_factory: pytest.TempPathFactory, pattern: str) -> None:
    if pattern.startswith("-"):
        return
    folder = tmp_path_factory.getbasetemp() / "names"
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        (folder / name).touch()
    found = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {pattern}"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        check=False,
    ).stdout.splitlines()
    for name in set(found) & set(NAMES):
        if name == pattern:
            continue
        assert expression(pattern).fullmatch(name), (pattern, name)
        assert expression(simple(pattern)).fullmatch(name), (pattern, name)
        assert expression(simple(pattern, quoted=True)).fullmatch(name), (pattern, name)
