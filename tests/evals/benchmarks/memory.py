"""Resident memory of the daemon after a session, litellm never imported."""

from __future__ import annotations

from tests.evals.benchmarks.measures import Measure
from tests.evals.benchmarks.stage import TOOL_CALLS, Stage


async def measure(stage: Stage) -> list[Measure]:
    """The sessions are those of ``steps``."""
    sessions = await stage.sessions(".txt")
    assert not any(played.litellm for played in sessions), "the daemon has imported litellm"
    return [
        Measure(
            f"daemon: memory after {TOOL_CALLS} steps",
            "MB",
            tuple(played.memory_mb for played in sessions),
            target=120.0,
            baseline=await stage.baselines.sdk_memory(),
            note="resident memory of the daemon's process, a new one each time; litellm not imported",
        )
    ]
