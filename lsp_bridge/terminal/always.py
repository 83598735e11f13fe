"""The answer "always" at a terminal: what is to be remembered, as the person edits it, and where it holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from lsp_bridge.terminal.questions import SCOPES, suggested
from lsp_bridge.terminal.text import shown_line
from tools.localization import t

Ask = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What ``permission/reply`` is given with "always"."""

    grants: tuple[dict[str, str], ...]
    scope: str


async def remembered(
    request: dict[str, Any], said: str, ask: Ask, tell: Callable[[str], None]
) -> Remembered | None:
    """What the person wants to be remembered; None to go back to the question.

    ``said``: what was typed after "always": the letter of a scope takes all suggestions as they are. Else each can
    be kept (Enter), replaced by another pattern, or left out (``-``).
    """
    if said.lower() in SCOPES:
        kept = tuple(_grant(permission, pattern) for permission, pattern in suggested(request))
        return Remembered(kept, SCOPES[said.lower()][0])
    tell(t("  Without asking, from now on (Enter keeps a pattern, or type another, - leaves it out):"))
    grants: list[dict[str, str]] = []
    for permission, pattern in suggested(request):
        line = await ask(f"  {permission}: {shown_line(pattern)} ▸ ")
        if line is None:
            return None
        typed = line.strip()
        if typed != "-":
            grants.append(_grant(permission, typed or pattern))
    if not grants:
        tell(t("  Nothing would be remembered."))
        return None
    choices = " / ".join(f"[{letter}] {t(words)}" for letter, (_, words) in SCOPES.items())
    while True:
        line = await ask(t("  Where? {choices} (Enter: session): ", choices=choices))
        if line is None:
            return None
        letter = line.strip().lower()[:1] or "s"
        if letter in SCOPES:
            return Remembered(tuple(grants), SCOPES[letter][0])


def _grant(permission: str, pattern: str) -> dict[str, str]:
    return {"permission": permission, "pattern": pattern}
