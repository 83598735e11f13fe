"""What the system knows of the daemon at one moment, and what a row of such moments says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COUNTED = {"descriptors": 2, "sockets": 1, "threads": 2, "tasks": 2, "children": 0, "locks": 0, "copies": 0}
"""What must not become more, and by how much it may differ by chance."""
MEMORY_GROWTH = 1.10
LAG_P99_MS = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment. ``quiet``: no editor is there and nothing has run for some time."""

    hour: float
    calls: int
    quiet: bool
    editors: int
    rss_mb: float
    descriptors: int
    sockets: int
    threads: int
    tasks: int
    children: int
    """Processes below the daemon, language servers among them."""
    locks: int
    copies: int
    """Working trees of branches on disk."""
    lag_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    """Delays of the event loop since the sample before: how many of each length."""
    lag_with_others_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    """The same with the time in which other programs had the processor."""


def children_of(pid: int) -> list[int]:
    """All processes below ``pid``."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def look(pid: int, copies: Path, told: Mapping[str, Any], **known: Any) -> Sample:
    """A sample of the daemon ``pid``. ``told``: its own answer, see ``clocked_daemon``."""
    status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    targets = [_target(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return Sample(
        rss_mb=int(status.partition("VmRSS:")[2].split()[0]) / 1024,
        descriptors=len(targets),
        sockets=sum(target.startswith("socket:") for target in targets),
        threads=told["threads"],
        tasks=told["tasks"],
        children=len(children_of(pid)),
        locks=sum(
            line.split()[4] == str(pid) for line in Path("/proc/locks").read_text("ascii").splitlines()
        ),
        copies=len([*copies.glob("*/*/")]),
        lag_ms={int(ms): n for ms, n in told["delays"]["own"].items()},
        lag_with_others_ms={int(ms): n for ms, n in told["delays"]["all"].items()},
        **known,
    )


def _target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:
        return ""


def percentile(counts: Sequence[Mapping[int, int]], share: float) -> int:
    """The smallest length that ``share`` of all do not exceed."""
    total: Counter[int] = Counter()
    for one in counts:
        total.update(one)
    left = share * total.total()
    for ms in sorted(total):
        left -= total[ms]
        if left <= 0:
            return ms
    return 0


def problems(samples: Sequence[Sample], warm_up_h: float) -> list[str]:
    """What grew after the warm-up: memory by more than a tenth, anything else at all. Quiet moments are compared."""
    quiet = [sample for sample in samples if sample.quiet and sample.hour >= warm_up_h]
    if len(quiet) < 2:
        return ["too few quiet moments to compare"]
    first, last = quiet[0], quiet[-1]
    found = [
        f"{name}: {getattr(first, name)} became {getattr(last, name)}"
        for name, chance in COUNTED.items()
        if getattr(last, name) > getattr(first, name) + chance
    ]
    for name, of in (("memory when quiet", quiet), ("peak of memory", _peaks(samples, warm_up_h))):
        if max(s.rss_mb for s in of) > MEMORY_GROWTH * of[0].rss_mb:
            found.append(f"{name}: {of[0].rss_mb:.1f} MB became {max(s.rss_mb for s in of):.1f} MB")
    return found


def _peaks(samples: Sequence[Sample], warm_up_h: float) -> list[Sample]:
    """The sample with the most memory in each stretch of work."""
    peaks: list[Sample] = []
    stretch: list[Sample] = []
    for sample in samples:
        if sample.hour <= warm_up_h:
            continue
        stretch.append(sample)
        if sample.quiet:
            peaks.append(max(stretch, key=lambda one: one.rss_mb))
            stretch = []
    return peaks


def summary(samples: Sequence[Sample], warm_up_h: float) -> dict[str, Any]:
    """Figures for people, and the samples."""
    quiet = [sample for sample in samples if sample.quiet and sample.hour >= warm_up_h]
    lags = [sample.lag_ms for sample in samples]
    lag = {"p50": percentile(lags, 0.5), "p99": percentile(lags, 0.99), "longest": percentile(lags, 1.0)}
    return {
        "hours": samples[-1].hour,
        "calls": samples[-1].calls,
        "lag_ms": lag,
        "lag_p99_with_other_programs_ms": percentile([s.lag_with_others_ms for s in samples], 0.99),
        "lag_target_met": lag["p99"] <= LAG_P99_MS,
        "rss_mb": {
            "first quiet": quiet[0].rss_mb,
            "last quiet": quiet[-1].rss_mb,
            "highest": max(sample.rss_mb for sample in samples),
        },
        "quiet": {name: [getattr(quiet[0], name), getattr(quiet[-1], name)] for name in COUNTED},
        "problems": problems(samples, warm_up_h),
        "samples": [asdict(sample) for sample in samples],
    }
