"""Completion in a real bash; zsh and fish ask the program in the same way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASK = """\
eval "$(goalwright completion bash)"
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9
[[ $COMP_LINE == *' ' ]] && COMP_CWORD=$((COMP_CWORD + 1))
_python_argcomplete goalwright "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("goalwright exp", {"explore"}),
        ("goalwright explore p", {"pick", "patch"}),
        ("goalwright run --mod", {"--model", "--mode"}),
        ("goalwright run --mode a", {"ask", "accept-edits", "auto"}),
        ("goalwright completion ", {"bash", "zsh", "fish", "-h", "--help"}),
    ],
)
def test_bash_completes_commands_options_and_values(tmp_path: Path, line: str, found: set[str]) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(
        ["bash", "-c", _ASK, "bash", line],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert {one.strip() for one in said.stdout.removesuffix("\n").split("\n")} == found, said.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(tmp_path: Path, shell: str) -> None:
    program = Path(sys.executable).with_name("goalwright")
    said = subprocess.run(
        [program, "completion", shell],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "_ARGCOMPLETE" in said.stdout
    assert "goalwright" in said.stdout
