"""The language servers of TypeScript and JavaScript.

TypeScript 7 speaks LSP itself (``tsc --lsp --stdio``; before it was published as 7, ``tsgo``); older ones need
typescript-language-server around their tsserver. A project has one or the other.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from lsp_bridge.language_client.specs.server_spec import (
    Ask,
    Command,
    ServerSpec,
    Setup,
    SetupContext,
    Unusable,
    languages,
)
from tools.files.regular_files import read_regular
from tools.json_access import mapping, mappings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILES = languages(
    ("typescript", ".ts .mts .cts"),
    ("typescriptreact", ".tsx"),
    ("javascript", ".js .mjs .cjs"),
    ("javascriptreact", ".jsx"),
)
_ROOTS = ("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb")
"""Where packages, TypeScript among them, are installed. Which tsconfig.json a file belongs to is found by the servers
themselves, so that one of them serves all packages of a repository."""
_MAX_MANIFEST = 1_000_000
"""Bytes of a package.json."""
_PREFERENCES = {"disableAutomaticTypeAcquisition": True}
_NATIVE = 7
"""The first version without tsserver."""


def _typescript_7(place: SetupContext) -> Setup | Unusable:
    if place.executable.stem == "tsc":
        own = _version_beside(place.executable)
        if own is None or own < _NATIVE:
            return Unusable(f"{place.executable} is not TypeScript {_NATIVE} or newer")
    project = _projects_own(place)
    if project is not None and project[1] < _NATIVE:
        return Unusable(f"the project has TypeScript {project[1]}")
    section = {"tsserver": {"automaticTypeAcquisition": {"enabled": False}}, **_PREFERENCES}
    sections = {name: section for name in ("typescript", "javascript", "js/ts")}
    # Without these settings the server would download types without asking.
    return Setup(settings=sections, initialization_options=dict(_PREFERENCES))


def _language_server(place: SetupContext) -> Setup | Unusable:
    server = _tsserver(place)
    if server is None:
        # Without our path it would run the workspace's node_modules/typescript.
        return Unusable(
            "typescript-language-server needs TypeScript 5 or 6 beside it: "
            "npm install -g typescript-language-server typescript@5",
            untrusted=not place.project.trusted
            and (project := _projects_own(place)) is not None
            and project[1] < _NATIVE,
        )
    return Setup(
        initialization_options={
            "hostInfo": "goalwright",
            "disableAutomaticTypingAcquisition": True,
            # One process instead of two, because no user types here and waits for an outline.
            "tsserver": {"path": str(server), "useSyntaxServer": "never"},
        }
    )


def _tsserver(place: SetupContext) -> Path | None:
    """Return the project's tsserver, if it may be run, or the one installed beside typescript-language-server."""
    project = _projects_own(place)
    if place.project.trusted and project is not None and project[1] < _NATIVE:
        script = project[0] / "lib" / "tsserver.js"
        if script.is_file():
            return script
    for parent in _real(place.executable).parents:
        if parent.name == "node_modules":
            script = parent / "typescript" / "lib" / "tsserver.js"
            if script.is_file() and (place.project.trusted or not place.project.brought(script.resolve())):
                return script
    return None


def _projects_own(place: SetupContext) -> tuple[Path, int] | None:
    """Return the TypeScript that the project has installed, and its major version. It is only read."""
    for folder in place.project.folders:
        package = folder / "node_modules" / "typescript"
        if (version := _major(package)) is not None:
            return package, version
    return None


def _version_beside(program: Path) -> int | None:
    """Return the major version of the TypeScript that ``program`` belongs to."""
    for parent in _real(program).parents:
        if parent.name == "node_modules":
            break
        if (version := _major(parent)) is not None:
            return version
    # npm's replacement for links on Windows.
    for package in (
        program.parent / "node_modules" / "typescript",
        program.parent.parent / "typescript",
    ):
        if (version := _major(package)) is not None:
            return version
    return None


def _real(program: Path) -> Path:
    try:
        return program.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return program


def _major(package: Path) -> int | None:
    """Return the major version of the TypeScript in the folder ``package``; None when it is none."""
    try:
        manifest: object = json.loads(read_regular(package / "package.json", _MAX_MANIFEST, follow=True))
    except (OSError, ValueError, RecursionError):
        return None
    fields = mapping(manifest)
    number = str(fields.get("version")).partition(".")[0]
    return int(number) if fields.get("name") == "typescript" and re.fullmatch("[0-9]+", number) else None


_PULL = "textDocument/diagnostic"
_KINDS = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync")
_SEVERITIES = {"error": 1, "warning": 2, "message": 3, "suggestion": 4}


def pulled_from_tsserver(ask: Ask) -> Ask:
    """Return ``ask`` with ``textDocument/diagnostic`` translated; raises what ``ask`` raises."""

    async def through(method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        if method != _PULL:
            return await ask(method, params, timeout_s)
        file = params["textDocument"]["uri"]
        answers = await asyncio.gather(
            *(
                ask(
                    "workspace/executeCommand",
                    {"command": "typescript.tsserverRequest", "arguments": [kind, {"file": file}]},
                    timeout_s,
                )
                for kind in _KINDS
            )
        )
        return _report(answers)

    return through


def _report(answers: list[Any]) -> Mapping[str, Any]:
    """Return a full report; one without items (which is invalid) when some answer is malformed."""
    items: list[Mapping[str, Any]] = []
    for answer in answers:
        fields = mapping(answer)
        if fields.get("success") is not True or not isinstance(fields.get("body"), list):
            return {}
        items += [_diagnostic(item) for item in mappings(fields["body"]) if _has_place(item)]
    return {"kind": "full", "items": items}


def _has_place(item: Mapping[str, Any]) -> bool:
    ends = mapping(item.get("start")), mapping(item.get("end"))
    return all(isinstance(end.get(key), int) for end in ends for key in ("line", "offset"))


def _diagnostic(item: Mapping[str, Any]) -> dict[str, Any]:
    """LSP's form; tsserver counts lines and UTF-16 units from 1."""
    start, end = (
        {"line": max(0, place["line"] - 1), "character": max(0, place["offset"] - 1)}
        for place in (item["start"], item["end"])
    )
    diagnostic: dict[str, Any] = {
        "range": {"start": start, "end": end},
        "severity": _SEVERITIES.get(str(item.get("category")), 1),
        "source": item.get("source") or "typescript",
        "message": str(item.get("text", "")),
    }
    if item.get("code") is not None:
        diagnostic["code"] = item["code"]
    return diagnostic


TYPESCRIPT: tuple[ServerSpec, ...] = (
    ServerSpec(
        name="typescript-7",
        title="TypeScript, JavaScript",
        languages=_FILES,
        commands=(
            Command("typescript-7", ("tsc", "--lsp", "--stdio")),
            Command("tsgo", ("tsgo", "--lsp", "--stdio"), version=("tsgo", "--version")),
        ),
        configure=_typescript_7,
        roots=_ROOTS,
        install=("npm install -g typescript@7",),
    ),
    ServerSpec(
        name="typescript-language-server",
        title="TypeScript, JavaScript",
        languages=_FILES,
        commands=(Command("typescript-language-server", ("typescript-language-server", "--stdio")),),
        configure=_language_server,
        roots=_ROOTS,
        pull_through=pulled_from_tsserver,
        yields_to=("typescript-7",),
        install=("npm install -g typescript-language-server typescript@5",),
    ),
)
