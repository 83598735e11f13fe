from __future__ import annotations

import pytest

from tools.command_line import suggestions, targets


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("git log", ("git log",)),
        ("git  log   -3", ("git log -3",)),
        ("cd src && make test; echo done", ("cd src", "make test", "echo done")),
        ("a | b || c & d\ne", ("a", "b", "c", "d", "e")),
        ("echo 'a; b' \"c && d\" e\\;f", ("echo 'a; b' \"c && d\" e\\;f",)),
        ("make 2>&1 | tail -5", ("make", "tail -5")),
        ("make >/dev/null 2>&1; ls", ("make", "ls")),
        ("ls # comment; rm x\npwd", ("ls", "pwd")),
        ("ls \\\n  -l", ("ls -l",)),
        ("echo $HOME ${PATH}", ("echo $HOME ${PATH}",)),
        ("echo 'it costs $(5)'", ("echo 'it costs $(5)'",)),
        ("ls; ls", ("ls",)),
    ],
)
def test_simple_commands_are_told_apart(line: str, parts: tuple[str, ...]) -> None:
    assert targets(line) == parts


@pytest.mark.parametrize(
    "line",
    [
        "git log $(rm -rf x)", "git log `rm x`", 'echo "$(rm x)"', "git log > ~/.bashrc", "cat < .env", "cat <<E\nx\nE",
        "(rm x)", "{ rm x; }", "if a; then rm x; fi", "for x in a; do rm $x; done", "FOO=1 git log", "$CMD x", "'rm' x",
        "r\\m x", "eval rm x", "echo 'open", "diff <(a) b", "echo ${x:-$(rm y)}", "git log &> file", "! rm x",
        "git log 2>x", "a=rm; $a x", "/bin/r? x", "echo $'a\\'; rm x'", "make > /dev/nullx",
    ],
)  # fmt: skip
def test_what_is_unclear_is_one_target_that_no_other_rule_matches(line: str) -> None:
    assert targets(line) == (f"sh -c {line}",)
    assert suggestions(targets(line)) == ()


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        ("git log -3", ("git log *",)),
        ("npm run build", ("npm run build *",)),
        ("pytest -q tests", ("pytest *",)),
        ("cd x && git status", ("cd *", "git status *")),
        ("git -C x push", ("git -C x push",)),
        ("rm -rf build", ("rm -rf build",)),
        ("rm *", ()),
        ("python x.py", ("python x.py",)),
        ("./run.sh a", ("./run.sh *",)),
        ("/usr/bin/env x", ()),
        ("ls && rm *", ()),
    ],
)
def test_always_offers_what_generalises_safely(line: str, patterns: tuple[str, ...]) -> None:
    assert suggestions(targets(line)) == patterns
