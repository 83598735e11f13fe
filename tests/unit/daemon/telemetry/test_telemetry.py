"""Spans and metrics as a real collector receives them, compared with the step tree of the trace API."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.config import load_config
from daemon.model.events import Notice
from daemon.provider.variables import provider_env
from daemon.steps.fold import StepFold
from daemon.telemetry import service, spans
from daemon.telemetry.spans import otel_trace_id, step_span_id
from daemon.telemetry.target import BadTargetError, target_of
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, Retry
from tests.support.fakes.otlp_collector import Collector, attributes
from tools.redaction.redactor import SECRETS, Redactor

WORK = (
    ("I plan.", Call("goal", {"add": ["Read the file", "Write the file"], "focus": "1"})),
    (Retry(1, 0.0, "the service is overloaded", 8), "Reading.", Call("read", {"file_path": "a.txt"})),
    Call("read", {"file_path": "no-such-file.txt"}),
    Call("task", {"agent": "explore", "prompt": "Look around."}),
    ("Looking.", Call("ls", {"path": "."})),
    "Nothing there.",
    Call("goal", {"goal": "1", "done": "It is read: sk-secret-words"}),
    "All done.",
)


def configure(tmp_path: Path, collector: Collector | str, **more: Any) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    url = collector if isinstance(collector, str) else collector.url
    values = {"telemetry": True, "telemetry_endpoint": url, **more}
    (tmp_path / "home" / "config.json").write_text(json.dumps(values))


async def work(bench: Bench, *steps: Any) -> str:
    """A session with a plan, failures, a retry and a sub-agent; return its id."""
    (bench.workspace / "a.txt").write_text("words of the file\n")
    session = bench.session(settings=ALLOW_ALL)
    bench.models.then(*(steps or WORK))
    await finish(prompted(session, "please read"), 60)
    return session.session_id


def folds(bench: Bench, session_id: str) -> dict[str, StepFold]:
    """The step trees of a session and its children, as the trace API shows them."""
    found: dict[str, StepFold] = {}
    for one in (session_id, *(f"{session_id}:{name}" for name in ("s1", "s2"))):
        if bench.core.store.folder(one).is_dir():
            found[one] = StepFold(one)
            for event in bench.core.store.events(one):
                found[one].apply(event)
    return found


async def test_spans_equal_the_step_tree(tmp_path: Path) -> None:
    with Collector() as collector:
        configure(tmp_path, collector)
        async with daemon(tmp_path) as bench:
            session_id = await work(bench)
            trees = folds(bench, session_id)
        assert len(trees) == 2, "the session, and its sub-agent"
        made = {span.span_id: span for span in collector.spans}
        assert len(made) == len(collector.spans), "each once"
        assert {span.trace_id for span in made.values()} == {otel_trace_id(session_id).to_bytes(16, "big")}
        turns = {one.span_id: one for one in made.values() if one.name.startswith("invoke_agent ")}
        assert sorted(span.name for span in turns.values()) == ["invoke_agent build", "invoke_agent explore"]
        seen: set[bytes] = set(turns)
        for one, fold in trees.items():
            for _, step in fold.tree.walk():
                span = made[step_span_id(one, step.step_id).to_bytes(8, "big")]
                told = attributes(span)
                seen.add(span.span_id)
                if step.parent_id is not None:
                    assert span.parent_span_id == step_span_id(one, step.parent_id).to_bytes(8, "big")
                else:
                    assert span.parent_span_id in turns
                assert told["goalwright.step.id"] == step.step_id
                assert told["goalwright.step.type"] == step.step_type
                assert told["goalwright.step.status"] == step.status
                assert told["goalwright.step.sequence"] == step.sequence
                assert told.get("goalwright.step.tokens") == step.tokens
                assert told.get("goalwright.step.cost_usd") == step.cost
                assert told["gen_ai.conversation.id"] == session_id
                assert (span.status.code == 2) == (step.status == "failed")
                assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert seen == set(made), "nothing but the steps and the turns"
        (child,) = [span for span in turns.values() if span.name == "invoke_agent explore"]
        assert made[child.parent_span_id].name == "execute_tool task"
        (root,) = [span for span in turns.values() if span.name == "invoke_agent build"]
        assert root.parent_span_id == b""


async def test_names_follow_the_conventions(tmp_path: Path) -> None:
    with Collector() as collector:
        configure(tmp_path, collector)
        async with daemon(tmp_path) as bench:
            await work(bench)
        names = {span.name for span in collector.spans}
        assert {"chat fake", "execute_tool read", "goal", "evaluation", "result read"} <= names
        chat = next(
            attributes(span) for span in collector.spans if "gen_ai.usage.input_tokens" in attributes(span)
        )
        assert chat["gen_ai.operation.name"] == "chat"
        assert chat["gen_ai.provider.name"] == "fake"
        assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (1150, 10)
        assert collector.resource["service.name"] == "goalwright"
        metrics = {metric.name: metric for metric in collector.metrics}
        points = metrics["gen_ai.client.token.usage"].histogram.data_points
        sums = {attributes(point)["gen_ai.token.type"]: point.sum for point in points}
        assert sums == {"input": 1150 * 8, "output": 10 * 8}
        (duration,) = metrics["gen_ai.client.operation.duration"].histogram.data_points
        assert duration.count == 8


@pytest.mark.parametrize("content", [False, True])
async def test_contents_are_sent_only_on_request(
    tmp_path: Path, content: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = Redactor()
    secrets.register(["sk-secret-words"])
    monkeypatch.setattr(spans, "SECRETS", secrets)
    with Collector() as collector:
        configure(tmp_path, collector, telemetry_content=content)
        async with daemon(tmp_path) as bench:
            await work(bench)
        assert (b"words of the file" in collector.raw) == content
        assert (b"no-such-file.txt" in collector.raw) == content
        assert (b"All done." in collector.raw) == content
        assert (b"It is read" in collector.raw) == content
        assert b"sk-secret-words" not in collector.raw
        assert b"please read" not in collector.raw, "prompts are no steps"


async def test_open_goals_are_sent_once_they_end(tmp_path: Path) -> None:
    with Collector() as collector:
        configure(tmp_path, collector)
        async with daemon(tmp_path) as bench:
            session_id = await work(bench, Call("goal", {"add": ["One"], "focus": "1"}), "Later.")
        async with daemon(tmp_path) as bench:
            session = await bench.opened(session_id)
            session.policy.use(config=session.config.overlaid(ALLOW_ALL, "editor", "test"))
            bench.models.then(Call("goal", {"done": "Ready."}), "Done.")
            await finish(prompted(session, "go on"), 60)
            (fold,) = folds(bench, session_id).values()
        sent = [attributes(span) for span in collector.spans if "goalwright.step.id" in attributes(span)]
        ids = [one["goalwright.step.id"] for one in sent]
        assert set(ids) == {step.step_id for _, step in fold.tree.walk()}
        goal = [one["goalwright.step.status"] for one in sent if one["goalwright.step.type"] == "goal"]
        assert goal == ["in_progress", "completed"], "as it was when the daemon ended, and in the end"
        assert len(ids) == len(set(ids)) + 1


@pytest.mark.parametrize("how", ["refuse", "hang", "gone", "killed"])
async def test_a_dead_collector_costs_nothing_and_is_said_once(
    tmp_path: Path, how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "CLOSE_S", 0.2)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    with Collector(how=how if how in ("refuse", "hang") else "good") as collector:
        configure(tmp_path, collector)
        if how == "gone":
            collector.stop()
        async with daemon(tmp_path) as bench:
            session = bench.session(settings=ALLOW_ALL)
            session.policy.use(env={"OTEL_EXPORTER_OTLP_TIMEOUT": "0.2"})

            async def turn() -> None:
                bench.models.then("Done.")
                assert (await finish(prompted(session, "go"), 60)).stop == "end_turn"

            def said() -> int:
                return sum(notice.code == "telemetry" for notice in bench.events(Notice))

            await turn()
            if how == "killed":
                await until(lambda: bool(collector.spans), "the first turn", 30)
                collector.stop()
                await turn()
            await until(lambda: said() == 1, "the notice", 30)
            await turn()
        assert said() == 1


async def test_a_lost_event_is_read_from_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        configure(tmp_path, collector)
        async with daemon(tmp_path) as bench:
            taken = service.Telemetry._take
            count = 0

            def lossy(self: Any, exporter: Any, event: Any, model: str) -> None:
                nonlocal count
                count += 1
                if count % 3 or event.event in ("turn_ended", "session_created"):
                    taken(self, exporter, event, model)

            monkeypatch.setattr(service.Telemetry, "_take", lossy)
            session_id = await work(bench)
            trees = folds(bench, session_id)
        ids = {attributes(span).get("goalwright.step.id") for span in collector.spans} - {None}
        assert ids == {step.step_id for fold in trees.values() for _, step in fold.tree.walk()}


def test_off_means_nothing_is_imported() -> None:
    code = (
        "import sys, daemon.core, daemon.telemetry.spans, lsp_bridge.server.requests.router\n"
        "assert not [n for n in sys.modules if n.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[4])


async def test_off_means_nothing_is_sent(tmp_path: Path) -> None:
    with Collector() as collector:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "config.json").write_text(json.dumps({"telemetry_endpoint": collector.url}))
        async with daemon(tmp_path) as bench:
            await work(bench, "Done.")
        assert collector.headers == []


def test_a_workspace_cannot_turn_it_on(tmp_path: Path) -> None:
    (tmp_path / ".goalwright").mkdir()
    evil = {"telemetry": True, "telemetry_endpoint": "http://evil.example", "telemetry_content": True}
    (tmp_path / ".goalwright" / "config.json").write_text(json.dumps(evil))
    for trusted in (True, False):
        config = load_config(tmp_path, tmp_path / "none.json", trusted=trusted)
        settings = config.settings.telemetry
        assert (settings.telemetry, settings.telemetry_endpoint, settings.telemetry_content) == (
            False,
            None,
            False,
        )
        assert any("telemetry" in problem for problem in config.problems)


async def test_variables_of_the_client_name_collector_and_headers(tmp_path: Path) -> None:
    with Collector() as collector:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "config.json").write_text(json.dumps({"telemetry": True}))
        given = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abcdef-123456",
            "OTEL_SERVICE_NAME": "mine",
            "OTEL_LOG_LEVEL": "debug",
        }
        env = provider_env(given)
        assert "OTEL_LOG_LEVEL" not in env
        async with daemon(tmp_path) as bench:
            session = bench.session(settings=ALLOW_ALL)
            session.policy.use(env=env)
            bench.models.then("Done.")
            await finish(prompted(session, "go"), 60)
        assert collector.headers[0]["authorization"] == "Bearer abcdef-123456"
        assert collector.resource["service.name"] == "mine"
        assert SECRETS.text("key abcdef-123456") == SECRETS.text("key abcdef-123456").replace(
            "abcdef-123456", ""
        )


def test_ordinary_words_in_headers_do_not_vanish_from_sessions() -> None:
    headers = "x-scope-orgid=production,x-honeycomb-team=abcdef0123456789"
    target = target_of(None, {"OTEL_EXPORTER_OTLP_HEADERS": headers})
    assert target.headers["x-scope-orgid"] == "production"
    assert SECRETS.text("deploy to production") == "deploy to production"
    assert "abcdef" not in SECRETS.text("abcdef0123456789")


@pytest.mark.parametrize(
    ("endpoint", "env"),
    [
        ("ftp://a", {}),
        ("http://", {}),
        (None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "localhost"}),
    ],
)
def test_addresses_that_cannot_be_used(endpoint: str | None, env: dict[str, str]) -> None:
    with pytest.raises(BadTargetError):
        target_of(endpoint, env)


async def test_failed_turns_are_errors(tmp_path: Path) -> None:
    with Collector() as collector:
        configure(tmp_path, collector)
        async with daemon(tmp_path) as bench:
            await work(bench, Fail("auth", "no"))
        (turn,) = collector.spans
        assert attributes(turn)["error.type"] == "auth"
        assert turn.status.code == 2
