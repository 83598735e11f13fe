"""How a test command ended, in the words that the model, a terminal and VS Code share. Pure.

Plain values and no models: the terminal reads it without pydantic. VS Code has the same in ``explore/score.ts``.
"""

from __future__ import annotations

from tools.localization import noted, t
from tools.text.truncate import one_line

NOT_RUN = noted("not run")
_MAX_WHY = 80


def ended_words(
    exit_code: int | None, passed: int | None, failed: int | None, duration_ms: int, detail: str
) -> str:
    """E.g. ``3 passed, 2 failed``, ``5 passed, exit code 1``, ``not ended in 10 min 0 s``, ``not run: why``.

    The exit code is said where the counts do not tell it, or say something else: a command may print that all tests
    passed and fail all the same (a limit of coverage), or have failures and end well.
    """
    if exit_code is None and duration_ms:
        return t("not ended in {duration_ms}", duration_ms=duration_words(duration_ms))
    if exit_code is None:
        return f"{t(NOT_RUN)}: {one_line(detail, _MAX_WHY)}" if detail.strip() else t(NOT_RUN)
    counts = [
        t(text, count=count)
        for count, text in ((passed, noted("{count} passed")), (failed, noted("{count} failed")))
        if count is not None
    ]
    if not counts:
        return "ok" if exit_code == 0 else t("exit code {exit_code}", exit_code=exit_code)
    told = (exit_code != 0) == bool(failed)
    return ", ".join(counts if told else [*counts, t("exit code {exit_code}", exit_code=exit_code)])


def duration_words(milliseconds: int) -> str:
    """A time, as people say it."""
    seconds = milliseconds / 1000
    if seconds < 10:
        return t("{seconds:.1f} s", seconds=seconds)
    if seconds < 90:
        return t("{seconds:.0f} s", seconds=seconds)
    minutes, rest = divmod(round(seconds), 60)
    return (
        t("{minutes} min {rest} s", minutes=minutes, rest=rest)
        if minutes < 60
        else t("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)
    )
