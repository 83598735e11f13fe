from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from daemon.context.check_command import find_test_command

PYTHON = "python" if os.name == "nt" else "python3"


def project(root: Path, **files: str | None) -> Path:
    """Files by name, with ``__`` for ``/`` and ``_dot_`` for ``.``; None: a program."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or "#!/bin/sh\n")
        if text is None:
            path.chmod(0o755)
    return root


UNITTEST = "import unittest\n\nclass A(unittest.TestCase):\n    pass\n"


def package(test: str | None, **more: str) -> str:
    return json.dumps({"name": "x", **more, "scripts": {} if test is None else {"test": test}})


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, None),
        ({"README_dot_md": "tests"}, None),
        ({"pyproject_dot_toml": "[tool.pytest.ini_options]\n"}, f"{PYTHON} -m pytest -q"),
        ({"pyproject_dot_toml": "[project]\nname='x'\n"}, None),
        ({"pytest_dot_ini": "[pytest]\n"}, f"{PYTHON} -m pytest -q"),
        ({"setup_dot_cfg": "[tool:pytest]\n"}, f"{PYTHON} -m pytest -q"),
        ({"tox_dot_ini": "[pytest]\n"}, f"{PYTHON} -m pytest -q"),
        # Tests say by what they are written for how they are run; nothing is guessed.
        ({"tests__test_a_dot_py": ""}, None),
        ({"tests__test_a_dot_py": "import os\nimport pytest\n"}, f"{PYTHON} -m pytest -q"),
        ({"tests__unit__test_a_dot_py": "def test_it():\n    pass\n"}, f"{PYTHON} -m pytest -q"),
        ({"tests__test_a_dot_py": UNITTEST}, f"{PYTHON} -m unittest discover -s tests"),
        ({"setup_dot_py": "", "test_a_dot_py": UNITTEST}, f"{PYTHON} -m unittest discover"),
        ({"tests__test_a_dot_py": UNITTEST, "conftest_dot_py": ""}, f"{PYTHON} -m pytest -q"),
        (
            {"tests__test_a_dot_py": UNITTEST, "requirements-dev_dot_txt": "pytest>=8\n"},
            f"{PYTHON} -m pytest -q",
        ),
        (
            {
                "tests__test_a_dot_py": UNITTEST,
                "pyproject_dot_toml": "[project]\nname='x'\ndependencies=['pytest-x']",
            },
            f"{PYTHON} -m unittest discover -s tests",
        ),
        ({"tests__a_dot_js": ""}, None),
        ({"setup_dot_py": "", "test_a_dot_py": "class TestA:\n    pass\n"}, f"{PYTHON} -m pytest -q"),
        ({"pytest_dot_ini": "", "_dot_venv__bin__python": None}, ".venv/bin/python -m pytest -q"),
        (
            {"tests__test_a_dot_py": UNITTEST, "venv__bin__python": None},
            "venv/bin/python -m unittest discover -s tests",
        ),
        (
            {
                "tests__test_a_dot_py": "",
                "_dot_venv__bin__python": None,
                "_dot_venv__lib__python3.12__site-packages__pytest____init__": "",
            },
            ".venv/bin/python -m pytest -q",
        ),
        ({"package_dot_json": package("vitest run")}, "npm test"),
        ({"package_dot_json": package("jest"), "pnpm-lock_dot_yaml": ""}, "pnpm test"),
        ({"package_dot_json": package("jest"), "yarn_dot_lock": ""}, "yarn test"),
        ({"package_dot_json": package("jest"), "bun_dot_lock": ""}, "bun run test"),
        ({"package_dot_json": package("jest"), "package-lock_dot_json": "{}"}, "npm test"),
        ({"package_dot_json": package("jest", packageManager="pnpm@9.1.0")}, "pnpm test"),
        ({"package_dot_json": package('echo "Error: no test specified" && exit 1')}, None),
        ({"package_dot_json": package(None)}, None),
        ({"package_dot_json": package("  ")}, None),
        ({"package_dot_json": "{"}, None),
        ({"package_dot_json": "[]"}, None),
        ({"package_dot_json": '{"scripts": "x"}'}, None),
        ({"package_dot_json": '{"scripts": {"test": 7}}'}, None),
        ({"package_dot_json": "[" * 100_000}, None),
        ({"Cargo_dot_toml": "[package]\n"}, "cargo test"),
        ({"go_dot_mod": "module x\n"}, "go test ./..."),
        ({"Makefile": "all:\n\techo\ntest: all\n\ttrue\n"}, "make test"),
        ({"Makefile": "check:\n\ttrue\n"}, "make check"),
        ({"Makefile": "check:\n\ttrue\ntest:\n\ttrue\n"}, "make test"),
        ({"Makefile": "test := 3\nall:\n\techo test: x\n"}, None),
        ({"GNUmakefile": "all:\n\ttrue\n", "Makefile": "test:\n\ttrue\n"}, None),
        ({"package_dot_json": package("jest"), "Makefile": "test:\n"}, "npm test"),
        ({"pytest_dot_ini": "", "package_dot_json": package("jest")}, f"{PYTHON} -m pytest -q"),
    ],
)
def test_the_project_says_how_it_is_tested(
    tmp_path: Path, files: dict[str, str | None], command: str | None
) -> None:
    assert find_test_command(project(tmp_path, **files)) == command


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("package.json", "pyproject.toml", "Makefile"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "go.mod").write_text("module x\n")
    assert find_test_command(tmp_path) == "go test ./..."


def test_a_folder_that_is_not_there_has_no_command(tmp_path: Path) -> None:
    assert find_test_command(tmp_path / "no") is None


def test_the_sample_workspace_is_tested_as_its_read_me_says(tmp_path: Path) -> None:
    from daemon.demo import copy_workspace

    copy_workspace(tmp_path / "shop")
    command = find_test_command(tmp_path / "shop")
    assert command
    assert command == f"{PYTHON} -m unittest discover"
    ran = subprocess.run(
        command.split(),
        cwd=tmp_path / "shop",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Ran 3 tests" in ran.stderr, ran.stderr
