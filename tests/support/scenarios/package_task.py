"""A task on the source of a real package, for a scripted model behind the Anthropic wire.

The model plans, reads, and makes three edits. The second has a mistake that only somebody who knows the code
would see; the third is made only if the language server's complaint about it stands in the tool result that
came in with the request.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daemon.model.messages import ToolResultPart
from tests.support.drivers.goalwright import Finished, finished, installed
from tests.support.fakes.model_messages import prompt_messages
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer, Recorded

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Edit:
    """A call of the edit tool."""

    why: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PackageTask:
    """A task, and the model's way to do it."""

    prompt: str
    path: str
    """The file, relative to the workspace."""
    good: Edit
    wrong: Edit
    repair: Edit
    complaint: str
    """Regular expression for what the language server says about ``wrong``."""
    summary: str
    proof: str
    """Python statements that fail unless the change works."""
    import_from: str = "."
    """Folder of the workspace that the package is imported from."""

    def reply(self, request: Json) -> Reply:
        """The answer of the model; which one it is stands in the request."""
        results = _results(request)
        if self.summary in json.dumps(request):
            return Reply(
                text=self.summary
            )  # the plan says that it is done, whatever left the context with it
        if results and results[-1].is_error:
            return Reply(text=f"I give up: {results[-1].content}")
        if not results:
            return Reply(text="First the plan.", tool_calls=(_goal(add=self.prompt), _goal(focus="1")))
        if len(results) == 2:
            return Reply(
                text=f"Let me read {self.path}.", tool_calls=(Call("read", {"file_path": self.path}),)
            )
        return self._editing([result.content for result in results[3:]])

    def _editing(self, results: Sequence[str]) -> Reply:
        """Return the reply to these results of edits."""
        edits = (self.good, self.wrong, self.repair)
        if len(results) > len(edits):
            return Reply(text=self.summary)
        for edit, result in zip(edits, results, strict=False):
            if not (self.complains(result) if edit is self.wrong else "Diagnostics: clean" in result):
                return Reply(text=f"I give up; this is not what I expected of {edit.why!r}:\n{result}")
        if len(results) == len(edits):
            return Reply(text="Clean. The goal is reached.", tool_calls=(_goal(done=self.summary),))
        edit = edits[len(results)]
        values = {"file_path": self.path, "old_string": edit.old, "new_string": edit.new}
        return Reply(text=edit.why, tool_calls=(Call("edit", values),))

    def complains(self, result: str) -> bool:
        """Whether a tool result holds the complaint, as a diagnostic of the file."""
        block = re.search(
            rf'<diagnostics file="{re.escape(self.path)}">\n(.*?)</diagnostics>', result, re.DOTALL
        )
        return block is not None and re.search(self.complaint, block[1]) is not None


def _goal(**values: str) -> Call:
    return Call("goal", values)


def _results(request: Json) -> list[ToolResultPart]:
    messages = prompt_messages(request, "anthropic")
    return [part for m in messages for part in m.content if isinstance(part, ToolResultPart)]


@dataclass(frozen=True, slots=True)
class PlayedTask:
    """The outcome of a played task."""

    run: Finished
    before: str
    """The text of the task's file."""
    after: str
    diff: str
    """``git diff`` of the workspace."""
    requests: tuple[Recorded, ...]
    trace: Path
    """Folder of the session's trace."""
    events: tuple[Json, ...]
    """The whole log."""
    proof: Finished

    def delivered(self, task: PackageTask) -> tuple[int, Json] | None:
        """The request that brought the complaint to the model (its number, from 1), and its tool result block."""
        for number, request in enumerate(self.requests, 1):
            for block in request.json["messages"][-1]["content"]:
                if block["type"] == "tool_result" and task.complains(result_text(block)):
                    return number, block
        return None

    def events_of(self, tool_call_id: str) -> list[Json]:
        """The events that name a tool call, in order."""
        return [event for event in self.events if tool_call_id in json.dumps(event)]


async def play(task: PackageTask, workspace: Path) -> PlayedTask:
    """Put ``workspace`` under git, let the model work in it, and look at the result."""
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")
    git(workspace, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "as published")
    before = (workspace / task.path).read_text("utf-8")
    async with ModelServer(task.reply) as server, installed(workspace, server.url) as goalwright:
        # Language servers may take their time: a busy machine is slow, and what they say is tested.
        goalwright.configure(diagnostics_timeout_s=30)
        run = await goalwright.run(task.prompt, "--yes")
        trace = await asyncio.to_thread(_newest, workspace / ".trace")
        log = (trace / "events.jsonl").read_text("utf-8")
        imports = {"PYTHONPATH": str(workspace / task.import_from), "PYTHONDONTWRITEBYTECODE": "1"}
        proof = await finished([sys.executable, "-c", task.proof], imports, workspace.parent)
        return PlayedTask(
            run=run,
            before=before,
            after=(workspace / task.path).read_text("utf-8"),
            diff=git(workspace, "diff"),
            requests=tuple(server.requests),
            trace=trace,
            events=tuple(json.loads(line) for line in log.splitlines()),
            proof=proof,
        )


def result_text(block: Json) -> str:
    """The text of a tool result block of the wire."""
    content: str | list[Json] = block["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _newest(traces: Path) -> Path:
    return max(folder for folder in traces.iterdir() if folder.is_dir())


def git(folder: Path, *args: str) -> str:
    """Run git there; what it printed."""
    # No configuration of the developer's: it may sign commits, or run hooks.
    env = dict(os.environ) | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout
