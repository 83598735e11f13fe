"""Sessions in which anything happens at any moment: every prompt is answered and every record is whole."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from daemon.model.permissions import Reply
from daemon.provider.model_calls import Retry, TextDelta, ToolCallDelta, ToolCallStart
from tests.support.drivers.core import Bench, check_pairs, daemon, prompted
from tests.support.fakes.models import Call, End, Fail, Item, Step, Think

REPLIES: tuple[Reply, ...] = ("once", "always", "reject")


def random_call(chance: random.Random) -> Call:
    return chance.choice(
        [
            Call("ls", {"path": "."}),
            Call("read", {"file_path": "a.txt"}),
            Call("write", {"file_path": f"{chance.randrange(3)}.txt", "content": str(chance.random())}),
            Call("edit", {"file_path": "a.txt", "old_string": "a", "new_string": "aa"}),
            Call("bash", {"command": chance.choice(["true", "echo x; sleep 0.05", "sleep 30"])}),
            Call("goal", {"add": "one, two"}),
            Call("goal", {"focus": chance.choice(["1", "2", "1.1", "9"])}),
            Call("goal", {"done": "did it", "add": "next"}),
            Call("goal", {"abandon": "no use"}),
            Call("nothing", "{"),
        ]
    )


def random_step(chance: random.Random) -> Step:
    items: list[Item] = []
    if chance.random() < 0.3:
        items.append(Think("hm"))
    if chance.random() < 0.6:
        items.append("Some words.")
    if chance.random() < 0.15:
        items.append(Retry(1, 0.0, "overloaded"))
    items += [random_call(chance) for _ in range(chance.choice([0, 0, 1, 1, 2, 3]))]
    index = len(items)
    ending = chance.random()
    if ending < 0.1:
        items += [
            ToolCallStart(index, "half", "write"),
            ToolCallDelta(index, "half", '{"fi'),
            Fail("network"),
        ]
    elif ending < 0.15:
        items += [TextDelta(index, "half a"), End(silent=True)]
    elif ending < 0.2:
        items.append(End("max_tokens"))
    elif ending < 0.25:
        items.append(Fail("overflow"))
    return items or "Done."


async def meddle(bench: Bench, chance: random.Random, sessions: list[str]) -> None:
    """Act as the user, at random: answer, cancel, and withdraw prompts."""
    while True:
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01]))
        for request in bench.core.permissions.pending():
            if chance.random() < 0.7:
                feedback = chance.choice([None, "rather not"])
                bench.core.permissions.reply(request.request_id, chance.choice(REPLIES), feedback, "x")
                break
        session = bench.core.live(chance.choice(sessions))
        assert session is not None
        if chance.random() < 0.05:
            session.cancel()
        if session.queued() and chance.random() < 0.1:
            session.edit_queued(session.queued()[-1].prompt_id, chance.choice([None, "changed"]))


@pytest.mark.parametrize("seed", range(20))
async def test_anything_at_any_moment(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with daemon(tmp_path) as bench:
        (bench.workspace / "a.txt").write_text("a\n")
        # Enough for any number of steps: what is left over does not matter here.
        bench.models.then(*(random_step(chance) for _ in range(400)))
        live = [bench.session(settings={"permission": {"read": "allow"}}) for _ in range(2)]
        person = asyncio.create_task(meddle(bench, chance, [s.session_id for s in live]))
        turns: list[asyncio.Task[object]] = []
        for number in range(6):
            for session in live:
                when = chance.choice(["queue", "queue", "steer"])
                turns.append(prompted(session, f"prompt {number}", when_busy=when))  # type: ignore[arg-type]
                await asyncio.sleep(chance.choice([0, 0, 0.005]))
        try:
            async with asyncio.timeout(60):
                results = await asyncio.gather(*turns)
        finally:
            person.cancel()
        assert len(results) == 12
        for session in live:
            assert not session.running
            assert session.queued() == ()
            check_pairs(session.state)
        assert bench.core.permissions.pending() == []
        while bench.models.left:
            bench.models._steps.pop()
        bench.models.then("The end.", "The end.")
        for session in live:
            assert (
                await session.prompt(
                    "a file or folder of the branch named before, or another branch or part:"
                )
            ).stop == "end_turn"
