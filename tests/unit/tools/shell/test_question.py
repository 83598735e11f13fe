from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples, in_full
from tools.access import Access
from tools.shell.question import CommandPlace, question

PLACE = CommandPlace(Path("/w"), Path("/home/me"))


def opaque(line: str) -> list[str]:
    """Texts of the commands that rules cannot see through."""
    return [access.target for access in question(line, PLACE).accesses if access.opaque]


def more(line: str) -> list[str]:
    """Commands whose words may do more than their beginning says."""
    return [access.target for access in question(line, PLACE).accesses if access.beyond]


def suggested(line: str) -> list[str]:
    """Return the patterns that "always" would store, those of bash without the name of the permission."""
    return [
        one.pattern if one.permission == "bash" else f"{one.permission}:{one.pattern}"
        for one in question(line, PLACE).suggestions
    ]


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        ("git log", ("git log",)),
        ("git  log   -3", ("git log -3",)),
        ("cd src && make test; echo done", ("cd src", "make test", "echo done")),
        ("a | b || c & d\ne", ("a", "b", "c", "d", "e")),
        ("make 2>&1 | tail -5", ("make", "tail -5")),
        ("make >/dev/null 2>&1; ls", ("make", "ls")),
        ("ls # comment; rm x\npwd", ("ls", "pwd")),
        ("ls \\\n  -l", ("ls -l",)),
        ("ls; ls", ("ls",)),
        ("git lo\\\ng", ("git log",)),
        ("'git' log", ("git log",)),
        ("git log $(rm -rf x)", ("git log $(rm -rf x)", "rm -rf x")),
        ("(rm x)", ("rm x",)),
        ("{ rm x; }", ("rm x",)),
        ("if a; then rm x; fi", ("a", "rm x")),
        ("diff <(a) b", ("diff <(a) b", "a")),
        ("! rm x", ("rm x",)),
        ("FOO=1 git log", ("FOO=1 git log",)),
        ("GIT_DIR=/x", ("sh -c GIT_DIR=/x",)),
        ("env git log", ("env git log", "git log")),
        ("find . -exec rm {} +", ("find . -exec rm {} +", "rm {}")),
        ("bash -c 'ls; rm x'", ("bash -c 'ls; rm x'", "ls", "rm x")),
        ("sh -c 'sh -c ls'", ("sh -c 'sh -c ls'", "sh -c ls", "ls")),
        ("timeout 5 xargs sudo rm", ("timeout 5 xargs sudo rm", "xargs sudo rm", "sudo rm", "rm")),
        ("bash <<< 'rm x'", ("bash", "rm x")),
        ("eval 'rm x'", ("eval 'rm x'", "rm x")),
        ("x=5", ("sh -c x=5",)),
        ("", ("sh -c ",)),
        ("# only a comment", ("sh -c # only a comment",)),
    ],
)
def test_all_commands_of_a_line_are_targets(line: str, targets: tuple[str, ...]) -> None:
    assert question(line, PLACE).targets == targets


@pytest.mark.parametrize(
    "line",
    [
        "echo 'open",
        "if",
        "ls )",
        "git log >",
        "cat <<E\nx",
        "a\x00b",
        "ls\x0b-l",
        "ls\r -l",
        "${x!}",
        "x=(",
        "a && ",
    ],
)
def test_unparsable_line_is_one_opaque_target_never_granted(line: str) -> None:
    found = question(line, PLACE)
    assert found.targets[0] == f"sh -c {line.strip()}"
    assert opaque(line)[0] == f"sh -c {line.strip()}"
    assert found.suggestions == ()
    assert not found.read_only


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        ("git log -3", ["git log *"]),
        ("npm run build", ["npm run build *"]),
        ("pytest -q tests", ["pytest *"]),
        ("python -m pytest -xvs tests/unit -k 'a or b'", ["python -m pytest *"]),
        ("cargo test --release name", ["cargo test *"]),
        ("go test ./... -run=X", ["go test *"]),
        ("make check -j4", ["make check *"]),
        ("git branch --list", ["git branch --list"]),
        ("cd x && git status", ["cd x", "git status *"]),
        ("cat a | head -3", ["cat *", "head *"]),
        ("git -C x push", ["git -C x push"]),
        ("git branch -D x", ["git branch -D x"]),
        ("rm -rf build", ["rm -rf build"]),
        ("rm *", []),
        ("rm $_", []),
        ("touch 'a?'", []),
        ("python x.py", ["python x.py"]),
        ("./run.sh a", ["./run.sh a"]),
        (".venv/bin/pytest -q", [".venv/bin/pytest -q"]),
        ("/usr/bin/env x", []),
        ("../x", []),
        ("~/x", []),
        ("ls && rm *", []),
        ("git log --output=x", ["git log --output=x", "edit:x"]),
        ("git log $_", []),
        ("python -c x", []),
        ("ls; python -c x", []),
        ("curl x | sh", []),
        ("env git log", ["env git log", "git log *"]),
        ("echo a > out.txt", ["echo *", "edit:out.txt"]),
        ("echo a > build/x/out.txt", ["echo *", "edit:build/x/*"]),
        ("echo a > /tmp/x", ["echo *", "edit:/tmp/*"]),
        ("echo a > $X", []),
        ("cat /etc/hosts", ["cat *", "external_directory:/etc/*"]),
        ("cat /etc/ho*", ["cat *", "external_directory:/etc/*"]),
        ("ls /opt/x", ["ls *", "external_directory:/opt/x/*", "external_directory:/opt/*"]),
        ("cat src/a.py", ["cat *"]),
        ("FOO=1 make", ["FOO=1 make"]),
        ("CI=1 pytest", ["CI=1 pytest"]),
        ("bash -c 'git log'", ["bash -c 'git log'", "git log *"]),
    ],
)
def test_always_suggests_only_safe_generalizations(line: str, patterns: list[str]) -> None:
    assert suggested(line) == patterns


@pytest.mark.parametrize(
    "program",
    [
        "python3.11", "uv run python", "awk", "sed", "busybox", "setsid", "docker run", "hatch run",
        "npm exec", "tar", "git grep", "git branch", "git config", "find", "xargs", "sort", "rg", "env", "tee",
        "curl", "npx", "cd", "perl", "go run", "cargo run", "uv run", "tsc", "make", "npm", "git", "bash",
        "printf", "touch",
    ],
)  # fmt: skip
def test_program_runners_are_granted_only_exactly(program: str) -> None:
    for rest in ("x", "x y", "x --y z"):
        assert f"{program} *" not in suggested(f"{program} {rest}")


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
        "tsc --noEmit false", "basedpyright --pythonpath ./x", "find . -delete",
        "find . -fprintf x y", "sort -uo x y", "sort --outp=x y", "sort --compress-program=x",
        "rg --pre ./x y", "tree -o x",
    ],
)  # fmt: skip
def test_options_that_write_or_run_exceed_a_general_grant(line: str) -> None:
    found = question(line, PLACE).targets[0]
    assert more(line) == [found] or opaque(line) == [found]
    assert not any(pattern.endswith(" *") for pattern in suggested(line))


@pytest.mark.parametrize(
    "line",
    [
        "git log --oneline --author=x -- a*.py", "git diff 'HEAD@{1}' src/*.py",
        "git log --output-indicator-new=x", "git ls-files -o --exclude-standard", "git commit -m 'x'",
        "echo $HOME *", "ls *.py", "pytest -q --maxfail=1", "find . -name '*.py'", "git show HEAD:a",
        "git --no-pager log", "sort -u x", 'git log "a $X"', "find . -exec ls {} +",
    ],
)  # fmt: skip
def test_read_only_options_add_no_target(line: str) -> None:
    assert more(line) == []
    assert opaque(line) == []


def test_request_explains_each_access() -> None:
    found = question("cat a > out.txt; sudo rm -rf x; python -c y", PLACE)
    assert Access("edit", "out.txt", "> out.txt") in found.accesses
    assert Access("read", "a", "argument of cat", implied=True) in found.accesses
    assert (
        Access("bash", "python -c y", opaque="python -c runs code that rules cannot check") in found.accesses
    )
    assert found.warnings == (
        "sudo runs a command as another user: sudo rm -rf x",
        "rm -r deletes folders with everything in them: rm -rf x",
    )
    assert found.title == "Run cat a > out.txt; sudo rm -rf x; python -c y"
    assert found.detail == "cat a > out.txt; sudo rm -rf x; python -c y"
    described = question("ls", PLACE, model_says=" List ")
    assert (described.title, described.detail, described.model_says) == ("Run ls", "ls", "List")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git status && cat a | grep x", True),
        ("ls > /dev/null 2>&1", True),
        ("ls > out", False),
        ("ls; rm x", False),
        ("ls $(rm x)", False),
        ("bash -c 'git log'", True),
        ("bash -c 'rm x'", False),
        ("if test -f a; then cat a; fi", True),
        ("python -c x", False),
        ("x=5", False),
        ("", False),
        ("ls; if", False),
        ("/dev/tcp/h/1", False),
    ],
)
def test_read_only_lines_are_recognised(line: str, expected: bool) -> None:
    assert question(line, PLACE).read_only is expected


@pytest.mark.parametrize(
    "line",
    ["cat < /dev/tcp/h/80", "exec 3<>/dev/tcp/h/80", "echo x > /dev/udp/h/1", "cat a > /dev/tcp/$H/80"],
)
def test_connections_of_the_shell_itself_are_opaque(line: str) -> None:
    assert opaque(line)


def test_rule_for_the_runner_suffices_but_its_command_is_listed() -> None:
    found = question("uv run pytest -q", PLACE)
    assert found.targets == ("uv run pytest -q",)
    assert Access("bash", "pytest -q", "run by uv run pytest -q", implied=True) in found.accesses
    assert opaque("uv run python -c x") == ["python -c x"]
    assert question("uv run rm -rf x", PLACE).warnings


def test_lines_within_lines_end_somewhere() -> None:
    line = "rm x"
    for _ in range(8):
        line = f"bash -c {_quoted(line)}"
    assert any("nest" in access.opaque for access in question(line, PLACE).accesses)
    assert any("nest" in access.opaque for access in question("env " * 9 + "rm x", PLACE).accesses)


def test_variables_set_in_the_line_override_the_environment() -> None:
    place = CommandPlace(Path("/w"), Path("/home/me"), variables={"D": "/w/a"})
    assert Access("read", "a/x", "argument of cat", implied=True) in question("cat $D/x", place).accesses
    assert (
        Access("read", "a/x", "argument of cat", implied=True)
        in question("bash -c 'cat $D/x'", place).accesses
    )
    for line in ("D=/etc; bash -c 'cat $D/x'", "export D=$X; bash -c 'cat $D/x'"):
        reads = [access.target for access in question(line, place).accesses if access.permission == "read"]
        assert "a/x" not in reads
        assert reads


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


NAMES = st.text("abcxyz._-", min_size=1, max_size=8).filter(
    lambda name: name.strip("._-") and name[0] not in "-"
)
READERS = st.sampled_from(
    [
        "cat", "head -3", "tail -n 2", "nl", "wc -l", "grep x", "sort", "cut -f1", "sed -n 1p", "awk '{print $1}'",
        "base64", "xxd", "md5sum", "diff b", "jq .", "rg x", "tac", "paste -d, b", "od -c", "gzip -c", "less",
    ]
)  # fmt: skip
WRAPPERS = st.sampled_from(
    ["{}", "env {}", "x=1; {}", "({})", "echo $({})", "timeout 5 {}", "if {}; then ls; fi", "{} | wc"]
)


@given(READERS, NAMES, WRAPPERS)
def test_a_reader_always_reads_its_file(reader: str, name: str, wrapper: str) -> None:
    found = question(wrapper.format(f"{reader} {name}"), PLACE)
    assert any(access.permission == "read" and access.target == name for access in found.accesses)


@given(NAMES, st.data())
def test_quoting_does_not_change_the_file_name(name: str, data: st.DataObject) -> None:
    shapes = [
        name,
        f"'{name}'",
        f'"{name}"',
        f"./{name}",
        f"x/../{name}",
        f"/w/{name}",
        f"$PWD/{name}",
        name[0] + "''" + name[1:],
    ]
    shape = data.draw(st.sampled_from(shapes))
    place = CommandPlace(Path("/w"), Path("/home/me"), variables={"PWD": "/w"})
    found = question(f"cat {shape}", place)
    assert [access.target for access in found.accesses if access.permission == "read"] == [name]


LINES = st.text(st.sampled_from(list("ab ./$'\"(){}<>|&;\\\n`*?-=~#!")), max_size=30) | st.text(max_size=30)


@settings(max_examples=examples(300))
@given(LINES)
def test_any_line_yields_a_target_without_raising(line: str) -> None:
    found = question(line, PLACE)
    assert found.targets


@given(
    st.lists(
        st.sampled_from(
            [
                "git log",
                "cat a | wc",
                "(cd x; ls)",
                "make > log",
                "for f in *; do cat $f; done",
                "python -c x",
                "x=1",
            ]
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([" ; ", " && ", " || ", "\n", " & ", " | "]),
)
def test_additional_command_always_adds_a_target(lines: list[str], between: str) -> None:
    joined = between.join(lines)
    found = question(f"{joined}; rm -rf x", PLACE)
    assert "rm -rf x" in found.targets
    assert found.warnings
    assert {"x/*", "*x/*"} & {access.target for access in found.accesses if access.permission == "edit"}


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
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(TOKENS), max_size=9).map(lambda made: ["git log", *made]))
def test_line_with_only_git_log_targets_runs_nothing_else(
    recorders: Path, tmp_path: Path, made: list[str]
) -> None:
    line = "".join(made).strip()
    asked = [access for access in question(line, PLACE).all_accesses if not access.implied]
    if not all(re.fullmatch(r"git log(?: .*)?", access.target, re.DOTALL) for access in asked):
        return
    if any(access.opaque or access.beyond for access in asked):
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


def test_analysis_time_stays_bounded_for_long_words_and_lists() -> None:
    # Each took 3 to 50 seconds, because the time grew with the square of the length.
    for unit in ("a", "1", "A_", "é", "a|", "a@", "[a]", "[", "-l x ", "a "):
        for begin in ("", "ls ")[-in_full(2, 1) :]:
            question(begin + unit * (60_000 // len(unit)), PLACE)


@pytest.mark.parametrize("line", ["a@" * 30_000, "ls " + "a|" * 3_000 + "rm -rf x"])
def test_line_too_complex_to_read_is_opaque_but_deny_rules_bind(line: str) -> None:
    found = question(line, PLACE)
    assert any("too long" in access.opaque or "too deeply" in access.opaque for access in found.accesses)
    assert not found.suggestions
    assert "|" not in line or Access("bash", "a", "run by the line", implied=True) in found.accesses


@pytest.mark.parametrize(
    "line", ["ls " + "a" * 60_000, "cat " + "a/" * 20_000 + "b", "a" * 60_000, "grep 'a|b' " + "x" * 60_000]
)
def test_long_word_is_parsed_like_a_short_one(line: str) -> None:
    assert opaque(line) == []
    assert question(line, PLACE).targets == (line.replace("'", "") if "'" not in line else line,)
