"""Diagnostics of tsserver, asked for through typescript-language-server's own command.

That server only pushes, about no version, and *not at all* when a file without errors stays without errors (measured
with 6.0, where its ``FileDiagnostics`` drops empty after empty): the commonest change would get no answer. tsserver
itself answers requests in order, after the changes sent before, and ``typescript.tsserverRequest`` passes them on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from lsp_bridge.language.specs.base import Ask

_PULL = "textDocument/diagnostic"
_KINDS = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync")
_SEVERITIES = {"error": 1, "warning": 2, "message": 3, "suggestion": 4}


def pulled_from_tsserver(ask: Ask) -> Ask:
    """``ask`` with ``textDocument/diagnostic`` translated; raises what ``ask`` raises."""

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
    """A full report; one without items (which is none) when some answer is not what it should be."""
    items: list[Mapping[str, Any]] = []
    for answer in answers:
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        body = fields.get("body")
        if fields.get("success") is not True or not isinstance(body, list):
            return {}
        items += [_diagnostic(cast("dict[str, Any]", i)) for i in cast("list[object]", body) if _is_one(i)]
    return {"kind": "full", "items": items}


def _is_one(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    fields = cast("dict[str, Any]", item)
    places = [fields.get("start"), fields.get("end")]
    return all(
        isinstance(place, dict)
        and all(isinstance(cast("dict[str, Any]", place).get(key), int) for key in ("line", "offset"))
        for place in places
    )


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
