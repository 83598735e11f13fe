"""The model of the endurance run: for each session, the calls that its turns make, and answers of its children."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daemon.context.summaries import summary_fields
from tests.support.fakes.model_replies import ReplyLike

FILES = 10
CALLS = 10
"""Of a turn."""
_SUBTASK, _APPROACH = "SUBTASK", "APPROACH"
_BASH_EVERY, _TASK_EVERY, _EXPLORE_EVERY = 5, 40, 60
"""Turns, over all sessions."""


class Worker:
    """What one session still has to do. Its files are in a folder of its own, and it edits them in turn."""

    def __init__(self, number: int, workspace: Path) -> None:
        self.model = f"claude-worker-{number}"
        self.folder = f"s{number}"
        self.left: list[dict[str, Any]] = []
        """Calls of the turn under way."""
        self.at_work = asyncio.Lock()
        self._values = [0] * FILES
        self._next = 0
        (workspace / self.folder).mkdir()
        for file in range(FILES):
            lines = [f"line {line} of a file that is read and changed" for line in range(30)]
            (workspace / self._name(file)).write_text("\n".join([_line(0), *lines]) + "\n")

    def begin(self, turn: int) -> None:
        """A turn with number ``turn`` of all."""
        calls: list[dict[str, Any]] = []
        while len(calls) < CALLS - 2:
            file, self._next = self._next % FILES, self._next + 1
            name, value = self._name(file), self._values[file]
            self._values[file] += 1
            calls.append(_call("read", file_path=name))
            calls.append(_call("edit", file_path=name, old_string=_line(value), new_string=_line(value + 1)))
        calls.append(_call("grep", pattern="value = [0-9]+", path=self.folder))
        if turn % _EXPLORE_EVERY == _EXPLORE_EVERY - 1:
            directions = [f"{_APPROACH} one", f"{_APPROACH} two"]
            calls.append(_call("explore", branches=directions, background=f"Write {self.folder}/found.txt."))
            calls.append(_call("explore", select=["A"]))
        elif turn % _TASK_EVERY == _TASK_EVERY - 1:
            calls.append(_call("task", agent="general", prompt=f"{_SUBTASK}: look at {self.folder}."))
        elif turn % _BASH_EVERY == _BASH_EVERY - 1:
            calls.append(_call("bash", command=f"wc -l {self.folder}/*"))
        else:
            calls.append(_call("glob", pattern=f"{self.folder}/*"))
        self.left = calls

    def answer(self, request: dict[str, Any]) -> ReplyLike:
        """To a request of the session, or of one that works for it."""
        if not request.get("tools"):
            return {"text": json.dumps(dict(summary_fields("build")))}
        first = json.dumps(request["messages"])
        if _SUBTASK in first and '"task"' not in first:
            return self._child(request, [_call("ls", path=self.folder)], "It has ten files.")
        if _APPROACH in first and '"explore"' not in first:
            content = "found\n" * 20
            return self._child(
                request, [_call("write", file_path=f"{self.folder}/found.txt", content=content)], "Written."
            )
        if not self.left:
            return {"text": "All is done. " * 5}
        return {"text": "I go on with the next file. " * 3, "tool_calls": [self.left.pop(0)]}

    def _child(self, request: dict[str, Any], calls: Sequence[dict[str, Any]], report: str) -> ReplyLike:
        done = sum(message["role"] == "assistant" for message in request["messages"])
        return {"text": "I look.", "tool_calls": [calls[done]]} if done < len(calls) else {"text": report}

    def _name(self, file: int) -> str:
        return f"{self.folder}/part_{file}.endured"


def _line(value: int) -> str:
    # The language server finds a problem in lines with BAD.
    return f"value = {value}{' BAD' if value % 7 == 3 else ''};"


def _call(name: str, **given: Any) -> dict[str, Any]:
    return {"name": name, "input": given}
