import json
from pathlib import Path

from tests.evals.endurance.picture import curves
from tests.evals.endurance.play import Plan, play
from tests.evals.endurance.samples import COUNTED, problems, summary


async def test_sessions_editors_and_crashes_leave_nothing_behind(tmp_path: Path) -> None:
    plan = Plan(hours=1.5, sessions=2, calls=34, block_steps=6, quiet_steps=4)
    samples = await play(plan)
    # Memory is compared only in a long run: in the first hours caches fill.
    grown = [problem for problem in problems(samples, warm_up_h=0.9) if problem.partition(":")[0] in COUNTED]
    assert grown == []
    assert samples[-1].calls >= plan.calls
    assert min(sample.editors for sample in samples) == 0 < max(sample.editors for sample in samples)
    (tmp_path / "found.json").write_text(json.dumps(summary(samples, warm_up_h=0.9)))
    assert curves(samples).count("<polyline") == 11
