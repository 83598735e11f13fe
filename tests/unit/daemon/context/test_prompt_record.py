"""The system prompt in the record: once per change, each layer's text once, without secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from daemon.context.prompt import Layer
from daemon.context.prompt_record import PromptHistory, changed_prompt, with_prompt
from daemon.model.events import SystemPromptChanged
from daemon.model.traces import Carried, RecordedPrompt
from tests.support.drivers.core import daemon
from tests.support.fakes.models import Call

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "sk-ant-api03-" + "a1B2" * 20


def changes(*prompts: list[Layer]) -> list[SystemPromptChanged]:
    recorded = RecordedPrompt()
    found: list[SystemPromptChanged] = []
    for layers in prompts:
        event = changed_prompt(layers, recorded, "t", NOW)
        if event is not None:
            recorded = with_prompt(recorded, event)
            found.append(event)
    return found


def test_a_prompt_is_recorded_when_it_changes_and_each_text_once() -> None:
    one, two = Layer("agent", "You work."), Layer("environment", "Monday")
    other = Layer("environment", "Tuesday")
    found = changes([one, two], [one, two], [one, other], [one, two])
    texts = [[layer.text for layer in event.layers] for event in found]
    assert texts == [["You work.", "Monday"], [None, "Tuesday"], [None, None]]
    assert found[0].sha256 == found[2].sha256 != found[1].sha256
    history = PromptHistory()
    for event in found:
        history.apply(event)
    assert [history.text(layer) for layer in history.changes[2].layers] == ["You work.", "Monday"]


def test_layer_order_and_names_change_the_hash_and_loss_is_shown() -> None:
    one, two = Layer("a", "x"), Layer("b", "y")
    assert len({event.sha256 for event in changes([one, two], [two, one], [Layer("c", "x"), two])}) == 3
    history = PromptHistory()
    (_, again) = changes([one], [one, one])
    history.apply(again)
    assert "is missing" in history.text(again.layers[0])


def test_secrets_are_in_neither_text_nor_hash() -> None:
    (event,) = changes([Layer("instructions AGENTS.md", f"Use {KEY} here.")])
    assert KEY not in (event.layers[0].text or "")
    (same,) = changes([Layer("instructions AGENTS.md", event.layers[0].text or "")])
    assert same.sha256 == event.sha256


def test_snapshots_of_older_versions_open() -> None:
    assert Carried.model_validate({}).system_prompt == RecordedPrompt()


async def test_system_prompt_is_recorded_per_change_across_reopening(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, [Call("ls", {})], "Done.", "Again.", "Third.") as bench:
        (bench.workspace / "AGENTS.md").write_text(f"Speak of apples. {KEY}")
        session = bench.session()
        await session.prompt("go")
        await session.prompt("go on")
        (first,) = bench.events(SystemPromptChanged)
        assert [layer.name for layer in first.layers][:2] == ["agent", "provider"]
        (bench.workspace / "AGENTS.md").write_text("Speak of pears.")
        await session.prompt("and now")
        _, second = bench.events(SystemPromptChanged)
        fresh = [layer for layer in second.layers if layer.text is not None]
        assert ["pears" in (layer.text or "") for layer in fresh] == [True]
        log = bench.core.store.events(session.session_id)
        assert [event for event in log if isinstance(event, SystemPromptChanged)] == [first, second]
        folder = bench.core.store.root  # type: ignore[attr-defined]
        assert all(KEY not in path.read_text() for path in Path(folder).rglob("events.jsonl"))
    async with daemon(tmp_path, "Still there.") as bench:
        session = await bench.opened(session.session_id)
        session.policy.use(default_model="fake/model")
        await session.prompt("hello again")
        assert bench.events(SystemPromptChanged) == []
