"""The curves of an endurance run as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.evals.endurance.samples import Sample, percentile

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _GAP = 820, 78, 150, 60, 26
_COLOURS = ("#2563eb", "#94a3b8")


def curves(samples: Sequence[Sample]) -> str:
    """One row a quantity, over the hours; quiet times are grey."""
    rows: list[tuple[str, tuple[Callable[[Sample], float], ...]]] = [
        ("calls", (lambda s: s.calls,)),
        ("resident memory, MB", (lambda s: s.rss_mb,)),
        ("descriptors, sockets", (lambda s: s.descriptors, lambda s: s.sockets)),
        ("threads, tasks", (lambda s: s.threads, lambda s: s.tasks)),
        ("child processes, copies", (lambda s: s.children, lambda s: s.copies)),
        ("editors, file locks", (lambda s: s.editors, lambda s: s.locks)),
        ("lag of the loop, p99, ms", (lambda s: percentile([s.lag_ms], 0.99),)),
    ]
    hours = samples[-1].hour
    height = len(rows) * (_HEIGHT + _GAP) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEFT + _RIGHT} {height}" '
        'font-family="sans-serif" font-size="12" fill="#334155">',
        f'<rect width="{_WIDTH + _LEFT + _RIGHT}" height="{height}" fill="white"/>',
    ]
    for number, (name, of) in enumerate(rows):
        top = 12 + number * (_HEIGHT + _GAP)
        parts += _row(samples, hours, top, name, of)
    below = 12 + len(rows) * (_HEIGHT + _GAP)
    for hour in range(0, round(hours) + 1, max(1, round(hours / 8))):
        parts.append(f'<text x="{_x(hour, hours):.0f}" y="{below}" text-anchor="middle">{hour} h</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(
    samples: Sequence[Sample], hours: float, top: int, name: str, of: Sequence[Callable[[Sample], float]]
) -> list[str]:
    most = max((value(sample) for value in of for sample in samples), default=0) or 1
    parts = [
        f'<text x="{_LEFT - 8}" y="{top + _HEIGHT / 2:.0f}" text-anchor="end">{name}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#e2e8f0"/>',
        f'<text x="{_LEFT + _WIDTH + 6}" y="{top + 10}">{most:.0f}</text>',
        f'<text x="{_LEFT + _WIDTH + 6}" y="{top + _HEIGHT}">0</text>',
    ]
    for sample in samples:
        if sample.quiet:
            at = _x(sample.hour, hours)
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + _HEIGHT}" stroke="#e2e8f0"/>'
            )
    for value, colour in zip(of, _COLOURS, strict=False):
        points = " ".join(
            f"{_x(sample.hour, hours):.1f},{top + _HEIGHT * (1 - value(sample) / most):.1f}"
            for sample in samples
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts


def _x(hour: float, hours: float) -> float:
    return _LEFT + _WIDTH * hour / hours
