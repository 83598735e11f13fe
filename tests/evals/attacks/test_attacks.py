from __future__ import annotations

from pathlib import Path

import pytest

from tests.evals.attacks.cases import ATTACKS, Attack
from tests.evals.attacks.play import play


def name(attack: Attack) -> str:
    return f"{attack.tool}: {attack.why}"


def test_there_are_enough_and_none_stands_twice() -> None:
    assert len(ATTACKS) >= 60
    assert len({(attack.tool, str(attack.input), attack.why) for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS, ids=name)
async def test_an_attack_ends_denied_or_asked(attack: Attack, tmp_path: Path) -> None:
    played = await play(attack, tmp_path)
    assert (played.leaked, played.harmed) == ((), ())
    assert played.outcome in ("denied", "asked"), played
