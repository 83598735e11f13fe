"""How each agent is started, told where the model is, and how its tools are called.

Only Goalwright and the floor are here for sure. The others are measured when they are installed; nothing of them is in
this repository. The names of their tools and settings are those of the versions that are named.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from daemon.store.files import FileTraceStore
from tests.evals.benchmarks.agents.workload import PROMPT, Call
from tests.support.fakes import model_replies

PEERS_FILE = Path(__file__).with_name("peers.toml")
_FLOOR = Path(__file__).with_name("floor_agent.py")
_KEY = "sk-ant-not-a-real-key"
_MODEL = "claude-sonnet-4-5"
_CODEX_MODEL = "gpt-5.5"
NO_VERDICT = "no_fresh_answer"
_CLOSED_PORT = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Agent:
    """A program, and what is particular about it."""

    name: str
    command: tuple[str, ...]
    """The program, found on PATH, and its arguments before all others."""
    arguments: Callable[[], Sequence[str]]
    """The rest of the command line that does the task."""
    tool: Callable[[Call, Path], model_replies.Call]
    """A call in the agent's words. The path is that of the repository."""
    env: Callable[[str], Mapping[str, str]]
    """Its variables, for the base URL of the model server."""
    prepare: Callable[[Path, str], None] = lambda home, url: None
    """Writes its settings into a home, for the base URL of the model server."""
    beside: tuple[model_replies.Call, ...] = ()
    """Calls that the model makes beside the first one of the work."""
    unjudged: Callable[[Path], int | None] = lambda repository: None
    """How many edits of its last session have no fresh verdict of a language server. None: it has no servers."""


def goalwright(program: Path, *, diagnostics: bool, goal: str = "", **settings: Any) -> Agent:
    """Goalwright as it is shipped, or without language servers. ``goal``: one to work on; ``settings``: others than
    those that are shipped."""
    if not diagnostics:
        settings["diagnostics"] = False

    def prepare(home: Path, url: str) -> None:
        if settings:
            _write(home / ".goalwright" / "config.json", json.dumps(settings))

    return Agent(
        "Goalwright",
        (str(program),),
        # An unattended run would end after 200 model calls.
        lambda: ("run", "--yes", "--max-steps", "0", "--max-usd", "0", PROMPT),
        lambda call, root: _named(call, "read", "edit", "file_path", "old_string", "new_string"),
        # So that no Ollama that runs here is found by chance.
        lambda url: _anthropic(url) | {"OLLAMA_HOST": _CLOSED_PORT},
        prepare,
        (model_replies.Call("goal", {"add": goal, "focus": "1"}),) if goal else (),
        _unjudged if diagnostics else lambda repository: None,
    )


def _unjudged(repository: Path) -> int:
    """Count the stored results of the newest session that say so."""
    with contextlib.closing(FileTraceStore(repository / ".trace")) as store:
        messages = store.messages(max(store.trace_ids()))
    results = (message.tool_result() for message in messages)
    return sum(result is not None and result.metadata.get("verdict") == NO_VERDICT for result in results)


def floor() -> Agent:
    """The agent of ``floor_agent.py``."""
    return Agent(
        "floor",
        (sys.executable, str(_FLOOR)),
        lambda: (PROMPT,),
        lambda call, root: _named(call, "read", "edit", "path", "old", "new"),
        _anthropic,
    )


def _pi(command: tuple[str, ...]) -> Agent:
    """pi 0.73, over Anthropic Messages."""

    def tool(call: Call, root: Path) -> model_replies.Call:
        if call.kind == "read":
            return model_replies.Call("read", {"path": call.path})
        edits = [{"oldText": call.old, "newText": call.new}]
        return model_replies.Call("edit", {"path": call.path, "edits": edits})

    def prepare(home: Path, url: str) -> None:
        providers = {"anthropic": {"baseUrl": url}}
        _write(home / ".pi" / "agent" / "models.json", json.dumps({"providers": providers}))

    arguments = ("--print", "--provider", "anthropic", "--model", _MODEL, PROMPT)
    return Agent("pi", command, lambda: arguments, tool, _anthropic, prepare)


def _codex(command: tuple[str, ...]) -> Agent:
    """codex 0.171, over OpenAI's responses. It reads with a shell command, and edits with its own form of patch."""

    def tool(call: Call, root: Path) -> model_replies.Call:
        if call.kind == "read":
            return model_replies.Call("exec_command", {"cmd": f"cat {call.path}"})
        lines = ("*** Begin Patch", f"*** Update File: {call.path}", "@@", f"-{call.old}", f"+{call.new}")
        return model_replies.Call("apply_patch", "\n".join((*lines, "*** End Patch", "")), custom=True)

    def prepare(home: Path, url: str) -> None:
        settings = (
            f'model = "{_CODEX_MODEL}"\nmodel_provider = "bench"\n[model_providers.bench]\nname = "bench"\n'
            f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
        )
        _write(home / ".codex" / "config.toml", settings)

    arguments = ("exec", "--sandbox", "workspace-write", PROMPT)
    return Agent("codex", command, lambda: arguments, tool, lambda url: {"OPENAI_API_KEY": _KEY}, prepare)


def _opencode(command: tuple[str, ...]) -> Agent:
    """opencode 1.18, over Anthropic Messages."""

    def env(url: str) -> Mapping[str, str]:
        options = {"baseURL": f"{url}/v1", "apiKey": _KEY}
        provider = {"anthropic": {"options": options}}
        settings = {"model": f"anthropic/{_MODEL}", "provider": provider, "autoupdate": False}
        # What it would fetch from the network first is not the subject.
        return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    return Agent(
        "opencode",
        command,
        lambda: ("run", PROMPT),
        lambda call, root: _named(call, "read", "edit", "filePath", "oldString", "newString", root),
        env,
    )


def _claude_code(command: tuple[str, ...]) -> Agent:
    """Claude Code 2.1, over Anthropic Messages."""
    return Agent(
        "claude-code",
        command,
        lambda: ("--print", "--permission-mode", "acceptEdits", "--model", _MODEL, PROMPT),
        lambda call, root: _named(call, "Read", "Edit", "file_path", "old_string", "new_string", root),
        lambda url: _anthropic(url) | {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    )


_PEERS: Mapping[str, Callable[[tuple[str, ...]], Agent]] = {
    "pi": _pi,
    "codex": _codex,
    "opencode": _opencode,
    "claude-code": _claude_code,
}


def peers(file: Path = PEERS_FILE) -> list[Agent]:
    """The agents that a configuration file names. Raises ValueError, in words, when it cannot be understood."""
    try:
        named = tomllib.loads(file.read_text("utf-8")).get("peers", {})
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read {file}: {error}") from error
    found: list[Agent] = []
    for name, command in named.items():
        if name not in _PEERS:
            raise ValueError(f"{file}: no agent {name!r} is known; known are {', '.join(_PEERS)}")
        parts = cast("list[Any]", command) if isinstance(command, list) else []
        if not parts or not all(isinstance(part, str) for part in parts):
            raise ValueError(
                f'{file}: the command of {name} must be a list of texts, for instance ["{name}"]'
            )
        found.append(_PEERS[name](tuple(parts)))
    return found


def _anthropic(url: str) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": _KEY, "ANTHROPIC_BASE_URL": url}


def _named(
    call: Call, read: str, edit: str, path: str, old: str, new: str, root: Path | None = None
) -> model_replies.Call:
    """A call whose arguments have these names. With ``root`` its path is absolute."""
    where = call.path if root is None else str(root / call.path)
    if call.kind == "read":
        return model_replies.Call(read, {path: where})
    return model_replies.Call(edit, {path: where, old: call.old, new: call.new})


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True)
    file.write_text(text)
