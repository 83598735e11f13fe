"""What the runs of the agents add up to: medians, the targets, and the report as a table and as JSON. Without I/O."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.evals.benchmarks.measures import aligned, percentile

GOALWRIGHT, FLOOR = "Goalwright", "floor"
NO_BYTE_CODE = "no daemon, no byte code"
NO_DAEMON = "no daemon"
PRELOADED = "no daemon, its preloader is there"
JUST_STARTED = "daemon just started, first session"
SECOND = "second session of that daemon"
EDITOR = "no daemon, first prompt of VS Code"
USED_HOME = "second run in that home"
_REQUEST_KB = 16.0
_MEMORY_MB = 100.0
_RUNNING_START_S = 0.1


@dataclass(frozen=True, slots=True)
class Run:
    """What was observed of one run."""

    start_s: float
    """From the spawn of the command to the arrival of the whole first request."""
    reads_ms: tuple[float, ...]
    """From the end of each answer that reads a file to the arrival of the next request."""
    edits_ms: tuple[float, ...]
    """The same of answers that edit one."""
    work_s: float
    """From the spawn to the end of the command."""
    cpu_s: float
    """Processor time of all processes of the agent, from the spawn to the end of the command."""
    request_bytes: int
    """The body of the first request."""
    unjudged: int | None = None
    """How many edits got no fresh verdict of a language server. None: the agent has no servers."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak of a run that was done for it alone. Counted as PSS: what processes share is divided among them."""

    mb: float | None
    """Of 1024² bytes, all processes of the agent together. None: this system does not tell it."""
    processes: int
    """How many there were then."""


@dataclass(slots=True)
class Row:
    """An agent in one situation."""

    agent: str
    situation: str = ""
    diagnostics: bool | None = None
    """None: the agent has none that could be switched off."""
    runs: list[Run] = field(default_factory=list[Run])
    memory: list[Memory] = field(default_factory=list[Memory])
    problem: str = ""
    """Why there are no figures."""

    @property
    def name(self) -> str:
        """For people."""
        shown = {None: "", True: ", as shipped", False: ", diagnostics off"}[self.diagnostics]
        return f"{self.agent}{shown}" + (f": {self.situation}" if self.situation else "")


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of the runs of a row. None: not measured."""

    start_s: float | None = None
    turn_p50_ms: float | None = None
    turn_p95_ms: float | None = None
    edit_p50_ms: float | None = None
    edit_p95_ms: float | None = None
    memory_mb: float | None = None
    request_kb: float | None = None
    """In units of 1024 bytes."""
    cpu_s: float | None = None
    work_s: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A limit, and what was measured. ``met`` is None when something needed for it was not measured."""

    name: str
    limit: float | None
    value: float | None
    unit: str

    @property
    def met(self) -> bool | None:
        """Whether the value is not above the limit."""
        return None if self.limit is None or self.value is None else self.value <= self.limit


def figures(row: Row) -> Figures:
    """The row's medians: a percentile is taken in each run, then the median of the runs."""

    def each(value: Callable[[Run], float | None]) -> float | None:
        return _median(value(run) for run in row.runs)

    return Figures(
        each(lambda run: run.start_s),
        each(lambda run: _share((*run.reads_ms, *run.edits_ms), 0.5)),
        each(lambda run: _share((*run.reads_ms, *run.edits_ms), 0.95)),
        each(lambda run: _share(run.edits_ms, 0.5)),
        each(lambda run: _share(run.edits_ms, 0.95)),
        _median(memory.mb for memory in row.memory),
        each(lambda run: run.request_bytes / 1024),
        each(lambda run: run.cpu_s),
        each(lambda run: run.work_s),
    )


def targets(rows: Sequence[Row]) -> list[Target]:
    """Goalwright's limits. Those that compare with another agent hold for the same run on the same machine."""
    found = {(row.agent, row.situation, row.diagnostics): figures(row) for row in rows}

    def own(situation: str) -> Figures:
        return found.get((GOALWRIGHT, situation, False), Figures())

    def best(agent: str, value: Callable[[Figures], float | None]) -> float | None:
        known = (value(found.get((agent, situation, None), Figures())) for situation in ("", USED_HOME))
        return min((one for one in known if one is not None), default=None)

    new, started, second = own(NO_DAEMON), own(JUST_STARTED), own(SECOND)
    codex_start = best("codex", lambda it: it.start_s)
    pi_p50, pi_p95 = best("pi", lambda it: it.turn_p50_ms), best("pi", lambda it: it.turn_p95_ms)
    codex_memory = best("codex", lambda it: it.memory_mb)
    return [
        Target("start with no daemon ≤ 1.0 × codex", _times(1.0, codex_start), new.start_s, "s"),
        Target("start of the first session of a daemon", _RUNNING_START_S, started.start_s, "s"),
        Target("start of the second session", _RUNNING_START_S, second.start_s, "s"),
        Target("overhead a turn, p50 ≤ 0.5 × pi", _times(0.5, pi_p50), new.turn_p50_ms, "ms"),
        Target("overhead a turn, p95 ≤ 2 × pi", _times(2.0, pi_p95), new.turn_p95_ms, "ms"),
        Target("peak memory ≤ 0.65 × codex", _times(0.65, codex_memory), new.memory_mb, "MB"),
        Target("peak memory", _MEMORY_MB, new.memory_mb, "MB"),
        Target("first request", _REQUEST_KB, new.request_kb, "KB"),
    ]


def report(rows: Sequence[Row], checked: Sequence[Target], wire_ms: Sequence[float]) -> str:
    """For people: the table, then how the targets stand."""
    head = (
        "agent",
        "start → first request",
        "turn p50 / p95",
        "after an edit",
        "memory",
        "request",
        "processor",
        "no verdict",
    )
    wire = _pair(_share(wire_ms, 0.5), _share(wire_ms, 0.95), 2)
    lines = [head, *map(_cells, rows), ("the wire alone", "", wire, "", "", "", "", "")]
    stands = [(target.name, *_standing(target)) for target in checked]
    problems = [f"{row.name}: {row.problem}" for row in rows if row.problem]
    return "\n".join(
        [*aligned(lines), "", *aligned([("target", "limit", "measured", ""), *stands]), "", *problems]
    ).rstrip()


def to_json(row: Row) -> dict[str, Any]:
    """All that is known of a row; Any because it is JSON."""
    return asdict(row) | {"name": row.name, "medians": asdict(figures(row))}


def target_json(target: Target) -> dict[str, Any]:
    """A target with its verdict; Any because it is JSON."""
    return asdict(target) | {"met": target.met}


def _cells(row: Row) -> tuple[str, ...]:
    shown = figures(row)
    starts = [run.start_s for run in row.runs]
    spread = f" ({min(starts):.2f}–{max(starts):.2f})" if len(starts) > 1 else ""
    return (
        row.name,
        _number(shown.start_s, "s", 2) + spread,
        _pair(shown.turn_p50_ms, shown.turn_p95_ms),
        _pair(shown.edit_p50_ms, shown.edit_p95_ms),
        _number(shown.memory_mb, "MB", 0),
        _number(shown.request_kb, "KB", 1),
        _number(shown.cpu_s, "s", 2),
        _unjudged(row),
    )


def _unjudged(row: Row) -> str:
    """All runs together: a median would hide the one run that had some."""
    judged = [run for run in row.runs if run.unjudged is not None]
    edits = sum(len(run.edits_ms) for run in judged)
    return f"{sum(run.unjudged or 0 for run in judged)} of {edits} edits" if judged else "—"


def _standing(target: Target) -> tuple[str, str, str]:
    verdict = {None: "not measured", True: "met", False: "MISSED"}[target.met]
    digits = 2 if target.unit == "s" else 1
    limit = "—" if target.limit is None else f"≤ {_number(target.limit, target.unit, digits)}"
    return limit, _number(target.value, target.unit, digits), verdict


def _pair(first: float | None, second: float | None, digits: int = 1) -> str:
    return "—" if first is None or second is None else f"{first:.{digits}f} / {second:.{digits}f} ms"


def _number(value: float | None, unit: str, digits: int) -> str:
    return "—" if value is None else f"{value:.{digits}f} {unit}"


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _share(values: Sequence[float], share: float) -> float | None:
    return percentile(values, share) if values else None


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value
