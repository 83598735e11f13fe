"""A folder whose files are looked after by servers that answer what a test wrote down, and the port under test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lsp_bridge.language_client.navigation.server_navigation import AskingTiming, ServerNavigation
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from lsp_bridge.language_client.specs.server_spec import Command, ServerSpec
from tests.support.scenarios.language_workspace import SOON
from tools.language_ports import Position

SERVER = Path(__file__).parents[1] / "programs" / "answering_server.py"
PATIENT = AskingTiming(cold_s=30.0, warm_s=30.0, again_s=0.01, begun_s=0.0)
ALL = {
    name: True
    for name in (
        "definitionProvider", "declarationProvider", "typeDefinitionProvider", "implementationProvider",
        "referencesProvider", "documentSymbolProvider", "workspaceSymbolProvider", "hoverProvider", "renameProvider",
    )
}  # fmt: skip


class Navigated:
    """A folder with two files, a server that plays ``answers``, and the port."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.a, self.b = self.root / "a.txt", self.root / "b.txt"
        self.a.write_bytes("one = '😀é'; two\nthree\n".encode())
        self.b.write_bytes(b"three\nthree\n")
        self.buffers: dict[Path, str] = {}
        self.names: list[str] = []
        self.servers: LanguageServers | None = None
        self.specs: list[ServerSpec] = []

    def serve(
        self, answers: dict[str, list[Any]], name: str = "fake", startup_s: float = 0, **capabilities: Any
    ) -> None:
        plan = {"capabilities": capabilities or ALL, "answers": answers, "startup_s": startup_s}
        file = self.root.parent / f"{self.root.name}-{name}.json"
        file.write_text(json.dumps(plan), encoding="utf-8")
        argv = (sys.executable, str(SERVER), "--answers", str(file), "--log", str(file.with_suffix(".log")))
        self.specs.append(ServerSpec(name=name, languages={".txt": "plain"}, commands=(Command(name, argv),)))

    def port(self, timing: AskingTiming = PATIENT) -> ServerNavigation:
        choice = ServerChoice(tuple(self.specs), SOON)
        self.servers = LanguageServers(self.root, lambda: choice)
        return ServerNavigation(self.servers, self.buffers.get, lambda: list(self.buffers), timing=timing)

    def sent(self, method: str, name: str = "fake") -> list[dict[str, Any]]:
        log = (self.root.parent / f"{self.root.name}-{name}.log").read_text(encoding="utf-8")
        messages = [json.loads(line) for line in log.splitlines()]
        return [message["params"] for message in messages if message.get("method") == method]

    def at(self, line: int, column: int) -> Position:
        return Position(self.a, line, column)


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def location(path: Path, line: int, start: int, end: int) -> dict[str, Any]:
    return {"uri": path.as_uri(), "range": span(line, start, end)}


def edit(path: Path, *pieces: tuple[int, int, int, str]) -> dict[str, Any]:
    edits = [{"range": span(line, start, end), "newText": text} for line, start, end, text in pieces]
    return {"textDocument": {"uri": path.as_uri(), "version": None}, "edits": edits}
