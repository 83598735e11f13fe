from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsp_bridge.language.specs import (
    DEFAULT_SPECS,
    Command,
    Place,
    ServerSpec,
    Setup,
    find_server,
    safe_environment,
    safe_path,
)

SPEC = ServerSpec("s", {".x": "x"}, (Command("first", ("one-ls", "--stdio")), Command("second", ("two-ls",))))


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n", encoding="ascii")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Workspace, the daemon's own bin, a folder on PATH."""
    folders = tuple(tmp_path.resolve() / name for name in ("workspace", "own", "usr"))
    for folder in folders:
        folder.mkdir()
    return folders[0], folders[1], folders[2]


def test_the_daemons_own_bin_comes_before_path(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(usr, "one-ls")
    mine = program(own, "one-ls")
    found = find_server(SPEC, workspace, search_path=str(usr), own_bin=own)
    assert found is not None
    assert (found.name, found.argv) == ("first", (str(mine), "--stdio"))


def test_the_next_command_is_tried_when_the_first_is_missing(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(usr, "two-ls")
    found = find_server(SPEC, workspace, search_path=str(usr), own_bin=own)
    assert found is not None
    assert found.name == "second"


def test_nothing_in_the_workspace_is_found(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(workspace / "bin", "one-ls")
    (usr / "two-ls").symlink_to(program(workspace, "two-ls"))
    (usr / "link").symlink_to(workspace / "bin")
    search = os.pathsep.join([str(workspace / "bin"), str(usr / "link"), "bin", ".", "", str(usr)])
    assert find_server(SPEC, workspace, search_path=search, own_bin=own) is None


def test_a_server_that_cannot_be_set_up_safely_is_not_found(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(usr, "one-ls")

    def unsafe(place: Place) -> Setup | None:
        assert place.executable == usr / "one-ls"

    spec = ServerSpec("s", {".x": "x"}, SPEC.commands, unsafe)
    assert find_server(spec, workspace, search_path=str(usr), own_bin=own) is None


def test_search_paths_lose_their_relative_and_workspace_entries(tmp_path: Path) -> None:
    inside = str(tmp_path / "node_modules" / ".bin")
    assert safe_path(os.pathsep.join([inside, "/usr/bin", "bin", ""]), tmp_path.resolve()) == "/usr/bin"


def test_a_server_inherits_no_search_path_into_the_workspace(tmp_path: Path) -> None:
    inside = str(tmp_path / "lib")
    given = {"PATH": f"{inside}{os.pathsep}/usr/bin", "PYTHONPATH": inside, "NODE_PATH": ".", "HOME": "/h"}
    assert safe_environment(given, tmp_path.resolve()) == {
        "PATH": "/usr/bin",
        "HOME": "/h",
        "PYTHONSAFEPATH": "1",
    }


def test_pyright_is_told_an_interpreter_outside_the_workspace(tmp_path: Path) -> None:
    spec = next(spec for spec in DEFAULT_SPECS if spec.name == "pyright")
    workspace, usr = tmp_path.resolve() / "w", tmp_path.resolve() / "usr"
    python = program(usr, "python3")
    program(workspace / ".venv" / "bin", "python3")
    (workspace / ".venv" / "pyvenv.cfg").write_text("", encoding="ascii")
    packages = workspace / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    setup = spec.configure(Place(workspace, usr / "basedpyright-langserver", str(usr)))
    assert setup is not None
    assert setup.settings["python"]["pythonPath"] == str(python)
    assert setup.settings["basedpyright"]["analysis"]["extraPaths"] == [str(packages)]


@pytest.mark.parametrize("installed", [True, False])
def test_typescript_runs_only_with_a_compiler_of_its_own(tmp_path: Path, installed: bool) -> None:
    spec = next(spec for spec in DEFAULT_SPECS if spec.name == "typescript")
    modules = tmp_path.resolve() / "lib" / "node_modules"
    executable = program(modules / "typescript-language-server" / "lib", "cli.mjs")
    workspace = tmp_path.resolve() / "w"
    program(workspace / "node_modules" / "typescript" / "lib", "tsserver.js")
    server = modules / "typescript" / "lib" / "tsserver.js"
    if installed:
        program(server.parent, server.name)
    setup = spec.configure(Place(workspace, executable, ""))
    assert (setup is not None) == installed
    if setup is not None:
        assert setup.initialization_options["tsserver"] == {"path": str(server)}


def test_files_are_matched_by_suffix_whatever_its_case() -> None:
    assert SPEC.language_of(Path("/w/A.X")) == "x"
    assert SPEC.language_of(Path("/w/x")) is None
