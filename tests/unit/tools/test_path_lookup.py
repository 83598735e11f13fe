from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tools.shell.path_lookup import real_place
from tools.shell.question import question


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def test_wildcards_mean_what_the_shell_makes_of_them(root: Path) -> None:
    made(root, "a.py", "b.py", ".env", "src/c.py", "src/.hidden", "src/deep/d.py")
    # The clock stands still: on a busy machine the search would be given up for its time.
    files = real_place(root, clock=lambda: 0.0).files
    assert sorted(files(root, "*.py") or ()) == ["a.py", "b.py"]
    assert sorted(files(root, "*") or ()) == ["a.py", "b.py", "src"]
    assert sorted(files(root, ".e*") or ()) == [".env"]
    assert sorted(files(root, "*/*.py") or ()) == ["src/c.py"]
    assert sorted(files(root, f"{root}/s?c/c.py") or ()) == [f"{root}/src/c.py"]
    assert sorted(files(root / "src", "**") or ()) == [".hidden", "c.py", "deep/d.py"]


def test_a_dot_and_a_star_may_mean_this_folder_or_above(root: Path) -> None:
    made(root, ".env", ".git/config", "notes.txt", "src/inner.txt")
    (root.parent / "above.txt").write_text("x")
    old, new = (real_place(root, clock=lambda: 0.0, expands_dots=dots).files for dots in (True, False))
    assert sorted(old(root, ".*/*.txt") or ()) == ["../above.txt", "./notes.txt"]
    assert sorted(old(root, "src/.*/i*.txt") or ()) == ["src/./inner.txt"]
    assert sorted(old(root, ".*") or ()) == [".", "..", ".env", ".git"]
    assert sorted(new(root, ".*") or ()) == [".env", ".git"]
    assert sorted(old(root, ".e*") or ()) == [".env"]
    ask = question("cat .*/*.txt", real_place(root, expands_dots=True))
    above = (root.parent / "above.txt").as_posix()
    assert {above, "notes.txt"} <= {access.target for access in ask.accesses}


def test_too_many_files_are_not_known(root: Path) -> None:
    made(root, *(f"{number}" for number in range(20)))
    assert real_place(root, max_entries=10).files(root, "*") is None
    assert real_place(root, max_entries=10).files(root, "**") is None


def test_looking_up_has_an_end(root: Path) -> None:
    made(root, "a", "b")
    seconds = iter(range(1000))
    assert real_place(root, clock=lambda: next(seconds)).files(root, "*") is None


def test_link_into_the_folder_of_a_process_may_be_any_file(root: Path) -> None:
    made(root, "secrets/key")
    (root / "here").symlink_to("/proc/self/cwd")
    (root / "there").symlink_to("here/secrets")
    (root / "near").symlink_to("secrets")
    for line in ("cat here/secrets/key", "cat there/key", "cd there && cat key", "cat < here/x"):
        assert ("read", "*") in _accesses(line, root), line
    assert _accesses("cat near/key", root) == [("read", "secrets/key")]


def test_way_too_long_to_follow_may_lead_to_any_file(root: Path) -> None:
    made(root, "secrets/key", "d/x")
    (root / "far").symlink_to("d/../" * 400 + "here")
    (root / "here").symlink_to("/proc/self/cwd")
    assert ("read", "*") in _accesses("cat far/secrets/key", root)


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        (".ignore", "!.env", "rg KEY"),
        (".gitignore", "*.pyc\n!.e*", "rg KEY src"),
        ("src/.rgignore", "!/.env\n", "rg KEY"),
        (".git/info/exclude", "!**/.env", "rg KEY src"),
        (".ignore", "!.e{n,x}v", "rg KEY"),
        (".ignore", "!\\.env", "rg KEY"),
        (".ignore", "!.*/", "rg KEY"),
        (".ignore", "*\n!*.env", "rg KEY"),
        (".ignore", "#" * 200_000, "rg KEY"),
        ("plain", "!.env", "cp plain .ignore; rg KEY"),
        ("plain", "", "echo '!.env' > src/.ignore; rg KEY"),
        ("plain", "", "rg -t sh KEY"),
    ],
)
def test_ignore_file_or_type_shows_a_hidden_file_again(root: Path, file: str, text: str, line: str) -> None:
    made(root, "src/.env", "src/a.py", file)
    (root / file).write_text(text)
    assert ("read", "src/.env") in _accesses(line, root)


@pytest.mark.parametrize("text", ["", ".env", "!.envrc", "*\n!*.py\n!.github/\n"])
def test_hidden_file_that_no_ignore_file_shows_is_not_read(root: Path, text: str) -> None:
    made(root, "src/.env", "src/a.py", ".ignore")
    (root / ".ignore").write_text(text)
    for line in ("rg KEY", "rg -t py KEY", "rg -tpy KEY src", "rg -g '*.py' KEY"):
        assert ("read", "src/.env") not in _accesses(line, root), line
        assert ("read", "src/a.py") in _accesses(line, root), line


def test_ignore_file_that_is_a_pipe_is_not_waited_for(root: Path) -> None:
    made(root, "src/.env")
    os.mkfifo(root / ".ignore")
    assert ("read", "src/.env") in _accesses("rg KEY", root)


def _accesses(line: str, root: Path) -> list[tuple[str, str]]:
    found = question(line, real_place(root)).accesses
    return [(access.permission, access.target) for access in found if access.permission == "read"]


def test_links_are_followed_hard_ones_to_secrets_too(root: Path) -> None:
    made(root, ".env", "plain")
    (root / "soft").symlink_to(root / ".env")
    os.link(root / ".env", root / "hard")
    os.link(root / "plain", root / "other")
    real = real_place(root).real
    assert real(root / "soft") == root / ".env"
    assert real(root / "hard") == root / ".env"
    assert real(root / "other") == root / "other"


@pytest.mark.parametrize("entry", ["{root}/bin", "bin", "{root}/there"])
def test_a_program_of_the_workspace_is_not_known(
    root: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    made(root, "bin/ls")
    (root / "there").mkdir()
    (root / "there/ls").symlink_to("../bin/ls")
    monkeypatch.setenv("PATH", os.pathsep.join((entry.format(root=root), os.environ["PATH"])))
    lines = ("ls src", "timeout 5 ls", "cat a | ls")
    assert all(question(line, real_place(root)).read_only for line in lines)  # it cannot be run
    (root / "bin/ls").chmod(0o755)
    assert not any(question(line, real_place(root)).read_only for line in lines)
    assert all(question(line, real_place(root)).unread for line in lines)
    assert question("cat a", real_place(root)).read_only
    assert question("cd $X; ls", real_place(root)).unread


def test_a_copy_knows_no_program_of_its_workspace(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(root, "copy/a", "origin/bin/ls", "origin/bin/bash")
    for name in ("ls", "bash"):
        (root / f"origin/bin/{name}").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(root / "origin/bin"), os.environ["PATH"])))
    place = real_place(root / "copy", root / "origin")
    assert question("ls", place).unread
    assert question("cat a", place).read_only
    assert not place.has_bash


@pytest.mark.parametrize("entry", ["", "bin"])
def test_builtins_of_bash_are_no_programs_of_a_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    made(root, "bin/echo", "echo")
    for name in ("bin/echo", "echo"):
        (root / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((entry, os.environ["PATH"])))
    place = real_place(root)
    assert question("cd $X; echo a; type ls; pwd", place).read_only
    for line in ("xargs echo", "timeout 5 echo a", "exec echo a", "sh -c 'echo a'", "cd $X; ls"):
        assert question(line, place).unread, line
    assert question("echo a", replace(place, has_bash=False)).unread
