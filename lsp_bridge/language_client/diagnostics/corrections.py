"""What servers say after their verdict: errors that come later for a change already judged, told once.

A server may say "nothing" about a text first and find the errors a second later, and what a change broke in other
files mostly comes after the answer about the changed one. Waiting longer for everybody would make every edit slow, so
a judged change stays watched: its file until it changes again, other files for some seconds, or until the next change
at the same server, which could be the cause from then on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lsp_bridge.language_client.diagnostics.verdict import Raw, newly_broken, news
from lsp_bridge.language_client.text.positions import lines_of
from lsp_bridge.language_client.text.problems import severe, to_problems
from tools.language import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from lsp_bridge.language_client.server.language_server import LanguageServer

OTHERS_S = 15.0
"""How long other files are watched for what a change has broken there."""
_KEPT_S = 600.0
"""How long what was found until then is kept for a session that works on something else."""
_MAX_WATCHED = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """One file about which a server has answered."""

    before: str | None
    after: str
    known: Raw | None
    """What was said about ``before``."""
    raw: Raw
    """What the verdict was made of."""
    version: int


@dataclass(slots=True, eq=False)
class Watched:
    """One change at one server."""

    server: LanguageServer
    paths: frozenset[Path]
    """All files of the change, the deleted ones too."""
    mark: int
    around: Mapping[Path, Raw] | None
    """What was known of all files before it; None: too long ago."""
    judged: dict[Path, Judged]
    passed_over: Callable[[], Collection[Path]]
    """Files that are somebody else's to tell about."""
    until: float
    told: list[Problem] = field(default_factory=list[Problem])
    after: Mapping[Path, Raw] | None = None
    """What was known of all files when the next change was sent; None: it has not been."""


class Corrections:
    """The watched changes of one workspace."""

    def __init__(self, within: Path) -> None:
        """``within``: the workspace; files outside are nobody's concern."""
        self._within = within
        self._watched: list[Watched] = []

    def watch(self, change: Watched) -> None:
        """``change`` has been judged, and ``told`` is what was said about it."""
        self._watched = [*self._watched[-_MAX_WATCHED + 1 :], change]

    def next_change(self, server: LanguageServer, snapshot: Mapping[Path, Raw]) -> None:
        """``server`` is about to be told of another change; ``snapshot`` is what it has said until now."""
        now = asyncio.get_running_loop().time()
        self._watched = [change for change in self._watched if self._lives(change, now)]
        for change in self._watched:
            if change.server is server and change.after is None:
                if now > change.until:
                    change.around = None
                change.after, change.until = snapshot, now + _KEPT_S

    async def due(self, paths: Collection[Path]) -> tuple[list[Problem], list[str]]:
        """Errors that have come by now about changes of ``paths``, and the names of the servers that found them."""
        wanted, now = set(paths), asyncio.get_running_loop().time()
        self._watched = [change for change in self._watched if self._lives(change, now)]
        mine = [change for change in self._watched if change.paths & wanted]
        # What is over is looked at for the last time.
        self._watched = [change for change in self._watched if change.after is None or change not in mine]
        found: list[Problem] = []
        names: list[str] = []
        for change in mine:
            if new := await self._look(change, now):
                change.told += new
                found += new
                names.append(change.server.name)
        return found, names

    def _lives(self, change: Watched, now: float) -> bool:
        if change.server.gone:
            return False
        for path, item in list(change.judged.items()):
            document = change.server.answers.documents.get(path)
            if change.after is None and (document is None or document.version != item.version):
                del change.judged[path]  # Somebody types there: what comes now is about other text.
        return now <= change.until or (change.after is None and bool(change.judged))

    async def _look(self, change: Watched, now: float) -> list[Problem]:
        server, after = change.server, change.after
        found: list[Problem] = []
        for path, item in change.judged.items():
            if after is None and not server.settled(path, item.version):
                continue
            raw = server.answers.known(path, item.version) if after is None else after.get(path)
            if raw is not None and raw != item.raw:
                found += await news(path, item.before, item.after, item.known, raw, "error")
        if change.around is not None and (after is not None or now <= change.until):
            found += await newly_broken(
                server,
                change.mark,
                change.around,
                passed_over={*change.paths, *change.passed_over()},
                within=self._within,
                least="error",
                after=after,
            )
        return _untold(self._still(server, found), change.told)

    def _still(self, server: LanguageServer, problems: list[Problem]) -> list[Problem]:
        """Those that are not mended meanwhile."""
        there: dict[Path, set[tuple[str, str, str]]] = {}
        kept: list[Problem] = []
        for problem in problems:
            if problem.path not in there:
                document = server.answers.documents.get(problem.path)
                lines = lines_of(document.text) if document is not None else ()
                raw = severe(server.answers.known(problem.path) or (), "error")
                there[problem.path] = {words_of(one) for one in to_problems(problem.path, raw, lines)}
            if words_of(problem) in there[problem.path]:
                kept.append(problem)
        return kept


def words_of(problem: Problem) -> tuple[str, str, str]:
    return problem.source, problem.code, problem.message


def _untold(problems: list[Problem], told: list[Problem]) -> list[Problem]:
    left = Counter((problem.path, *words_of(problem)) for problem in told)
    found: list[Problem] = []
    for problem in problems:
        key = (problem.path, *words_of(problem))
        if left[key] > 0:
            left[key] -= 1
        else:
            found.append(problem)
    return found
