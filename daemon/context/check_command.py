"""Find how a project is tested, as far as its files show. Reads a few files; runs nothing. Blocking."""

from __future__ import annotations

import itertools
import json
import os
import re
from typing import TYPE_CHECKING, Any

from tools.files.regular_files import open_regular
from tools.json_access import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MAX_READ = 1 << 20
_MAX_LISTED = 500
_PYTHON_FILES = (
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "pytest.ini",
    ".pytest.ini",
    "setup.py",
    "conftest.py",
)
_PYTEST_SETTINGS = {
    "pyproject.toml": re.compile(r"^\s*\[tool\.pytest\b", re.MULTILINE),
    "setup.cfg": re.compile(r"^\[tool:pytest\]", re.MULTILINE),
    "tox.ini": re.compile(r"^\[pytest\]", re.MULTILINE),
}
_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_PYTEST = re.compile(r"(?<![\w.-])pytest(?![\w-])")
_REQUIREMENTS = re.compile(r"[\w.-]*requirements[\w.-]*\.(?:txt|in)")
_IMPORTS_PYTEST = re.compile(r"^\s*(?:import|from)\s+pytest\b", re.MULTILINE)
_TEST_CASE = re.compile(r"\bTestCase\b|^\s*(?:import|from)\s+unittest\s*$", re.MULTILINE)
_TEST_FUNCTION = re.compile(r"^(?:async\s+)?def\s+test|^class\s+Test\w*\s*(?:\(\s*\)\s*)?:", re.MULTILINE)
_MAX_TESTS_READ = 20
_ENVIRONMENTS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")
_LOCKS = {
    "pnpm-lock.yaml": "pnpm test",
    "yarn.lock": "yarn test",
    "bun.lock": "bun run test",
    "bun.lockb": "bun run test",
    "package-lock.json": "npm test",
    "npm-shrinkwrap.json": "npm test",
}
_MANAGERS = {"pnpm": "pnpm test", "yarn": "yarn test", "bun": "bun run test", "npm": "npm test"}
_BY_FILE = {"Cargo.toml": "cargo test", "go.mod": "go test ./..."}
_NO_TEST = "no test specified"
"""The placeholder that ``npm init`` writes as test script."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = re.compile(r"^(test|check)[ \t]*::?(?!=)", re.MULTILINE)


def find_test_command(root: Path) -> str | None:
    """Return the command that tests the project in ``root``; None when its files do not name one."""
    by_file = (command for name, command in _BY_FILE.items() if (root / name).is_file())
    return _python(root) or _node(root) or next(by_file, None) or _make(root)


def _python(root: Path) -> str | None:
    known = {name: text for name in _PYTHON_FILES if (text := _text(root / name)) is not None}
    tests = [folder for folder in ("tests", "test") if _test_files(root / folder)]
    settings = any(name in known and mark.search(known[name]) for name, mark in _PYTEST_SETTINGS.items())
    pytest = settings or any(name in known for name in ("pytest.ini", ".pytest.ini", "conftest.py"))
    if not pytest and not tests and not (known and _test_files(root)):
        return None
    python = next((name for name in _ENVIRONMENTS if os.access(root / name, os.X_OK)), "")
    pytest = pytest or _names_pytest(root, known) or bool(python and _has_pytest(root / python))
    written = _written_for(root / tests[0] if tests else root)
    python = python or ("python" if os.name == "nt" else "python3")
    if pytest or written == "pytest":
        return f"{python} -m pytest -q"
    if written != "unittest":
        return None
    # A test package is discovered from above; without one, tests may import their neighbours directly.
    inside = tests and not (root / tests[0] / "__init__.py").is_file()
    return f"{python} -m unittest discover" + (f" -s {tests[0]}" if inside else "")


def _names_pytest(root: Path, known: Mapping[str, str]) -> bool:
    """Return whether the project's dependencies include pytest."""
    texts = [known.get(name, "") for name in ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini")]
    texts += [_text(root / name) or "" for name in _names(root) if _REQUIREMENTS.fullmatch(name)]
    return any(_PYTEST.search(text) for text in texts)


def _written_for(folder: Path) -> str:
    """Return ``pytest`` or ``unittest``, by the imports and style of the test files in a folder; empty when unclear."""
    found = ""
    for path in _test_files(folder)[:_MAX_TESTS_READ]:
        text = _text(path) or ""
        if _IMPORTS_PYTEST.search(text):
            return "pytest"
        if _TEST_CASE.search(text):
            found = "unittest"
        elif not found and _TEST_FUNCTION.search(text):
            found = "pytest"
    return found


def _test_files(folder: Path) -> list[Path]:
    names = _names(folder)
    files = [folder / name for name in names if _TEST_FILE.fullmatch(name)]
    if files or folder.name not in ("tests", "test"):
        return files
    return [
        folder / name / inner
        for name in names[:50]
        for inner in _names(folder / name)
        if _TEST_FILE.fullmatch(inner)
    ]


def _has_pytest(python: Path) -> bool:
    library = python.parent.parent
    folders = [library / "Lib" / "site-packages", *sorted(library.glob("lib/python*/site-packages"))[:5]]
    return any((folder / "pytest").is_dir() for folder in folders)


def _node(root: Path) -> str | None:
    text = _text(root / "package.json")
    if text is None:
        return None
    try:
        package: Any = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    known = mapping(package)
    test = mapping(known.get("scripts")).get("test")
    if not isinstance(test, str) or not test.strip() or _NO_TEST in test:
        return None
    manager = known.get("packageManager")
    if isinstance(manager, str) and (command := _MANAGERS.get(manager.partition("@")[0])):
        return command
    return next((command for name, command in _LOCKS.items() if (root / name).is_file()), "npm test")


def _make(root: Path) -> str | None:
    # If there are several makefiles, make reads the first.
    text = next((text for name in _MAKEFILES if (text := _text(root / name)) is not None), "")
    targets = [match[1] for match in _TARGET.finditer(text)]
    return f"make {'test' if 'test' in targets else 'check'}" if targets else None


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in itertools.islice(entries, _MAX_LISTED))
    except OSError:
        return []  # without a readable folder there are no tests to find


def _text(path: Path) -> str | None:
    """Return a regular file's text; None when there is none."""
    try:
        with open_regular(path, follow=True) as file:
            return file.read(_MAX_READ).decode("utf-8", "replace")
    except OSError:
        return None
