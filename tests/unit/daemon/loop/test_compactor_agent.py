"""The agent ``compaction``: with a model of its own it sums up, else the session's model does as ever."""

from __future__ import annotations

import json
from pathlib import Path

from daemon.model.events import Notice
from daemon.model.messages import Usage
from tests.support.drivers.core import Bench, daemon
from tests.support.fakes.models import Call, End, Fail, Step

FREE = End(usage=Usage())
SUMMARY: dict[str, object] = {
    "current_work": "Reading.",
    "requests_and_rulings": [],
    "decisions": [],
    "findings": ["E42"],
    "files_changed": [],
    "failed_attempts": [],
    "pending_actions": [],
    "key_paths": {},
}
WORK: tuple[Step, ...] = (
    *([Call("read", {"file_path": f"f{number}.txt"}), FREE] for number in range(6)),
    ["Read.", FREE],
)
ANSWER: Step = [json.dumps(SUMMARY), FREE]


def own(folder: Path, head: str, text: str = "") -> None:
    place = folder / "home" / "agents"
    place.mkdir(parents=True)
    (place / "compaction.md").write_text(f"---\n{head}\n---\n{text}\n")


async def compacted(bench: Bench, *answers: Step) -> str:
    for number in range(6):
        (bench.workspace / f"f{number}.txt").write_text(f"file {number}: some words\n" * 350)
    bench.models.then(*WORK, *answers)
    session = bench.session(settings={"keep_steps": 1})
    await session.prompt("Read.")
    return (await session.compact()).detail


async def test_compaction_agent_model_gets_its_own_prompt(tmp_path: Path) -> None:
    own(tmp_path, "model: small/one", "Be brief.")
    async with daemon(tmp_path) as bench:
        await compacted(bench, ANSWER)
        assert bench.models.models[-2:] == ["fake/model", "small/one"]
        work, asked = bench.models.requests[-2:]
        assert (asked.model, [block.text for block in asked.system]) == ("one", ["Be brief."])
        assert asked.tools == work.tools  # calls in the conversation need them
        assert asked.messages[: len(work.messages)] == work.messages
        (session,) = bench.core.open_sessions
        assert (
            next(m for m in session.state.messages if m.compaction() and m.role == "assistant").model
            == "fake"
        )


async def test_file_with_only_a_model_keeps_the_shipped_prompt(tmp_path: Path) -> None:
    own(tmp_path, "model: small/one")
    async with daemon(tmp_path) as bench:
        await compacted(bench, ANSWER)
        assert bench.models.requests[-1].system[0].text.startswith("You summarize the work of an agent")


async def test_models_setting_chooses_the_compaction_model(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line={"models": {"compaction": "small/one"}}) as bench:
        await compacted(bench, ANSWER)
        assert bench.models.models[-2:] == ["fake/model", "small/one"]
        assert bench.models.requests[-1].system[0].text.startswith("You summarize the work of an agent")


async def test_without_a_model_the_session_prompt_is_reused(tmp_path: Path) -> None:
    own(tmp_path, "description: mine", "Be brief.")
    async with daemon(tmp_path) as bench:
        await compacted(bench, ANSWER)
        work, asked = bench.models.requests[-2:]
        assert set(bench.models.models) == {"fake/model"}
        assert (asked.system, asked.tools) == (work.system, work.tools)


async def test_failed_compaction_agent_falls_back_to_session_model(tmp_path: Path) -> None:
    own(tmp_path, "model: small/one", "Be brief.")
    async with daemon(tmp_path) as bench:
        detail = await compacted(bench, [Fail("no_key", "There is no key for small.")], ANSWER)
        assert bench.models.models[-2:] == ["small/one", "fake/model"]
        work, asked = bench.models.requests[-3], bench.models.requests[-1]
        assert asked.system == work.system
        assert "tokens" in detail
        told = [event.text for event in bench.events(Notice) if "small/one" in event.text]
        assert told == [
            "The agent compaction could not summarize with its model small/one; fake/model is used "
            "instead. There is no key for small."
        ]
