"""The one rule of the architecture: imports point right, ``lsp_bridge`` -> ``daemon`` -> ``tools``."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPOSITION_ROOT = "daemon.__main__"
HEAVY = ("anthropic", "boto3", "fastapi", "litellm", "openai", "tiktoken", "uvicorn")


def modules(package: str) -> list[str]:
    """Names of a package's direct sub-packages and modules."""
    entries = [
        *ROOT.glob(f"{package}/*.py"),
        *(file.parent for file in ROOT.glob(f"{package}/*/__init__.py")),
    ]
    return sorted(f"{package}.{entry.stem}" for entry in entries if entry.name != "__init__.py")


def python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_package_imports_a_package_to_its_left() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rule_covers_every_module_of_the_daemon_but_the_composition_root() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    covered = {
        source
        for contract in contracts
        if "lsp_bridge" in contract.get("forbidden_modules", ())
        for source in contract["source_modules"]
    }
    missing = [name for name in modules("daemon") if name != COMPOSITION_ROOT and name not in covered]
    assert not missing, f"add to source_modules of the daemon's contract in pyproject.toml: {missing}"


LIGHT_OF_THE_API = ("daemon.api.door", "daemon.api.seen", "daemon.api.reader")
"""The rest of it is imported when somebody wants an API."""


@pytest.mark.parametrize("package", ["tools", "daemon", "lsp_bridge"])
def test_importing_a_package_loads_no_heavy_library_and_starts_nothing(package: str) -> None:
    code = (
        "import importlib, pkgutil, sys, threading\n"
        "package = importlib.import_module(sys.argv[1])\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        f"    if not module.name.startswith('daemon.api.') or module.name in {LIGHT_OF_THE_API!r}:\n"
        "        importlib.import_module(module.name)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        f"print(' '.join(sorted(set({HEAVY!r}) & set(sys.modules))))\n"
    )
    assert python(code, package).split() == []


def test_no_module_uses_relative_imports() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for package in ("tools", "daemon", "lsp_bridge")
        for file in (ROOT / package).rglob("*.py")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if line.lstrip().startswith("from .")
    ]
    assert found == []
