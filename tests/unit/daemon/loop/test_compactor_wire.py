"""Full compaction through the real SDKs, against model servers that check what comes in and misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.context.summaries import summary_text
from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.model.events import ModelRetry
from daemon.provider.models import ProviderModels
from tests.support.drivers.core import check_record, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Json, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.fakes.tool_context import FakeDiagnostics
from tests.support.scenarios.model_requests import anthropic_env, openai_env

SUMMARY = {
    "current_work": "Reading files.",
    "requests_and_rulings": ["never touch vendor/"],
    "decisions": [],
    "findings": ["E42 comes from tabs"],
    "pending_actions": ["read the rest"],
}
SETTINGS = {"permission": {"*": "allow"}, "compact_at_tokens": 12_500, "keep_steps": 2}
Summaries = Callable[[int], Reply]
"""The answer to the n-th request for a summary, from 0."""


def is_question(request: Json) -> bool:
    """A request for a summary."""
    return "Summarize the work so far:" in json.dumps(request["messages"][-1])


class Model:
    """Reads one file a step, ``steps`` of them a turn, then says that it is done."""

    def __init__(self, steps: int, summaries: Summaries, *, counts: bool = False) -> None:
        """``counts``: the server itself does not count tokens."""
        self._steps = steps
        self._counts = counts
        self._summaries = summaries
        self._done = 0
        self.questions: list[Json] = []
        self.others: list[Json] = []

    def __call__(self, request: Json) -> Reply:
        if is_question(request) or "cannot be used as the summary" in json.dumps(request["messages"][-1]):
            self.questions.append(request)
            return self._summaries(len(self.questions) - 1)
        self.others.append(request)
        self._done += 1
        if self._done % (self._steps + 1) == 0:
            return Reply(text="Done.")
        counted = {"input_tokens": len(json.dumps(request)) // 4} if self._counts else None
        return Reply(
            text=f"Step {self._done}.",
            usage=counted,
            tool_calls=(Call("read", {"file_path": f"f{self._done}.txt"}, id=f"toolu_{self._done}"),),
        )


async def at_once(seconds: float) -> None:
    """No waiting between attempts."""


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[Daemon]:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    for number in range(40):
        (workspace / f"f{number}.txt").write_text(f"file {number}: some words\n" * 350)
    models = ProviderModels(sleep=at_once)
    core = Daemon(workspace, diagnostics=FakeDiagnostics(), models=models, state_folder=folder / "home")
    try:
        yield core
    finally:
        await core.close()
        await models.aclose()
    for trace_id in core.store.trace_ids():
        check_record(core.store, trace_id)


def session_of(core: Daemon, env: dict[str, str], model: str, **settings: Any) -> Session:
    session = core.new_session(model=model)
    session.policy.use(config=session.config.overlaid(SETTINGS | settings, "editor", "test"))
    session.policy.use(env=env)
    return session


def good(number: int) -> Reply:
    return Reply(text=f"```json\n{json.dumps(SUMMARY | {'current_work': f'summary {number}'})}\n```")


def texts(request: Json) -> str:
    return json.dumps(request["messages"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("model", "temperature"),
    [("claude-sonnet-4-6", 0.0), ("claude-sonnet-5-5", None), ("claude-opus-4-5", 0.0)],
)
async def test_anthropic_summary_request_hits_the_cache(
    tmp_path: Path, model: str, temperature: float | None
) -> None:
    served = Model(5, good)
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, anthropic_env(server), f"anthropic/{model}", thinking_tokens=2_000)
        assert (await session.prompt("Read all; never touch vendor/")).stop == "end_turn"
        assert not server.rejected
        (question,) = served.questions
        before = served.others[
            served.others.index(next(r for r in served.others if "compact_summary" in texts(r))) - 1
        ]
        assert question["max_tokens"] == 4_000
        assert question.get("temperature") == temperature
        assert question["tools"] == before["tools"]
        assert question["system"] == before["system"]
        asked = next(r for r in server.requests if r.json is question or r.json == question)
        assert asked.usage["cache_read_input_tokens"] > 5_000
        summary = next(m for m in session.state.messages if (c := m.compaction()) and c.kind == "summary")
        assert summary.text() == summary_text(SUMMARY | {"current_work": "summary 0"})
        assert summary.usage is not None
        assert summary.usage.cache_read == asked.usage["cache_read_input_tokens"]
        assert summary.cost
        assert session.state.trace.total_cost >= summary.cost
        assert "Read all; never touch vendor/" in texts(served.others[-1])


async def test_the_question_to_an_openai_model_through_litellm(tmp_path: Path) -> None:
    served = Model(5, good, counts=True)
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, openai_env(server), "openai/gpt-4.1")
        assert (await session.prompt("Read all")).stop == "end_turn"
        assert not server.rejected
        (question,) = served.questions
        assert question.get("max_tokens", question.get("max_completion_tokens")) == 4_000
        assert question["temperature"] == 0
        assert question["tools"] == served.others[0]["tools"]
        assert "summary 0" in texts(served.others[-1])


async def test_user_messages_survive_three_compactions_on_the_wire(tmp_path: Path) -> None:
    words = ["Mission: port it.\n   Keep   spaces. 修改 🙂", 'Rule: vendor/ stays <as> it "is".', "Use tabs."]
    served = Model(5, good)
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, anthropic_env(server), "anthropic/claude-sonnet-4-6")
        for text in words:
            assert (await session.prompt(text)).stop == "end_turn"
        assert not server.rejected
        assert len(served.questions) >= 3
        last = texts(served.others[-1])
        for text in words:
            assert last.count(json.dumps(text, ensure_ascii=False)[1:-1]) == 1
        newest = len(served.questions) - 1
        assert f"summary {newest}" in last
        assert f"summary {newest - 1}" not in last


async def test_invalid_summary_is_named_and_the_second_one_used(tmp_path: Path) -> None:
    served = Model(5, lambda n: good(n) if n else Reply(text="All fine, I go on."))
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, anthropic_env(server), "anthropic/claude-sonnet-4-6")
        assert (await session.prompt("Read all")).stop == "end_turn"
        assert not server.rejected
        first, second = served.questions
        assert "All fine, I go on." in texts(second)
        assert "no valid JSON object" in texts(second)
        assert len(second["messages"]) == len(first["messages"]) + 2
        assert "summary 1" in texts(served.others[-1])


@pytest.mark.parametrize(
    "bad",
    [
        Reply(status=500, error_message="broken"),
        Reply(status=529, error_type="overloaded_error", error_message="overloaded"),
        Reply(text='{"current_work": ', fault="truncate"),
        Reply(text="not a summary", fault="reset"),
        Reply(text="I would rather talk."),
        Reply(text=json.dumps(SUMMARY)[:60], stop_reason="max_tokens"),
        Reply(tool_calls=(Call("read", {"file_path": "f0.txt"}, id="toolu_x"),)),
        Reply(text=""),
        Reply(status=400, error_type="invalid_request_error", error_message="prompt is too long: 9 > 8"),
    ],
)
async def test_step_history_is_the_fallback_for_any_server_failure(tmp_path: Path, bad: Reply) -> None:
    served = Model(5, lambda n: bad)
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, anthropic_env(server), "anthropic/claude-sonnet-4-6")
        assert (await session.prompt("Read all; never touch vendor/")).stop == "end_turn"
        assert not server.rejected
        last = texts(served.others[-1])
        assert "[in progress] Read all; never touch vendor/" in last
        assert "→ read(f1.txt): " in last
        assert "Copied word for word" in last
        kinds = [c.kind for m in session.state.messages if (c := m.compaction())]
        assert kinds == ["request", "summary", "carried"]


async def test_a_server_that_fails_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    served = Model(5, lambda n: good(n) if n else Reply(status=500, error_message="broken"))
    retries: list[object] = []
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, anthropic_env(server), "anthropic/claude-sonnet-4-6")
        core.bus.subscribe(session.session_id, retries.append)
        assert (await session.prompt("Read all")).stop == "end_turn"
        assert "summary 1" in texts(served.others[-1])
        assert sum(isinstance(event, ModelRetry) for event in retries) == 1


async def test_cancel_closes_the_connection_and_stores_nothing(tmp_path: Path) -> None:
    hanging = replace(good(0), fault="hang", fault_after=4)
    served = Model(5, lambda n: good(n) if n else hanging)
    async with ModelServer(served) as server, running(tmp_path) as core:
        session = session_of(core, anthropic_env(server), "anthropic/claude-sonnet-4-6")
        task = prompted(session, "Read all")
        await until(lambda: len(served.questions) == 1, "the question")
        session.cancel()
        assert (await finish(task)).stop == "canceled"
        question = next(r for r in server.requests if is_question(r.json))
        async with asyncio.timeout(20):
            await question.client_left.wait()
        assert not any(m.compaction() for m in session.state.messages)
        assert (await session.prompt("go on")).stop == "end_turn"
        assert not server.rejected
        assert "summary 1" in texts(served.others[-1])


async def test_unexpected_overflow_is_answered_with_a_compaction(tmp_path: Path) -> None:
    """The model's real window is smaller than anybody told us."""

    def limited(request: Json) -> Reply:
        if len(texts(request)) > 38_000:
            message = f"prompt is too long: {len(texts(request))} tokens > 38000 maximum"
            return Reply(status=400, error_type="invalid_request_error", error_message=message)
        return served(request)

    served = Model(9, good)
    async with ModelServer(limited) as server, running(tmp_path) as core:
        session = session_of(
            core, anthropic_env(server), "anthropic/claude-sonnet-4-6", compact_at_tokens=100_000
        )
        assert (await session.prompt("Read all; never touch vendor/")).stop == "end_turn"
        assert not server.rejected
        last = texts(served.others[-1])
        assert "Read all; never touch vendor/" in last
        reasons = {c.reason for m in session.state.messages if (c := m.compaction())}
        assert reasons == {"overflow"}
        assert len(server.requests) < 40
