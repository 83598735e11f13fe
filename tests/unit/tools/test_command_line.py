from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

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
        ("git log -1 # \\\ntouch x", ("git log -1", "touch x")),
        ("git log -1 \\\\\ntouch x", ("git log -1 \\\\", "touch x")),
        ("git log -1 a\\\n#;touch x", ("git log -1 a#", "touch x")),
        ("git log \\ #;touch x", ("git log \\ #", "touch x")),
        ("git lo\\\ng", ("git log",)),
        ("echo 'a\\\nb'", ("echo 'a\\\nb'",)),
        ('echo "a\\\nb"', ('echo "ab"',)),
        ("echo ' 2>&1 ' 2>&1", ("echo ' 2>&1 '",)),
        ('echo "a >/dev/null b"', ('echo "a >/dev/null b"',)),
    ],
)
def test_simple_commands_are_told_apart(line: str, parts: tuple[str, ...]) -> None:
    assert targets(line) == parts


@pytest.mark.parametrize(
    "line",
    [
        "git log $(rm -rf x)", "git log `rm x`", 'echo "$(rm x)"', "git log > ~/.bashrc", "cat < .env",
        "cat <<E\nx\nE", "(rm x)", "{ rm x; }", "if a; then rm x; fi", "for x in a; do rm $x; done",
        "FOO=1 git log", "$CMD x", "'rm' x", "r\\m x", "eval rm x", "echo 'open", "diff <(a) b",
        "echo ${x:-$(rm y)}", "git log &> file", "! rm x", "git log 2>x", "a=rm; $a x", "/bin/r? x",
        "echo $'a\\'; rm x'", "make > /dev/nullx", 'git log "$\\\n(touch x)"', "git log $\\\n(touch x)",
        "git log >/dev/null\u00a0x", "echo $[a[\\$\\(touch x\\)]]", 'echo "$[a[$x]]"', "ls\x0b-l", "ls\r -l",
        "ls \\ ; pwd \\", "export PATH=.; ls", "a'b", "git log >\\\n f",
    ],
)  # fmt: skip
def test_what_is_unclear_is_one_target_that_no_other_rule_matches(line: str) -> None:
    assert targets(line) == (f"sh -c {line}",)
    assert suggestions(targets(line)) == ()


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        ("git log -3", ("git log *",)),
        ("git log", ("git log *",)),
        ("npm run build", ("npm run build *",)),
        ("pytest -q tests", ("pytest *",)),
        ("python -m pytest -xvs tests/unit -k 'a or b'", ("python -m pytest *",)),
        ("cargo test --release name", ("cargo test *",)),
        ("go test ./... -run=X", ("go test *",)),
        ("make check -j4", ("make check *",)),
        ("git branch --list", ("git branch --list *",)),
        ("cd x && git status", ("cd x", "git status *")),
        ("cat a | head -3", ("cat *", "head *")),
        ("git -C x push", ("git -C x push",)),
        ("git branch -D x", ("git branch -D x",)),
        ("rm -rf build", ("rm -rf build",)),
        ("rm *", ()),
        ("rm $_", ()),
        ("touch 'a?'", ()),
        ("python x.py", ("python x.py",)),
        ("./run.sh a", ("./run.sh a",)),
        (".venv/bin/pytest -q", (".venv/bin/pytest -q",)),
        ("/usr/bin/env x", ()),
        ("../x", ()),
        ("ls && rm *", ()),
        ("git log --output=x", ("git log --output=x", "sh -c git log --output=x")),
        ("git log $_", ()),
    ],
)
def test_always_offers_what_generalises_safely(line: str, patterns: tuple[str, ...]) -> None:
    assert suggestions(targets(line)) == patterns


@pytest.mark.parametrize(
    "program",
    [
        "python3.11", "uv run python", "awk", "sed", "busybox", "setsid", "docker run", "hatch run",
        "npm exec", "tar", "git grep", "git branch", "git config", "find", "xargs", "sort", "rg", "env", "tee",
        "curl", "npx", "cd", "perl", "go run", "cargo run", "uv run", "tsc", "make", "npm", "git", "bash",
        "printf", "touch",
    ],
)  # fmt: skip
def test_what_can_run_anything_is_remembered_only_word_by_word(program: str) -> None:
    assert suggestions(targets(f"{program} x")) in ((f"{program} x",), (f"{program} x *",), ())
    assert suggestions(targets(f"{program} x y")) != (f"{program} *",)
    assert f"{program} *" not in suggestions(targets(f"{program} x --y z"))


@pytest.mark.parametrize(
    "line",
    [
        "git log --output=../x", "git log --output ../x", "git log --outp=x", "git log -p --ext-diff",
        "git show --ext", "git log '--output=x'", "git log --outp''ut=x", "git log \\--output=x",
        "git log {--output=x,a}", 'git log ""{--output=x,}', "git log $_", 'git log "$_"', "git log *",
        "git log ''*", "git -c a.b=c log", "git -ca.b=c log", "git --exec-path=. log", "git -p log",
        "git --paginate log", "git --config-env=a=B log", "git grep -Ox y", "git format-patch -o x",
        "git rebase --exec x", "git -C a log --output=x", "git branch --list --no-list -D x",
        "pytest --basetemp=/x", "pytest -p evil", "pytest -xp evil", "pytest /tmp/evil", "pytest ../evil",
        "pytest ~/e", "pytest -o x=y", "pytest @x", "python -m pytest --junitxml=x",
        "python -m unittest discover -s/x", "make test SHELL=./x", "make test -f x", "make test --eval=x",
        "make test other", "npm test -- -e x", "npm run start x.js", "npm run x --script-shell=./y",
        "cargo test --config x", "cargo test -- --logfile x", "go test -exec ./x ./...", "go vet -vettool=x",
        "go build -o ../x", "go build -toolexec=x", "ruff check --fix", "ruff check -o x",
        "tsc --noEmit false", "basedpyright --pythonpath ./x", "find . -exec rm x", "find . -delete",
        "find . -fprintf x y", "sort -uo x y", "sort --outp=x y", "sort --compress-program=x",
        "rg --pre ./x y", "printf -v x y", "tree -o x",
    ],
)  # fmt: skip
def test_options_that_write_or_run_make_a_target_of_their_own(line: str) -> None:
    assert targets(line) == (line, f"sh -c {line}")
    assert not any(pattern.endswith(" *") for pattern in suggestions(targets(line)))


@pytest.mark.parametrize(
    "line",
    [
        "git log --oneline --author=x -- a*.py", "git diff HEAD@{1} src/*.py",
        "git log --output-indicator-new=x", "git ls-files -o --exclude-standard", "git commit -m 'x'",
        "echo $HOME *", "ls *.py", "pytest -q --maxfail=1", "find . -name '*.py'", "git show HEAD:a",
        "git --no-pager log", "sort -u x",
    ],
)  # fmt: skip
def test_options_that_only_show_make_no_further_target(line: str) -> None:
    assert targets(line) == (line,)


TOKENS = [
    "git log", "git log ", "git", " log", " -1", " a", "'", '"', "\\", "\\\\", "\n", "\\\n", "#", " #", "$",
    "$(", "`", ")", ";", "&&", "|", "&", "||", "(", "touch x", "touch x)", "touch x`", "\ntouch x", ";touch x",
    " <<E\n", "\nE\n", "E", "<", ">", " >f", " 2>&1", " >/dev/null", "{", "}", "{--output=f,a}", "--output=f",
    " --out", "put=f", "$_", "$[", "]", "*", "!", "=", "~", "\t", "\r", "\x0b", "\u00a0", " ", "if ", "eval ",
    "time ", "$'", "\\'", "echo ",
]  # fmt: skip


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH in which every program only writes down its name and arguments."""
    folder = tmp_path_factory.mktemp("recorders")
    for name in ("git", "touch"):
        script = folder / name
        script.write_text(f'#!/bin/bash\nprintf "%s\\0" {name} "$@" END >> "$RECORD"\n')
        script.chmod(0o755)
    return folder


# What an attacker found, and near relations.
@example(["git log", " #", "\\\n", "touch x"])
@example(["git log ", "\\", "\\\n", "touch x"])
@example(["git log ", '"', "$", "\\\n", "(", "touch x)", '"'])
@example(["git log ", "a", "\\\n", "#", ";touch x"])
@example(["git log ", "\\", " #", ";touch x"])
@example(["git log ", "'", " 2>&1", "'", '"', " >/dev/null", '"', "\ntouch x"])
@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(TOKENS), max_size=9).map(lambda made: ["git log", *made]))
def test_a_line_of_which_all_targets_are_git_log_runs_nothing_else(
    recorders: Path, tmp_path: Path, made: list[str]
) -> None:
    line = "".join(made).strip()
    found = targets(line)
    if not all(re.fullmatch(r"git log(?: .*)?", target, re.DOTALL) for target in found):
        return
    record, workspace = tmp_path / "record", tmp_path / "workspace"
    record.write_bytes(b"")
    workspace.mkdir(exist_ok=True)
    env = {"PATH": str(recorders), "RECORD": str(record), "LC_ALL": os.environ.get("LC_ALL", "C.UTF-8")}
    shell = ["/bin/bash", "-c", line]
    subprocess.run(shell, cwd=workspace, env=env, capture_output=True, stdin=subprocess.DEVNULL, timeout=20)
    calls = [call.split("\0") for call in record.read_text().split("END\0") if call]
    assert all(call[:2] == ["git", "log"] for call in calls), (line, calls)
    assert not any(word.startswith("--output") for call in calls for word in call), (line, calls)
    assert list(workspace.iterdir()) == []
