from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.drivers import replayer

SCRIPT = Path(__file__).resolve().parents[1] / "replay.py"


def lines_of(*lines: object) -> bytes:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()


def replay(cwd: Path, *lines: object) -> list[dict[str, Any]]:
    """Return the answers of the program."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        input=lines_of(*lines),
        capture_output=True,
        cwd=cwd,
        timeout=60,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def answered(cwd: Path, *lines: object) -> list[dict[str, Any]]:
    """Return the same answers without a process of their own."""
    answers = io.BytesIO()
    with contextlib.chdir(cwd):
        asyncio.run(replayer._serve(io.BytesIO(lines_of(*lines)), answers))
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def edit(path: object, old: str, new: str, **more: object) -> dict[str, object]:
    return {"tool": "edit", "args": {"file_path": str(path), "old_string": old, "new_string": new, **more}}


def write(path: object, content: str) -> dict[str, object]:
    return {"tool": "write", "args": {"file_path": str(path), "content": content}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_bytes(b"x = 1\r\ny = 2\r\n")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_replayed_calls_apply_in_order_to_the_latest_state(root: Path, tmp_path: Path) -> None:
    calls = [
        edit("a.py", "x = 1\n", "x = 2\n"),
        edit(root / "a.py", "x = 2", "x = 3"),
        edit("a.py", "x = 1", "x = 9"),
        write("sub/new.txt", "hello\n"),
        edit("sub/new.txt", "hello", "bye"),
    ]
    (answer,) = replay(tmp_path, {"root": str(root), "calls": calls})
    assert [result["ok"] for result in answer["results"]] == [True, True, False, True, True]
    assert tree(root) == {"a.py": b"x = 3\r\ny = 2\r\n", "sub/new.txt": b"bye\n"}


def test_relative_root_is_resolved_against_the_current_folder(root: Path, tmp_path: Path) -> None:
    (answer,) = replay(tmp_path, {"root": "root", "calls": [edit("a.py", "x = 1", "x = 2")]})
    assert answer["results"][0]["ok"]


@pytest.mark.skipif(os.name == "nt", reason="needs symlinks")
def test_replay_touches_nothing_outside_the_root(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_bytes(b"b = 1\n")
    (root / "link.py").symlink_to(outside / "b.py")
    (root / "dangling.py").symlink_to(outside / "none.py")
    (root / "folder").symlink_to(outside)
    (root / "inner.py").symlink_to("a.py")
    calls = [
        edit(outside / "b.py", "b = 1", "b = 2"),
        edit("../outside/b.py", "b = 1", "b = 2"),
        edit("link.py", "b = 1", "b = 2"),
        edit("folder/b.py", "b = 1", "b = 2"),
        write("dangling.py", "x"),
        write("folder/new/c.py", "x"),
        write("../rootx/c.py", "x"),
        write("~/goalwright-c.py", "x"),
        write(root, "x"),
    ]
    before = tree(tmp_path)
    (answer,) = answered(tmp_path, {"root": str(root), "calls": calls})
    assert [result["ok"] for result in answer["results"]] == [False] * len(calls)
    assert all(result["message"] for result in answer["results"])
    assert tree(tmp_path) == before
    (answer,) = answered(tmp_path, {"root": str(root), "calls": [edit("inner.py", "x = 1", "x = 2")]})
    assert answer["results"][0]["ok"]
    assert (root / "inner.py").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["outside", "root"]


def test_invalid_lines_and_calls_get_error_answers(root: Path, tmp_path: Path) -> None:
    bad_calls = [
        {"tool": "bash", "args": {"command": "true"}},
        {"tool": "edit", "args": {"file_path": "a.py"}},
        {"tool": "edit", "args": {"file_path": 3, "old_string": "x", "new_string": "y"}},
        {"tool": "edit"},
        7,
        edit("a.py", "x = 1", "\ud800"),
    ]
    answers = replay(
        tmp_path,
        "{",
        "[1]",
        {"root": str(tmp_path / "none"), "calls": [write("a", "b")]},
        "[" * 100_000,
        {"root": str(root), "calls": bad_calls},
        {"root": str(root), "calls": []},
    )
    assert [len(answer["results"]) for answer in answers] == [0, 0, 1, 0, len(bad_calls), 0]
    assert all("error" in answers[index] for index in (0, 1, 3))
    assert not any(result["ok"] for answer in answers for result in answer["results"])
    assert tree(root) == {"a.py": b"x = 1\r\ny = 2\r\n"}


def test_other_agents_names_of_the_arguments_are_understood(root: Path, tmp_path: Path) -> None:
    call = {"tool": "edit", "args": {"path": "a.py", "old_str": "x = 1", "new_str": "x = 2"}}
    (answer,) = answered(tmp_path, {"root": str(root), "calls": [call]})
    assert answer["results"][0]["ok"]


def test_patches_stay_inside_the_root(root: Path, tmp_path: Path) -> None:
    def envelope(body: str) -> dict[str, object]:
        return {"tool": "patch", "args": {"patch": f"*** Begin Patch\n{body}\n*** End Patch\n"}}

    calls = [
        envelope("*** Add File: ../y.txt\n+c"),
        envelope(f"*** Add File: {tmp_path}/y.txt\n+c"),
        envelope("*** Update File: a.py\n*** Move to: ../y.txt\n@@\n-x = 1\n+x = 2"),
        envelope("*** Update File: a.py\n@@\n-x = 1\n+x = 2"),
    ]
    (answer,) = answered(tmp_path, {"root": str(root), "calls": calls})
    assert [result["ok"] for result in answer["results"]] == [False, False, False, True]
    assert tree(tmp_path) == {"root/a.py": b"x = 2\r\ny = 2\r\n"}


def bash(command: str) -> dict[str, object]:
    return {"tool": "bash", "args": {"command": command}}


ALLOWED = {"permission": {"bash": {"cat *": "allow", "touch *": "allow"}, "read": {".env": "deny"}}}


def test_commands_run_under_the_rules_of_the_line(root: Path, tmp_path: Path) -> None:
    (root / ".env").write_text("KEY=1\n")
    calls = [bash("cat a.py"), bash("cat .env"), bash("ls"), edit("a.py", "x = 1", "x = 2"), bash("cat a.py")]
    home = tmp_path / "home"
    (answer,) = replay(tmp_path, {"root": str(root), "calls": calls, "config": ALLOWED, "home": str(home)})
    first, denied, asked, edited, last = answer["results"]
    assert first["ok"]
    assert "x = 1" in first["message"]
    assert (denied["ok"], "asked" in denied) == (False, False)
    assert (asked["ok"], asked["asked"]) == (False, True)
    assert edited["ok"]
    assert "x = 2" in last["message"]
    assert json.loads((home / ".goalwright/config.json").read_text()) == ALLOWED
    assert sorted(path.name for path in root.iterdir()) == [".env", "a.py"]


def test_replay_without_config_asks_and_lines_are_independent(root: Path, tmp_path: Path) -> None:
    line = {"root": str(root), "calls": [bash("touch made")]}
    answers = answered(tmp_path, {**line, "config": ALLOWED}, line)
    assert [answer["results"][0]["ok"] for answer in answers] == [True, False]
    assert answers[1]["results"][0]["asked"]


def test_mode_of_the_line_applies(root: Path, tmp_path: Path) -> None:
    line = {"root": str(root), "calls": [bash("touch made")]}
    planned, trusted, unknown = answered(
        tmp_path,
        {**line, "config": ALLOWED, "mode": "plan"},
        {**line, "mode": "auto", "trusted": True},
        {**line, "mode": "auto"},
    )
    assert "asked" not in planned["results"][0]
    assert not planned["results"][0]["ok"]
    assert trusted["results"][0]["ok"]
    assert unknown["results"][0]["asked"]


def test_commands_see_the_home_of_the_line_but_no_keys(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary-of-the-environment")
    config = {"permission": {"bash": {"env": "allow"}}, "sandbox": "off"}
    home = tmp_path / "home"
    (answer,) = replay(
        tmp_path, {"root": str(root), "calls": [bash("env")], "config": config, "home": str(home)}
    )
    assert f"HOME={home}\n" in answer["results"][0]["message"]
    assert "canary-of-the-environment" not in answer["results"][0]["message"]


@pytest.mark.parametrize(
    "wrong", [{"config": []}, {"mode": "yolo"}, {"home": "relative"}, {"trusted": "yes"}], ids=str
)
def test_invalid_option_gets_an_error_answer(root: Path, tmp_path: Path, wrong: dict[str, object]) -> None:
    (answer,) = answered(tmp_path, {"root": str(root), "calls": [bash("ls")], **wrong})
    assert answer["results"] == []
    assert next(iter(wrong)) in answer["error"]
