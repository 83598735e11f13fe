"""Another model goes on when a server is overloaded: the real clients, against servers on both wires."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.model.events import MessageDiscarded, ModelRetry, Notice, SessionUpdated
from daemon.provider.models import ProviderModels
from daemon.provider.pricing import cost
from tests.support.drivers.core import check_record
from tests.support.fakes.model_replies import Call, Reply, ReplyLike
from tests.support.fakes.model_server import ModelServer
from tests.support.fakes.tool_context import FakeDiagnostics
from tests.support.scenarios.model_requests import anthropic_env, openai_env

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]

CLAUDE, GPT = "anthropic/claude-sonnet-4-6", "openai/gpt-4.1"
BUSY = Reply(status=529, error_type="overloaded_error", error_message="Overloaded")
LIMITED = Reply(
    status=429, error_type="rate_limit", error_message="slow down", headers={"retry-after": "300"}
)
READ = Reply(
    reasoning="I look.", text="First.", tool_calls=(Call("read", {"file_path": "a.txt"}, id="toolu_1"),)
)


async def at_once(seconds: float) -> None:
    """No waiting between attempts."""


@dataclass
class Bench:
    """A daemon, and a server for each wire."""

    core: Daemon
    claude: ModelServer
    gpt: ModelServer

    def session(self, model: str = CLAUDE, *, env: dict[str, str] | None = None, **settings: Any) -> Session:
        session = self.core.new_session(model=model)
        values = {"permission": {"*": "allow"}, "fallback_model": [GPT], **settings}
        session.policy.use(config=session.config.overlaid(values, "editor", "test"))
        session.policy.use(env=anthropic_env(self.claude) | openai_env(self.gpt) if env is None else env)
        return session

    def notices(self, session: Session) -> list[str]:
        return [event.text for event in self.events(session) if isinstance(event, Notice)]

    def events(self, session: Session) -> list[Any]:
        return list(self.core.store.events(session.session_id))


@asynccontextmanager
async def bench(
    folder: Path, claude: Sequence[ReplyLike] = (), gpt: Sequence[ReplyLike] = ()
) -> AsyncGenerator[Bench]:
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("words of a file\n")
    models = ProviderModels(sleep=at_once)
    core = Daemon(workspace, diagnostics=FakeDiagnostics(), models=models, state_folder=folder / "home")
    async with ModelServer(list(claude)) as first, ModelServer(list(gpt)) as second:
        try:
            yield Bench(core, first, second)
        finally:
            await core.close()
            await models.aclose()
        for trace_id in core.store.trace_ids():
            check_record(core.store, trace_id)


def answered_by(session: Session) -> list[str | None]:
    return [message.model for message in session.state.messages if message.role == "assistant"]


async def test_a_turn_goes_on_with_the_next_model(tmp_path: Path) -> None:
    async with bench(tmp_path, [READ, *[BUSY] * 3, Reply(text="Back.")], [Reply(text="Done.")]) as at:
        session = at.session(thinking_tokens=2_000)
        assert (await session.prompt("read a.txt")).stop == "end_turn"
        assert len(at.claude.requests) == 4, "three attempts"
        sent = at.gpt.requests[0].json["messages"]
        assert "words of a file" in json.dumps(sent)
        assert [call["id"] for one in sent for call in one.get("tool_calls", ())] == ["toolu_1"]
        assert "sig" not in json.dumps(sent), "thinking of another model is left out"
        (notice,) = at.notices(session)
        assert notice.startswith(f"{CLAUDE} is not available: 127.0.0.1:")
        assert notice.endswith(f"{GPT} goes on with this turn. The next turn tries {CLAUDE} again.")
        last = session.state.messages[-1]
        assert last.usage is not None
        assert last.cost == cost(GPT, last.usage)
        assert (await session.prompt("and now?")).stop == "end_turn"
        assert session.state.messages[-1].text() == "Back."
        assert answered_by(session) == ["claude-sonnet-4-6", "gpt-4.1", "claude-sonnet-4-6"]
        assert not at.claude.rejected
        assert not at.gpt.rejected


async def test_a_turn_goes_on_from_openai_to_anthropic(tmp_path: Path) -> None:
    busy = Reply(status=503, error_type="server_error", error_message="The engine is overloaded")
    then = Reply(
        reasoning="hm", text="More.", tool_calls=(Call("read", {"file_path": "a.txt"}, id="toolu_2"),)
    )
    async with bench(tmp_path, [then, Reply(text="Done.")], [READ, *[busy] * 3]) as at:
        session = at.session(GPT, fallback_model=CLAUDE, thinking_tokens=2_000)
        assert (await session.prompt("read a.txt")).stop == "end_turn"
        assert answered_by(session) == ["gpt-4.1", "claude-sonnet-4-6", "claude-sonnet-4-6"]
        assert len(at.gpt.requests) == 4, "the rest of the turn does not ask it again"
        assert not at.claude.rejected


async def test_half_an_answer_is_void(tmp_path: Path) -> None:
    half = Reply(text="half of it " * 20, fault="error_event", fault_after=6, error_type="overloaded_error")
    async with bench(tmp_path, [half] * 3, [Reply(text="Whole.")]) as at:
        session = at.session()
        assert (await session.prompt("go")).stop == "end_turn"
        assert [message.text() for message in session.state.messages] == ["go", "Whole."]
        kinds = [type(event) for event in at.events(session)]
        assert (kinds.count(ModelRetry), kinds.count(MessageDiscarded)) == (2, 3)


async def test_a_long_wait_is_not_waited_for(tmp_path: Path) -> None:
    async with bench(tmp_path, [LIMITED], [Reply(text="Done.")]) as at:
        assert (await at.session().prompt("go")).stop == "end_turn"
        assert len(at.claude.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, error_type="authentication_error", error_message="invalid x-api-key"),
        Reply(status=400, error_type="invalid_request_error", error_message="odd"),
        Reply(status=429, error_type="rate_limit_error", error_message="Your credit balance is too low"),
    ],
)
async def test_other_errors_end_the_turn(tmp_path: Path, reply: Reply) -> None:
    async with bench(tmp_path, [reply]) as at:
        session = at.session()
        assert (await session.prompt("go")).stop == "error"
        assert (len(at.claude.requests), at.gpt.requests) == (1, [])
        assert at.notices(session) == []


async def test_a_budget_stop_does_not_switch(tmp_path: Path) -> None:
    costly = Reply(text="x", tool_calls=READ.tool_calls, usage={"input_tokens": 1_000_000})
    async with bench(tmp_path, [costly]) as at:
        session = at.session(budget_usd=0.01, permission_timeout_s=0.01)
        assert (await session.prompt("go")).stop != "end_turn"
        assert at.gpt.requests == []


async def test_models_that_cannot_answer_are_skipped(tmp_path: Path) -> None:
    async with bench(tmp_path, [BUSY] * 3, [Reply(text="Done.")]) as at:
        names = ["groq/some-model", "nonsense", "openai/gpt-4", GPT]
        session = at.session(fallback_model=names)
        (tmp_path / "workspace" / "AGENTS.md").write_text("rule\n" * 10_000)
        session.policy.use(trust="trusted")
        assert (await session.prompt("go")).stop == "end_turn"
        skipped = [text for text in at.notices(session) if "skipped" in text]
        assert skipped[0].startswith("The fallback model groq/some-model is skipped: No key for groq.")
        assert skipped[1].startswith("The fallback model openai/gpt-4 is skipped: the request has about ")
        assert [request.json["model"] for request in at.gpt.requests] == ["gpt-4.1"]
        assert any("nonsense" in problem for problem in session.config.problems)


async def test_without_a_usable_model_all_attempts_are_made(tmp_path: Path) -> None:
    async with bench(tmp_path, [BUSY] * 8) as at:
        session = at.session(env=anthropic_env(at.claude))
        ended = await session.prompt("go")
        assert (ended.stop, len(at.claude.requests)) == ("error", 8)
        assert "tried 8 times" in ended.detail
        assert "No key for OpenAI" in at.notices(session)[0]


async def test_a_window_that_is_smaller_than_known_is_skipped(tmp_path: Path) -> None:
    small = Reply(
        status=400,
        error_type="context_length_exceeded",
        error_message="This model's maximum context length is 300 tokens.",
    )
    async with bench(tmp_path, [BUSY] * 3, [small, Reply(text="Done.")]) as at:
        session = at.session(fallback_model=["openai/small", GPT])
        assert (await session.prompt("go")).stop == "end_turn"
        assert [request.json["model"] for request in at.gpt.requests] == ["small", "gpt-4.1"]
        assert any("small is skipped" in text for text in at.notices(session))


async def test_the_model_that_the_user_chooses_meanwhile_counts(tmp_path: Path) -> None:
    async with bench(tmp_path, [*[BUSY] * 3, Reply(text="Mine.")], [READ]) as at:
        session = at.session()

        def chosen(event: object) -> None:
            if isinstance(event, Notice):
                updates = {"model": "anthropic/claude-opus-4-5"}
                session.emit(
                    SessionUpdated(trace_id=session.session_id, time=session.services.now(), updates=updates)
                )

        session.record.follow(chosen)
        assert (await session.prompt("go")).stop == "end_turn"
        assert answered_by(session)[-1] == "claude-opus-4-5"
