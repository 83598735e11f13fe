"""An editor whose extensions say what a test wants: it answers ``goalwright/editor/diagnostics``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from lsp_bridge.server.editor.editor_source import text_hash
from tests.support.drivers.waiting import until

Answer = Callable[["FakeEditor", dict[str, Any]], Awaitable[Any]]


def diagnostic(line: int, message: str, severity: int = 1, source: str = "looker") -> dict[str, Any]:
    """LSP's Diagnostic; ``line`` counts from 0."""
    place = {"line": line, "character": 0}
    return {
        "range": {"start": place, "end": place},
        "severity": severity,
        "message": message,
        "source": source,
    }


class FakeEditor:
    """Complains about each line with BAD in files of ``suffixes``; at once and truly, unless told otherwise."""

    def __init__(self, name: str = "VS Code", suffixes: tuple[str, ...] = (".bad",)) -> None:
        self.name = name
        self.suffixes = suffixes
        self.asked: list[dict[str, Any]] = []
        self.then: Answer | None = None
        """Makes the answer to questions about changes, instead of the truth."""
        self.others: list[dict[str, Any]] = []
        self.released = asyncio.Event()
        """For answers that wait until the test is over."""
        self._busy = 0
        self._generation = 0
        self._before: dict[str, list[dict[str, Any]]] = {}

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a request."""
        assert method == "goalwright/editor/diagnostics"
        question = dict(params)
        self.asked.append(question)
        if question["since"] is None or self.then is None:
            return self.truth(question)
        self._busy += 1
        try:
            return await self.then(self, question)
        finally:
            self._busy -= 1

    async def release(self) -> None:
        """Let every answer go, and wait until they have gone."""
        self.released.set()
        await until(lambda: self._busy == 0, "the last answers")

    def truth(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the diagnostics for the texts on disk."""
        self._generation += 1
        files = [self._file(file, question["since"] is not None) for file in question["files"]]
        others = self.others if question["since"] else []
        return {"generation": self._generation, "files": files, "others": others}

    def _file(self, file: Mapping[str, Any], change: bool) -> dict[str, Any]:
        uri: str = file["uri"]
        path = Path(uri.removeprefix("file://"))
        if path.suffix not in self.suffixes:
            return {"uri": uri, "freshness": "uncovered", "diagnostics": []}
        try:
            text = path.read_text()
            assert file["textHash"] == text_hash(text)
        except FileNotFoundError:
            text = ""
        found = [diagnostic(n, "BAD thing") for n, line in enumerate(text.splitlines()) if "BAD" in line]
        before = self._before.get(uri)
        self._before[uri] = found
        return {
            "uri": uri,
            "freshness": "fresh",
            "diagnostics": found,
            "before": before if change else None,
        }


async def never(editor: FakeEditor, question: dict[str, Any]) -> Any:
    """No answer, ever."""
    await asyncio.Event().wait()


async def pending(editor: FakeEditor, question: dict[str, Any]) -> Any:
    """Somebody looks, and has said nothing."""
    answer = editor.truth(question)
    return answer | {"files": [file | {"freshness": "pending"} for file in answer["files"]]}


async def refusing(editor: FakeEditor, question: dict[str, Any]) -> Any:
    """A JSON-RPC error."""
    raise RuntimeError("no such method")
