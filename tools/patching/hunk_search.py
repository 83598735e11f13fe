"""Find the old lines of a hunk in a file: with the same strategies as ``edit``, over whole lines. Pure."""

from __future__ import annotations

import functools
import itertools
import operator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tools.matching.adapt import Reindent, reindents
from tools.matching.strategies import LineKinds
from tools.matching.typography import LOOK_ALIKES
from tools.patching.model import HunkLine, PatchError
from tools.text.lines import diff_lines_and_ends, split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

HunkStrategy = Literal["line ends", "exact", "trailing blanks", "indentation", "look-alike characters"]
"""``line ends`` is the strictest: the patch has them, and they are the file's."""

HUNK_STRATEGIES: tuple[HunkStrategy, ...] = (
    "line ends",
    "exact",
    "trailing blanks",
    "indentation",
    "look-alike characters",
)
MAX_PLACES = 1_000
"""Most places that are distinguished."""
_WORK = 5_000_000
_BLANKS = " \t"


class HunkPlace(Struct, frozen=True):
    """The lines ``[first, end)`` of the file, and how the hunk's lines get the file's indentation."""

    first: int
    end: int
    reindent: Reindent | None = None


class FileLines:
    """A file's lines, and the forms of them that the strategies compare. Work is bounded over its whole life.

    Lines are as ``diff`` sees them; with ``lone_cr``, a lone ``\\r`` ends a line, too. ``wanted``: the lines that will
    be looked for exactly.
    """

    def __init__(self, text: str, wanted: Collection[str], lone_cr: bool = False) -> None:
        self.text = text
        self._ascii = text.isascii()
        self._wanted = wanted
        self._work = _WORK
        self._known: dict[tuple[HunkStrategy, tuple[str, ...]], list[HunkPlace]] = {}
        if lone_cr:
            lines = split_lines(text)
            self.bodies = [line.body for line in lines]
            self.ends = [line.end for line in lines]
        else:
            self.bodies, self.ends = diff_lines_and_ends(text)

    def __len__(self) -> int:
        return len(self.bodies)

    @functools.cached_property
    def starts(self) -> list[int]:
        """Where each line begins in the text, and where the text ends."""
        sizes = map(operator.add, map(len, self.bodies), map(len, self.ends))
        return list(itertools.accumulate(sizes, initial=0))

    @functools.cached_property
    def _plain(self) -> LineKinds:
        return LineKinds(self.bodies, self._wanted)

    @functools.cached_property
    def _trimmed(self) -> LineKinds:
        return LineKinds([body.rstrip(_BLANKS) for body in self.bodies])

    @functools.cached_property
    def keys(self) -> LineKinds:
        """Lines without blanks on both sides."""
        return LineKinds([body.strip(_BLANKS) for body in self.bodies])

    @functools.cached_property
    def indents(self) -> list[int]:
        """Columns of each line's indentation, a tab being four; -1 for blank lines."""
        return [
            len(body[: body.find(key[0])].expandtabs(4)) if key else -1
            for body, key in zip(self.bodies, self.keys.lines, strict=True)
        ]

    @functools.cached_property
    def _folded(self) -> LineKinds:
        if self._ascii:
            return self.keys
        return LineKinds([body.translate(LOOK_ALIKES).strip(_BLANKS) for body in self.bodies])

    def places(self, wanted: Sequence[HunkLine], strategy: HunkStrategy) -> list[HunkPlace]:
        """Return all places of ``wanted``, in rising order; not more than ``MAX_PLACES``.

        Raises PatchError when the search costs too much.
        """
        texts = tuple(line.text for line in wanted)
        if strategy == "line ends":
            return [place for place in self.places(wanted, "exact") if self._same_ends(place, wanted)]
        key = (strategy, texts)
        if key not in self._known:  # a second search would cost work again, which has a limit
            self._known[key] = self._find(texts, strategy)
        return self._known[key]

    def _same_ends(self, place: HunkPlace, wanted: Sequence[HunkLine]) -> bool:
        there = self.ends[place.first : place.end]
        return all(
            end == "" or end == ("\r\n" if want.cr else "\n") for end, want in zip(there, wanted, strict=True)
        )

    def _find(self, texts: tuple[str, ...], strategy: HunkStrategy) -> list[HunkPlace]:
        size = len(texts)
        if strategy == "exact":
            return [HunkPlace(at, at + size) for at in self._search(self._plain, texts)]
        if strategy == "trailing blanks":
            trimmed = tuple(text.rstrip(_BLANKS) for text in texts)
            return [HunkPlace(at, at + size) for at in self._search(self._trimmed, trimmed)]
        if strategy == "indentation":
            return self._by_indentation(self.keys, texts, lambda text: text)
        if self._ascii and all(map(str.isascii, texts)):
            return []
        return self._by_indentation(self._folded, texts, lambda text: text.translate(LOOK_ALIKES))

    def _by_indentation(
        self, kinds: LineKinds, texts: tuple[str, ...], fold: Callable[[str], str]
    ) -> list[HunkPlace]:
        folded = [fold(text) for text in texts]
        found: list[HunkPlace] = []
        for at in self._search(kinds, tuple(text.strip(_BLANKS) for text in folded)):
            there = [fold(body) for body in self.bodies[at : at + len(texts)]]
            if all(a.rstrip(_BLANKS) == b.rstrip(_BLANKS) for a, b in zip(folded, there, strict=True)):
                found.append(HunkPlace(at, at + len(texts)))
                continue
            adapt, _ = reindents(folded, there)
            if adapt is not None:
                found.append(HunkPlace(at, at + len(texts), adapt))
        return found

    def _search(self, kinds: LineKinds, wanted: tuple[str, ...]) -> list[int]:
        if not any(wanted):
            # Blank lines alone: a place only if the whole file is that.
            return [0] if wanted and kinds.lines == list(wanted) else []
        found = list(itertools.islice(kinds.places(wanted), MAX_PLACES))
        self._work -= len(found) * len(wanted)
        if self._work < 0:
            raise PatchError("The file is so repetitive that finding the place takes too long.")
        return found
