from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.runtime import (
    SOCKET_PATH_LIMIT,
    Address,
    AlreadyRunningError,
    RuntimeFolderError,
    RuntimePaths,
    private_folder,
    state_dir,
)
from tools.files.regular_files import write_private


def an_address(paths: RuntimePaths, **changes: object) -> Address:
    raw: dict[str, object] = {
        "pid": 4711,
        "token": "secret",
        "version": "1.0",
        "protocolVersion": 1,
        "workspace": str(paths.workspace),
        "startedAt": "2026-01-02T03:04:05+00:00",
        "socket": str(paths.socket_path),
    }
    return Address.from_json({**raw, **changes})


@pytest.fixture
def paths(tmp_path: Path) -> RuntimePaths:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return RuntimePaths.for_workspace(workspace, tmp_path / "home")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_paths_do_not_depend_on_the_spelling_of_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    spellings = [tmp_path / "real", tmp_path / "link", Path(), tmp_path / "real" / ".." / "real"]
    assert len({RuntimePaths.for_workspace(s, tmp_path / "home").folder for s in spellings}) == 1


def test_two_workspaces_have_two_folders(tmp_path: Path) -> None:
    folders = {RuntimePaths.for_workspace(tmp_path / name, tmp_path).folder for name in ("a", "b")}
    assert len(folders) == 2


def test_paths_touch_nothing_until_prepared(paths: RuntimePaths, tmp_path: Path) -> None:
    assert paths.socket_path
    assert paths.read_address() is None
    assert not paths.is_locked()
    assert not (tmp_path / "home").exists()


def test_login_shell_and_container_meet_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    without = RuntimePaths.for_workspace(tmp_path, tmp_path / "home").folder
    runtime = tmp_path / "xdg"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert RuntimePaths.for_workspace(tmp_path, tmp_path / "home").folder == without


def test_state_folder_is_named_by_the_environment_or_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOALWRIGHT_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert state_dir() == Path("/home/somebody/.goalwright")
    monkeypatch.setenv("GOALWRIGHT_HOME", "~/elsewhere")
    assert state_dir() == Path("/home/somebody/elsewhere")
    monkeypatch.setenv("GOALWRIGHT_HOME", "relative")
    assert state_dir() == Path.cwd() / "relative"
    assert state_dir(Path("/given")) == Path("/given")


def test_folder_and_files_are_only_for_the_user(paths: RuntimePaths) -> None:
    old = os.umask(0)
    try:
        with paths.hold_lock():
            paths.write_address(an_address(paths))
            folders = [paths.folder, paths.folder.parent, paths.folder.parent.parent]
            files = [paths.address_file, paths.lock_file]
            assert [mode(p) for p in folders] == [0o700] * 3
            assert [mode(p) for p in files] == [0o600] * 2
    finally:
        os.umask(old)


def test_too_open_folder_permissions_are_tightened(paths: RuntimePaths) -> None:
    paths.folder.mkdir(parents=True)
    paths.folder.chmod(0o755)
    paths.prepare()
    assert mode(paths.folder) == 0o700


def test_existing_home_keeps_its_permissions(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    RuntimePaths.for_workspace(tmp_path, home).prepare()
    assert mode(home) == 0o755


def test_folder_of_another_user_is_refused(paths: RuntimePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.prepare()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(RuntimeFolderError, match="belongs to another user"):
        paths.prepare()


def test_symlink_in_place_of_the_folder_is_refused(paths: RuntimePaths, tmp_path: Path) -> None:
    (tmp_path / "trap").mkdir()
    paths.folder.parent.mkdir(parents=True)
    paths.folder.symlink_to(tmp_path / "trap")
    with pytest.raises(RuntimeFolderError, match="not a folder"):
        paths.prepare()


def test_file_in_place_of_the_folder_gives_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeFolderError, match="GOALWRIGHT_HOME"):
        private_folder(tmp_path / "file" / "run")


def test_address_survives_the_file(paths: RuntimePaths) -> None:
    paths.prepare()
    for address in (an_address(paths), an_address(paths, socket=None, port=5)):
        paths.write_address(address)
        assert paths.read_address() == address
        raw = json.loads(paths.address_file.read_text())
        assert raw["protocolVersion"] == 1
        assert ("port" in raw) != ("socket" in raw)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"pid": "x"}', "\udcff", '{"pid": null, "token": "t"}'],
)
def test_damaged_address_file_is_read_as_none(paths: RuntimePaths, content: str) -> None:
    paths.prepare()
    paths.address_file.write_text(content, errors="surrogateescape")
    assert paths.read_address() is None


@pytest.mark.parametrize(
    "wrong", [{"pid": True}, {"pid": "1"}, {"protocolVersion": True}, {"startedAt": None}]
)
def test_address_with_a_field_of_the_wrong_kind_is_damaged(
    paths: RuntimePaths, wrong: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="wrong kind"):
        an_address(paths, **wrong)
    with pytest.raises(ValueError, match="a socket or a port"):
        an_address(paths, port=1)


def test_address_of_a_workspace_that_is_not_utf_8(paths: RuntimePaths) -> None:
    address = an_address(paths, workspace="/work/caf\udce9")
    paths.prepare()
    paths.write_address(address)
    assert paths.read_address() == address


@pytest.mark.parametrize("change", [{"socket": None}, {"port": 7}])
def test_address_needs_either_a_socket_or_a_port(paths: RuntimePaths, change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="socket or a port"):
        an_address(paths, **change)


def test_private_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    write_private(tmp_path / "x", b"1")
    write_private(tmp_path / "x", b"2")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_private(tmp_path / "folder", b"3")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "x"]


def test_second_daemon_error_names_the_first(paths: RuntimePaths) -> None:
    with paths.hold_lock():
        assert paths.is_locked()
        with pytest.raises(AlreadyRunningError, match="starting or stopping"), paths.hold_lock(wait_s=0):
            raise AssertionError
        paths.write_address(an_address(paths))
        with pytest.raises(AlreadyRunningError, match="process 4711"), paths.hold_lock(wait_s=0):
            raise AssertionError
        assert paths.read_address() is not None
    assert not paths.is_locked()


def test_lock_of_a_running_daemon_shows_on_a_read_only_disk(paths: RuntimePaths) -> None:
    program = (
        "import sys; from pathlib import Path; from daemon.runtime import RuntimePaths\n"
        "print(RuntimePaths(Path('/'), Path(sys.argv[1]), '').is_locked())"
    )
    folder = str(paths.folder)
    read_only = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", folder, folder, "--"]
    command = [*read_only, sys.executable, "-c", program, folder]
    with paths.hold_lock():
        assert subprocess.check_output(command) == b"True\n"
    assert subprocess.check_output(command) == b"False\n"


def test_lock_holder_removes_files_of_a_killed_daemon(paths: RuntimePaths) -> None:
    paths.prepare()
    leftover = socket.socket(socket.AF_UNIX)
    leftover.bind(str(paths.prepare_socket()))
    leftover.close()
    paths.write_address(an_address(paths))
    with paths.hold_lock():
        assert paths.read_address() is None
        assert not paths.socket_path.exists()


def test_address_and_socket_are_removed_when_the_daemon_ends(paths: RuntimePaths) -> None:
    with pytest.raises(KeyError), paths.hold_lock():
        paths.prepare_socket().touch()
        paths.write_address(an_address(paths))
        raise KeyError
    assert sorted(p.name for p in paths.folder.iterdir()) == ["daemon.lock"]


def test_long_home_gets_a_short_private_socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    paths = RuntimePaths.for_workspace(tmp_path, tmp_path / ("long" * 20) / ("long" * 20))
    assert len(os.fsencode(paths.socket_path)) < SOCKET_PATH_LIMIT
    with paths.hold_lock():
        path = paths.prepare_socket()
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.close()
        assert mode(path.parent) == 0o700
        assert str(os.geteuid()) in path.parent.name
        paths.write_address(an_address(paths))
    assert not path.parent.exists()


def test_private_xdg_runtime_dir_is_used_for_long_socket_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    paths = RuntimePaths.for_workspace(tmp_path, tmp_path / ("long" * 30))
    runtime = Path(f"/tmp/gw-test-{os.getpid()}")
    runtime.mkdir()
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        runtime.chmod(0o700)
        assert paths.socket_path.is_relative_to(runtime)
        runtime.chmod(0o755)
        assert not paths.socket_path.is_relative_to(runtime)
    finally:
        runtime.rmdir()


def test_untrusted_folder_in_the_shared_temp_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    paths = RuntimePaths.for_workspace(tmp_path, tmp_path / ("long" * 30))
    trap = paths.socket_path.parent
    trap.symlink_to(tmp_path)
    try:
        with pytest.raises(RuntimeFolderError, match="not a folder"):
            paths.prepare_socket()
    finally:
        trap.unlink()
