"""Models with small windows, through the real SDKs: servers shaped like llama.cpp, vLLM and Ollama."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.context.profiles import answer_tokens, profile_for, room
from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.model.events import Notice
from daemon.model.messages import FilePart
from daemon.provider.models import ProviderModels
from tests.support.drivers.core import check_record
from tests.support.drivers.waiting import until
from tests.support.fakes.local_servers import Kind, LocalServer
from tests.support.fakes.model_replies import Call, Json, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.fakes.tool_context import FakeDiagnostics
from tests.support.scenarios.model_requests import anthropic_env, ollama_env, openai_env

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]

WINDOW = 12_288
ALLOW = {"permission": {"*": "allow"}}
SUMMARY = json.dumps(
    {
        "current_work": "Reading files.",
        "requests_and_rulings": [],
        "decisions": [],
        "findings": [],
        "pending_actions": [],
    }
)


@pytest.mark.parametrize("window", [1_024, 4_096, 8_192, WINDOW, 16_384, 32_768, 128_000, 200_000, 1_000_000])
@pytest.mark.parametrize("max_tokens", [256, 1_024, 16_000, 1_000_000])
def test_answer_and_trigger_follow_the_window(window: int, max_tokens: int) -> None:
    answer = answer_tokens(window, max_tokens)
    profile = profile_for("build", window, max_tokens=max_tokens)
    assert 0 < answer <= min(max_tokens, window // 4)
    assert answer + room(window, max_tokens) == window
    assert profile.compact_at + answer <= window
    assert profile.compact_at >= window * 0.7 - 1


def test_a_window_of_12_288_is_not_compacted_at_3_072() -> None:
    assert profile_for("build", WINDOW, max_tokens=16_000).compact_at == 9_216


class Reader:
    """A model that reads ``steps`` files and then says so; asked for a summary, it gives one."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._read = 0

    def __call__(self, request: Json) -> Reply:
        if "Summarize the work so far:" in json.dumps(request["messages"][-1]):
            return Reply(text=SUMMARY)
        self._read += 1
        if self._read > self._steps:
            return Reply(text="Done.")
        call = Call("read", {"file_path": f"f{self._read}.txt"}, id=f"toolu_{self._read}")
        return Reply(text=f"Step {self._read}.", tool_calls=(call,))


async def at_once(seconds: float) -> None:
    """No waiting between attempts."""


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[tuple[Daemon, ProviderModels]]:
    workspace = folder / "workspace"
    workspace.mkdir()
    for number in range(40):
        (workspace / f"f{number}.txt").write_text(f"file {number}: some words\n" * 100)
    models = ProviderModels(sleep=at_once)
    core = Daemon(workspace, diagnostics=FakeDiagnostics(), models=models, state_folder=folder / "home")
    try:
        yield core, models
    finally:
        await core.close()
        await models.aclose()
    for trace_id in core.store.trace_ids():
        check_record(core.store, trace_id)


def session_of(core: Daemon, server: ModelServer, model: str, **settings: Any) -> Session:
    session = core.new_session(model=model)
    session.policy.use(config=session.config.overlaid(ALLOW | settings, "editor", "test"))
    session.policy.use(env=anthropic_env(server) | openai_env(server) | ollama_env(server))
    return session


def notices(core: Daemon, session: Session) -> list[str]:
    events = core.store.events(session.session_id)
    return [event.text for event in events if isinstance(event, Notice)]


@pytest.mark.parametrize(("kind", "model"), [("llama.cpp", "openai/any"), ("anthropic", "anthropic/any")])
async def test_the_limit_in_an_error_is_remembered(tmp_path: Path, kind: Kind, model: str) -> None:
    local = LocalServer(kind, WINDOW, tells=False)
    async with ModelServer(Reader(30), local=local) as server, running(tmp_path) as (core, _):
        session = session_of(core, server, model)
        assert (await session.prompt("read all of them")).stop == "end_turn"
        refused = [at for at, sent in enumerate(server.requests) if sent.status == 400]
        assert len(refused) == 1
        asked = server.requests[refused[0] + 1].json
        # What follows a refusal is shorter than what was refused, and everything fits from then on.
        assert local.tokens(asked) < local.tokens(server.requests[refused[0]].json)
        for sent in server.requests[refused[0] + 1 :]:
            assert local.tokens(sent.json) + sent.json["max_tokens"] <= WINDOW * 1.02
        compactions = [text for text in notices(core, session) if "was compacted from" in text]
        assert 1 <= len(compactions) <= 8


async def test_max_tokens_is_lowered_if_the_server_reserves_room(tmp_path: Path) -> None:
    local = LocalServer("vllm", WINDOW, tells=False)
    async with ModelServer(Reader(2), local=local) as server, running(tmp_path) as (core, _):
        session = session_of(core, server, "openai/any")
        assert (await session.prompt("read two")).stop == "end_turn"
        assert [sent.status for sent in server.requests] == [400, 200, 200, 200]
        assert [sent.json["max_tokens"] for sent in server.requests[:2]] == [16_000, 3_072]
        assert not [text for text in notices(core, session) if "compact" in text]


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
async def test_known_server_window_avoids_refusals(tmp_path: Path, kind: Kind) -> None:
    local = LocalServer(kind, WINDOW)
    async with ModelServer(Reader(30), local=local) as server, running(tmp_path) as (core, models):
        session = session_of(core, server, "openai/any")
        models.ask_window(session.model, session.env)
        await until(lambda: models.window(session.model, session.env) == WINDOW)
        assert (await session.prompt("read all of them")).stop == "end_turn"
        assert {sent.status for sent in server.requests} == {200}
        assert server.other == ["GET /v1/models"]
        compactions = [text for text in notices(core, session) if "was compacted from" in text]
        assert 1 <= len(compactions) <= 8


async def test_overflow_without_a_stated_limit_shrinks_the_request(tmp_path: Path) -> None:
    local = LocalServer("silent", WINDOW, tells=False)
    async with ModelServer(Reader(16), local=local) as server, running(tmp_path) as (core, _):
        session = session_of(core, server, "anthropic/any")
        assert (await session.prompt("read all of them")).stop == "end_turn"
        refused = [at for at, sent in enumerate(server.requests) if sent.status == 400]
        assert refused
        for at in refused:
            assert local.tokens(server.requests[at + 1].json) < local.tokens(server.requests[at].json)


async def test_ollama_loads_the_model_with_the_window_it_has(tmp_path: Path) -> None:
    local = LocalServer("ollama", 8_192)
    async with ModelServer(Reader(1), local=local) as server, running(tmp_path) as (core, models):
        session = session_of(core, server, "ollama/any")
        models.ask_window(session.model, session.env)
        await until(lambda: models.window(session.model, session.env) == 8_192)
        assert (await session.prompt("read one")).stop == "end_turn"
        options = [sent.json["options"] for sent in server.requests]
        assert [given["num_ctx"] for given in options] == [8_192, 8_192]
        assert all(given["num_predict"] <= 2_048 for given in options)


async def test_overlong_first_request_error_lists_its_parts(tmp_path: Path) -> None:
    local = LocalServer("llama.cpp", 3_072, tells=False)
    async with ModelServer(Reader(1), local=local) as server, running(tmp_path) as (core, _):
        (core.workspace / "AGENTS.md").write_text("Be kind to all files.\n" * 100)
        session = session_of(core, server, "anthropic/any")
        session.policy.use(trust="trusted")
        result = await session.prompt("hello")
        assert result.stop == "error"
        for words in ("the tools 3,", "the system prompt ", "AGENTS.md ", "your last message "):
            assert words in result.detail
        assert "a new session would not help" in result.detail
        assert "--ctx-size 12288" in result.detail
        assert not [text for text in notices(core, session) if "96,000" in text]


async def test_an_attachment_that_is_too_long_is_named(tmp_path: Path) -> None:
    import base64

    text = base64.b64encode(b"words " * 20_000).decode()
    local = LocalServer("anthropic", WINDOW, tells=False)
    async with ModelServer(Reader(1), local=local) as server, running(tmp_path) as (core, _):
        session = session_of(core, server, "anthropic/any")
        attached = FilePart(name="big.txt", media_type="text/plain", data=text)
        result = await session.prompt("look", (attached,))
        assert result.stop == "error"
        assert "Remove the attachment big.txt" in result.detail
        assert "new session" not in result.detail
