from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsp_bridge.language_client.specs.discovery import (
    ignored_programs,
    look_up,
    safe_environment,
    safe_path,
)
from lsp_bridge.language_client.specs.server_spec import Command, Project, ServerSpec, Setup, SetupContext
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS

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
    found = look_up(SPEC, Project(workspace), search_path=str(usr), own_bin=own).found
    assert found is not None
    assert (found.name, found.argv) == ("first", (str(mine), "--stdio"))


def test_the_next_command_is_tried_when_the_first_is_missing(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(usr, "two-ls")
    found = look_up(SPEC, Project(workspace), search_path=str(usr), own_bin=own).found
    assert found is not None
    assert found.name == "second"


def test_programs_in_the_workspace_are_not_found(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(workspace / "bin", "one-ls")
    (usr / "two-ls").symlink_to(program(workspace, "two-ls"))
    (usr / "link").symlink_to(workspace / "bin")
    search = os.pathsep.join([str(workspace / "bin"), str(usr / "link"), "bin", ".", "", str(usr)])
    assert look_up(SPEC, Project(workspace), search_path=search, own_bin=own).found is None


def test_a_server_that_cannot_be_set_up_safely_is_not_found(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(usr, "one-ls")

    def unsafe(place: SetupContext) -> Setup | None:
        assert place.executable == usr / "one-ls"

    spec = ServerSpec("s", {".x": "x"}, SPEC.commands, unsafe)
    assert look_up(spec, Project(workspace), search_path=str(usr), own_bin=own).found is None


def test_search_paths_lose_their_relative_and_workspace_entries(tmp_path: Path) -> None:
    inside = str(tmp_path / "node_modules" / ".bin")
    assert (
        safe_path(os.pathsep.join([inside, "/usr/bin", "bin", ""]), Project(tmp_path.resolve())) == "/usr/bin"
    )


def test_a_server_inherits_no_search_path_into_the_workspace(tmp_path: Path) -> None:
    inside = str(tmp_path / "lib")
    given = {"PATH": f"{inside}{os.pathsep}/usr/bin", "PYTHONPATH": inside, "NODE_PATH": ".", "HOME": "/h"}
    assert safe_environment(given, Project(tmp_path.resolve())) == {
        "PATH": "/usr/bin",
        "HOME": "/h",
        "PYTHONSAFEPATH": "1",
    }


def test_pyright_gets_an_interpreter_outside_the_workspace(tmp_path: Path) -> None:
    spec = next(spec for spec in DEFAULT_SPECS if spec.name == "pyright")
    workspace, usr = tmp_path.resolve() / "w", tmp_path.resolve() / "usr"
    python = program(usr, "python3")
    program(workspace / ".venv" / "bin", "python3")
    (workspace / ".venv" / "pyvenv.cfg").write_text("", encoding="ascii")
    packages = workspace / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    setup = spec.set_up(SetupContext(Project(workspace), usr / "basedpyright-langserver", str(usr)))
    assert isinstance(setup, Setup)
    assert setup.settings["python"]["pythonPath"] == str(python)
    assert setup.settings["basedpyright"]["analysis"]["extraPaths"] == [str(packages)]


def default(name: str) -> ServerSpec:
    return next(spec for spec in DEFAULT_SPECS if spec.name == name)


def typescript(folder: Path, version: str) -> Path:
    """TypeScript as npm installs it in ``folder/node_modules``; returns its package."""
    package = folder / "node_modules" / "typescript"
    program(package / "bin", "tsc")
    if not version.startswith("7"):
        program(package / "lib", "tsserver.js")
    (package / "package.json").write_text(f'{{"name": "typescript", "version": "{version}"}}', "utf-8")
    bin_folder = folder / "node_modules" / ".bin"
    bin_folder.mkdir(exist_ok=True)
    (bin_folder / "tsc").symlink_to(package / "bin" / "tsc")
    return package


def language_server(folder: Path) -> Path:
    """typescript-language-server as npm installs it; returns the folder of programs."""
    script = program(folder / "node_modules" / "typescript-language-server" / "lib", "cli.mjs")
    bin_folder = folder / "node_modules" / ".bin"
    bin_folder.mkdir(parents=True, exist_ok=True)
    (bin_folder / "typescript-language-server").symlink_to(script)
    return bin_folder


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("beside", [True, False])
def test_tsserver_is_the_projects_own_only_in_a_trusted_folder(
    places: tuple[Path, Path, Path], trusted: bool, beside: bool
) -> None:
    workspace, own, usr = places
    programs = language_server(usr)
    theirs = typescript(workspace, "5.4.0") / "lib" / "tsserver.js"
    ours = typescript(usr, "5.9.3") / "lib" / "tsserver.js" if beside else None
    seen = look_up(
        default("typescript-language-server"),
        Project(workspace, trusted=trusted),
        search_path=str(programs),
        own_bin=own,
    )
    expected = theirs if trusted else ours
    if expected is None:
        assert seen.found is None
        assert [reason.untrusted for reason in seen.unusable] == [True]
    else:
        assert seen.found is not None
        assert seen.found.setup.initialization_options["tsserver"]["path"] == str(expected)


@pytest.mark.parametrize(
    ("project", "outside", "trusted", "expected"),
    [
        (None, "7.0.2", False, "usr"),
        ("7.1.0", "7.0.2", False, "usr"),
        ("7.1.0", "7.0.2", True, "workspace"),
        ("7.1.0", None, False, None),
        ("5.9.3", "7.0.2", True, None),
        ("5.9.3", "7.0.2", False, None),
        (None, "5.9.3", True, None),
    ],
)
def test_typescript_7_runs_unless_the_project_has_an_older_one(
    places: tuple[Path, Path, Path],
    project: str | None,
    outside: str | None,
    trusted: bool,
    expected: str | None,
) -> None:
    workspace, own, usr = places
    if project:
        typescript(workspace, project)
    if outside:
        typescript(usr, outside)
    search = str(usr / "node_modules" / ".bin")
    found = look_up(
        default("typescript-7"), Project(workspace, trusted=trusted), search_path=search, own_bin=own
    ).found
    if expected is None:
        assert found is None
    else:
        assert found is not None
        folder = {"usr": usr, "workspace": workspace}[expected]
        assert found.argv == (str(folder / "node_modules" / ".bin" / "tsc"), "--lsp", "--stdio")


def test_trusted_project_servers_come_first_nearest_folder_first(
    places: tuple[Path, Path, Path],
) -> None:
    workspace, own, usr = places
    root = workspace / "packages" / "a"
    program(own, "one-ls")
    program(usr, "one-ls")
    above = program(workspace / "node_modules" / ".bin", "one-ls")
    found = look_up(SPEC, Project(workspace, root, trusted=True), search_path=str(usr), own_bin=own).found
    assert found is not None and found.argv[0] == str(above)
    nearest = program(root / ".venv" / "bin", "two-ls")
    found = look_up(SPEC, Project(workspace, root, trusted=True), search_path=str(usr), own_bin=own).found
    assert found is not None and found.argv == (str(nearest),)


def test_servers_of_an_untrusted_project_are_named_but_not_used(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    theirs = program(workspace / ".venv" / "bin", "one-ls")
    assert look_up(SPEC, Project(workspace), search_path=str(usr), own_bin=own).found is None
    program(usr, "one-ls")
    assert look_up(SPEC, Project(workspace), search_path=str(usr), own_bin=own).found is not None
    assert ignored_programs(SPEC, Project(workspace)) == (theirs,)


def test_pyright_asks_the_interpreter_of_a_trusted_project(places: tuple[Path, Path, Path]) -> None:
    workspace, _, usr = places
    root = workspace / "service"
    python = program(workspace / "venv" / "bin", "python")
    (workspace / "venv" / "pyvenv.cfg").write_text("", encoding="ascii")
    setup = default("pyright").set_up(
        SetupContext(Project(workspace, root, trusted=True), usr / "pyright-langserver", str(usr))
    )
    assert isinstance(setup, Setup)
    assert setup.settings["python"]["pythonPath"] == str(python)


def test_rust_analyzer_runs_in_trusted_folders_only(places: tuple[Path, Path, Path]) -> None:
    workspace, own, usr = places
    program(usr, "rust-analyzer")
    seen = look_up(default("rust-analyzer"), Project(workspace), search_path=str(usr), own_bin=own)
    assert seen.found is None and seen.unusable[0].untrusted
    seen = look_up(
        default("rust-analyzer"), Project(workspace, trusted=True), search_path=str(usr), own_bin=own
    )
    assert seen.found is not None


def test_gopls_neither_downloads_nor_compiles_if_untrusted(
    places: tuple[Path, Path, Path],
) -> None:
    workspace, own, usr = places
    program(usr, "gopls")
    seen = look_up(default("gopls"), Project(workspace), search_path=str(usr), own_bin=own)
    assert seen.found is None and "go command" in seen.unusable[0].reason
    program(usr, "go")
    seen = look_up(default("gopls"), Project(workspace), search_path=str(usr), own_bin=own)
    assert seen.found is not None
    environment = seen.found.setup.settings["gopls"]["env"]
    assert (environment["GOTOOLCHAIN"], environment["CGO_ENABLED"]) == ("local", "0")


def test_bash_server_requires_shellcheck_outside_the_workspace(
    places: tuple[Path, Path, Path],
) -> None:
    workspace, own, usr = places
    program(usr, "bash-language-server")
    program(workspace / "bin", "shellcheck")
    search = os.pathsep.join([str(usr), str(workspace / "bin")])
    seen = look_up(default("bash-language-server"), Project(workspace), search_path=search, own_bin=own)
    assert seen.found is None and "shellcheck" in seen.unusable[0].reason
    beside = program(own, "shellcheck")
    seen = look_up(default("bash-language-server"), Project(workspace), search_path=search, own_bin=own)
    assert seen.found is not None
    assert seen.found.setup.settings["bashIde"]["shellcheckPath"] == str(beside)


def test_trusted_project_programs_are_on_the_server_path(places: tuple[Path, Path, Path]) -> None:
    workspace, _, usr = places
    program(workspace / ".venv" / "bin", "python")
    environment = {"PATH": os.pathsep.join([str(usr), "bin"]), "PYTHONPATH": str(workspace / "src")}
    safe = safe_environment(environment, Project(workspace, trusted=True))
    assert safe["PATH"] == os.pathsep.join([str(workspace / ".venv" / "bin"), str(usr)])
    assert safe["PYTHONPATH"] == str(workspace / "src")
    assert "PYTHONPATH" not in safe_environment(environment, Project(workspace))


def test_server_specs_are_ordered_and_have_install_hints() -> None:
    before: set[str] = set()
    for spec in DEFAULT_SPECS:
        assert set(spec.yields_to) <= before
        assert spec.title and spec.install and spec.languages
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in spec.languages)
        before.add(spec.name)
    assert len(before) == len(DEFAULT_SPECS)


@pytest.mark.parametrize(
    ("file", "server", "language"),
    [
        (".bashrc", "bash-language-server", "shellscript"),
        ("tsconfig.json", "json", "jsonc"),
        ("package.json", "json", "json"),
        ("a.PY", "pyright", "python"),
        ("a.jsx", "typescript-7", "javascriptreact"),
        ("a.hpp", "clangd", "cpp"),
        ("a.scss", "css", "scss"),
        ("go.mod", "gopls", "go.mod"),
        ("a.yml", "yaml", "yaml"),
    ],
)
def test_files_have_the_language_that_editors_give_them(file: str, server: str, language: str) -> None:
    assert default(server).language_of(Path("/w") / file) == language


def test_suffixes_are_matched_case_insensitively() -> None:
    assert SPEC.language_of(Path("/w/A.X")) == "x"
    assert SPEC.language_of(Path("/w/x")) is None
