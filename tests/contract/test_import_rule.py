"""The one rule of the architecture: imports point right, ``lsp_bridge`` -> ``daemon`` -> ``tools``."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("anthropic", "boto3", "fastapi", "litellm", "mcp", "openai", "sqlalchemy", "tiktoken", "uvicorn")


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


def test_only_daemon_main_may_import_lsp_bridge() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rule = next(c for c in contracts if c.get("layers") == ["goalwright", "lsp_bridge", "daemon", "tools"])
    assert rule["ignore_imports"] == ["daemon.__main__ -> lsp_bridge.**"]
    assert not any(c.get("ignore_imports") for c in contracts if c is not rule)


LIGHT_OF_THE_API = ("daemon.api.lazy_server", "daemon.api.session_summary", "daemon.api.reader")
"""The rest of it is imported when somebody wants an API."""

MCP_SDK = (
    *(f"daemon.mcp.{name}" for name in ("lists", "sdk", "server_requests", "sign_in", "transports")),
    "lsp_bridge.cli.mcp_server.server",
)
"""Imported when a server is configured, or when we are one."""
LIGHT_OF_DATABASES = ("daemon.store.sql.replica",)
"""The others in its package are imported when a database is set."""


@pytest.mark.parametrize("package", ["tools", "daemon", "lsp_bridge"])
def test_package_import_loads_no_heavy_library_and_no_thread(package: str) -> None:
    code = (
        "import importlib, pkgutil, sys, threading\n"
        "package = importlib.import_module(sys.argv[1])\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        f"    api = module.name.startswith('daemon.api.') and module.name not in {LIGHT_OF_THE_API!r}\n"
        "    sql = module.name.startswith('daemon.store.sql.')\n"
        f"    sql = sql and module.name not in {LIGHT_OF_DATABASES!r}\n"
        f"    if not api and not sql and module.name not in {MCP_SDK!r}:\n"
        "        importlib.import_module(module.name)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        f"print(' '.join(sorted(set({HEAVY!r}) & set(sys.modules))))\n"
    )
    assert python(code, package).split() == []


def test_daemon_and_commands_need_no_module_that_windows_lacks() -> None:
    code = (
        "import sys\n"
        "for name in ('fcntl', 'grp', 'pty', 'pwd', 'resource', 'termios', 'tty'):\n"
        "    sys.modules[name] = None\n"
        "import daemon.core, lsp_bridge.server.listen, lsp_bridge.language_client.language_services\n"
        "import lsp_bridge.cli.doctor.command, lsp_bridge.cli.run.turn\n"
        "from tools.registry import builtin_tools\n"
        "print(*builtin_tools())\n"
    )
    assert {"bash", "edit"} <= set(python(code).split())


def test_no_module_uses_relative_imports() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for package in ("tools", "daemon", "lsp_bridge")
        for file in (ROOT / package).rglob("*.py")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if line.lstrip().startswith("from .")
    ]
    assert found == []
