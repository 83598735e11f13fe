"""How a test command ended, in the words that the model, a terminal and VS Code share. Pure.

Plain values and no models: the terminal reads it without pydantic. VS Code has the same in ``explore/score.ts``.
"""

from __future__ import annotations

from daemon.model.words import cut_line

NOT_RUN = "not run"
_MAX_WHY = 80


def ended_words(
    exit_code: int | None, passed: int | None, failed: int | None, duration_ms: int, detail: str
) -> str:
    """E.g. ``3 passed, 2 failed``, ``5 passed, exit code 1``, ``not ended in 10 min 0 s``, ``not run: why``.

    The exit code is said where the counts do not tell it, or say something else: a command may print that all tests
    passed and fail all the same (a limit of coverage), or have failures and end well.
    """
    if exit_code is None and duration_ms:
        return f"not ended in {duration_words(duration_ms)}"
    if exit_code is None:
        return f"{NOT_RUN}: {cut_line(detail, _MAX_WHY)}" if detail.strip() else NOT_RUN
    counts = [
        f"{count} {what}" for count, what in ((passed, "passed"), (failed, "failed")) if count is not None
    ]
    if not counts:
        return "ok" if exit_code == 0 else f"exit code {exit_code}"
    told = (exit_code != 0) == bool(failed)
    return ", ".join(counts if told else [*counts, f"exit code {exit_code}"])


def duration_words(milliseconds: int) -> str:
    """A time, as people say it."""
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
