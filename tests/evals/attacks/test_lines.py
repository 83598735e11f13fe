from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Generator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.evals.attacks.lines import Line, lines, sample
from tests.evals.attacks.pool import SANDBOX, place, play_all
from tests.evals.attacks.worker import Options, Worker

ALL = os.environ.get("GOALWRIGHT_ATTACKS") == "all"
"""Play every line instead of a sample; it takes minutes."""
SAMPLE = 60
EXAMPLES = 300 if ALL else 12
KINDS = {
    "read denied", "read secret", "write protected", "write outside", "run", "hostile", "memory", "socket", "network",
    "late", "parent",
}  # fmt: skip
_HIDDEN = {".env": ".env", "secrets/key.txt": "secrets/*"}
"""Rules that deny a file, by file."""
_EDITED = ("src/app.py", "README.md", "package.json", "Makefile")


def unexpected(harms: Sequence[str], free: Collection[str] = ()) -> list[str]:
    """Leave out files that no rule hides."""
    return [harm for harm in harms if harm.split(" to ")[0].partition(" ")[2] not in free]


def test_attack_lines_number_600_and_the_sample_covers_all_kinds() -> None:
    assert len(lines()) >= 600
    assert {line.kind for line in lines()} == KINDS
    assert KINDS - {"hostile", "late", "socket"} <= {line.kind for line in sample(SAMPLE)}


@pytest.mark.timeout(1800 if ALL else 300)
def test_no_sandboxed_attack_line_does_harm() -> None:
    found = play_all(lines() if ALL else sample(SAMPLE))
    harmful = {line.command: harms for line, played in found if (harms := unexpected(played.harms))}
    assert harmful == {}


@pytest.fixture(scope="module")
def worker() -> Generator[Worker]:
    with place() as folder:
        options = Options(str(folder), "broad", {**SANDBOX["bwrap"]})
        playing = Worker(options)
        try:
            yield playing
        finally:
            playing.close()


@given(
    line=st.sampled_from(lines()),
    hidden=st.sets(st.sampled_from(tuple(_HIDDEN.values()))),
    kept=st.sets(st.sampled_from(_EDITED)),
    general=st.sampled_from(("allow", "ask")),
)
@settings(
    # The same examples in each run, and none is made smaller: each one takes as long as a command.
    max_examples=EXAMPLES, deadline=None, derandomize=not ALL, phases=(Phase.explicit, Phase.generate), database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@pytest.mark.timeout(1800 if ALL else 300)
def test_sandboxed_lines_do_no_more_than_the_rules_allow(
    worker: Worker, line: Line, hidden: set[str], kept: set[str], general: str
) -> None:
    outside = {f"{worker.field.folder}/outside/notes.txt": "deny"}
    permission = {
        "*": general,
        "bash": {f"{program} *": "allow" for program in line.programs} if general == "ask" else "allow",
        "read": {"*": "allow", **dict.fromkeys(sorted(hidden), "deny"), **outside},
        "edit": {"*": "allow", **dict.fromkeys(sorted(kept), "deny")},
    }
    played = asyncio.run(worker.play(line, permission))
    free = {name for name, rule in _HIDDEN.items() if rule not in hidden}
    changed = [name for name in kept if worker.field.differs(name)]
    assert (unexpected(played.harms, free), changed) == ([], [])
