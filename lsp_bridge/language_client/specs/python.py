"""The language servers of Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.specs.server_spec import (
    VENVS,
    Command,
    ServerSpec,
    Setup,
    SetupContext,
    languages,
)

if TYPE_CHECKING:
    from pathlib import Path

_FILES = languages(("python", ".py .pyi .pyw"))
_ROOTS = ("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "requirements.txt")


def _pyright(place: SetupContext) -> Setup:
    python = _interpreter(place) if place.project.trusted else None
    analysis: dict[str, Any] = {
        # Basedpyright's own default, "recommended", reports style as errors. The project's configuration
        # file still wins over this.
        "typeCheckingMode": "standard",
        "diagnosticMode": "openFilesOnly",
        "autoSearchPaths": True,
        "useLibraryCodeForTypes": True,
        # With an interpreter the server finds the packages itself.
        "extraPaths": [] if python else [str(folder) for folder in _site_packages(place)],
        # Never let the server rewrite the project's baseline file on save.
        "baselineMode": "discard",
    }
    python = python or place.which("python3") or place.which("python") or sys.executable
    settings = {
        # Set explicitly, because basedpyright otherwise executes the workspace's .venv/bin/python.
        "python": {"pythonPath": python, "analysis": analysis},
        "basedpyright": {"analysis": analysis, "disableOrganizeImports": True},
        "pyright": {"disableOrganizeImports": True},
    }
    return Setup(settings=settings)


def _interpreter(place: SetupContext) -> str | None:
    """Return the interpreter of the project's own environment."""
    for environment in _environments(place):
        for name in ("bin/python", "Scripts/python.exe"):
            if (environment / name).exists():
                return str(environment / name)
    return None


def _site_packages(place: SetupContext) -> list[Path]:
    """Return where the project's packages are, found by looking only; no interpreter is asked."""
    folders: list[Path] = []
    for environment in _environments(place):
        folders += sorted(environment.glob("lib/python3*/site-packages"))
        folders += sorted(environment.glob("Lib/site-packages"))
    return folders


def _environments(place: SetupContext) -> list[Path]:
    candidates = [folder / name for folder in place.project.folders for name in VENVS]
    return [folder for folder in candidates if (folder / "pyvenv.cfg").is_file()]


PYTHON: tuple[ServerSpec, ...] = (
    ServerSpec(
        name="pyright",
        title="Python",
        languages=_FILES,
        commands=(
            Command(
                "basedpyright", ("basedpyright-langserver", "--stdio"), version=("basedpyright", "--version")
            ),
            Command("pyright", ("pyright-langserver", "--stdio"), version=("pyright", "--version")),
        ),
        configure=_pyright,
        # Each pull is work that it announces, often after the answer: waiting for its end takes up to 300 ms.
        pulls_are_final=True,
        roots=("pyrightconfig.json", *_ROOTS),
        install=("pip install basedpyright", "npm install -g pyright", "brew install basedpyright"),
    ),
    # ruff finds the configuration of each file itself, so one server for all projects is enough.
    ServerSpec(
        name="ruff",
        title="Python",
        languages=_FILES,
        commands=(Command("ruff", ("ruff", "server"), version=("ruff", "--version")),),
        configure=Setup(initialization_options={"settings": {"logLevel": "error", "organizeImports": False}}),
        install=("pip install ruff", "brew install ruff"),
    ),
    ServerSpec(
        name="ty",
        title="Python",
        languages=_FILES,
        commands=(Command("ty", ("ty", "server"), version=("ty", "--version")),),
        # ty reads .venv itself and executes nothing in it.
        configure=Setup(settings={"ty": {"diagnosticMode": "openFilesOnly"}}),
        roots=("ty.toml", *_ROOTS),
        yields_to=("pyright",),
        joins_when_named=True,
        install=("pip install ty", "brew install ty"),
    ),
)
