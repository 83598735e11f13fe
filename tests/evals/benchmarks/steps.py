"""The time that the harness adds between the end of one answer of the model and the arrival of the next request."""

from __future__ import annotations

import statistics

from tests.evals.benchmarks.measures import Measure, percentile
from tests.evals.benchmarks.stage import TOOL_CALLS, Played, Stage

_EDGE = 10
_TARGET_MS = 10.0
_KINDS = {".txt": "text files", ".py": "Python files"}
_NOTES = {
    ".txt": f"{TOOL_CALLS} steps with one read each; the gap holds the tool, the log, the next request and the wire",
    # On a machine with few cores this measures them more than the harness: hence no target.
    ".py": "the same while the language servers start and look at each file, which takes processor time",
}


async def measure(stage: Stage) -> list[Measure]:
    """Per session: the median, the 95th percentile, and how the last steps compare with the first."""
    found: list[Measure] = []
    for suffix, kind in _KINDS.items():
        sessions = await stage.sessions(suffix)
        floor = await stage.baselines.sdk_gap(sessions[0].bodies)
        medians = tuple(statistics.median(played.gaps_ms) for played in sessions)
        tails = tuple(percentile(played.gaps_ms, 0.95) for played in sessions)
        growth = tuple(_growth(played) for played in sessions)
        target = _TARGET_MS if suffix == ".txt" else None
        found += [
            Measure(f"step: median gap ({kind})", "ms", medians, target, floor, _NOTES[suffix]),
            Measure(f"step: 95th percentile ({kind})", "ms", tails, baseline=floor),
            Measure(f"step: last {_EDGE} to first {_EDGE} ({kind})", "×", growth),
        ]
    return found


def _growth(played: Played) -> float:
    return statistics.median(played.gaps_ms[-_EDGE:]) / statistics.median(played.gaps_ms[:_EDGE])
