"""Three-way merge of a file's lines: it lets undo keep the user's own edits. Pure.

``base`` is the agent's version, ``ours`` the current one on disk, ``theirs`` the one before. The result is the base
with both sides' changes, or a conflict: where the result is not certain, nothing is merged. Lines keep their own ends,
and unchanged bytes stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tools.diff.unified_diff import opcodes
from tools.text.decoding import decode
from tools.text.lines import lines_with_ends
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WIDE = frozenset(("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"))


class Clash(Struct, frozen=True):
    """A place that both sides changed differently. Lines count from 1 in ``ours``, the current file."""

    line: int
    base: str
    ours: str
    theirs: str


class MergeConflictError(Exception):
    """Both sides changed the same place, or the file cannot be merged by lines (``clashes`` is then empty)."""

    def __init__(self, reason: str, clashes: Sequence[Clash] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.clashes = tuple(clashes)


class _Region(Struct, frozen=True):
    """Lines ``lo`` to ``hi`` of the base are ``new`` on one side.

    Equal lines around it may leave open where exactly it is: anywhere from ``low`` to ``high``.
    """

    side: int
    lo: int
    hi: int
    new: tuple[str, ...]
    low: int
    high: int

    def touches(self, other: _Region, *, close: bool) -> bool:
        """Return whether the two are about the same lines; unless ``close``, also an insertion at the border."""
        if close and (self.lo == self.hi) != (other.lo == other.hi):
            one, many = (self, other) if self.lo == self.hi else (other, self)
            return many.lo < one.lo < many.hi
        if self.lo == self.hi or other.lo == other.hi:
            return self.low <= other.high and other.low <= self.high
        return self.low < other.high and other.low < self.high


def merge(base: bytes, ours: bytes, theirs: bytes, *, close: bool = False) -> bytes:
    """Return the base with the changes of both sides. Raises MergeConflictError; never guesses.

    ``close``: lines that one side adds right beside lines that the other changes are no conflict. This is for undoing a
    change right after it was made, while the user types beside it.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    codec = _common_codec(base, ours, theirs)
    texts = base.decode(codec), ours.decode(codec), theirs.decode(codec)
    return _merged(*texts, lambda text: _readable(text, codec, ours), close).encode(codec)


def merge_texts(base: str, ours: str, theirs: str) -> str:
    """Return the merge of three texts, ``close`` as in ``merge``. Raises MergeConflictError."""
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else _merged(base, ours, theirs, str, close=True)


def _merged(base: str, ours: str, theirs: str, readable: Callable[[str], str], close: bool) -> str:
    old = lines_with_ends(base)
    regions = _regions(0, old, lines_with_ends(ours)) + _regions(1, old, lines_with_ends(theirs))
    clashes: list[Clash] = []
    merged: list[str] = []
    at = shift = 0
    for cluster in _clusters(regions, close):
        lo, hi = min(r.lo for r in cluster), max(r.hi for r in cluster)
        merged += old[at:lo]
        sides = [_applied(old, lo, hi, [r for r in cluster if r.side == side]) for side in (0, 1)]
        at = hi
        if len({r.side for r in cluster}) == 1:
            merged += sides[cluster[0].side]
        elif sides[0] == sides[1]:
            merged += sides[0]
        else:
            texts = [readable("".join(lines)) for lines in (old[lo:hi], *sides)]
            clashes.append(Clash(lo + shift + 1, *texts))
        shift += len(sides[0]) - (hi - lo)
    if clashes:
        raise MergeConflictError("both sides changed the same lines", clashes)
    merged += old[at:]
    return "".join(merged)


def _common_codec(*contents: bytes) -> str:
    """Return a codec that reads all of them, so that their lines can be told apart and nothing is lost.

    Raises MergeConflictError when they are not text, or not in the same encoding: their bytes must not be mixed.
    """
    kinds = {_encoding(data) for data in contents if data}
    if not any(kind in _WIDE for kind in kinds):
        kinds.discard("ascii")  # reads the same with all other codecs
    if len(kinds) > 1:
        raise MergeConflictError("its encoding was changed, so the two cannot be merged")
    kind = next(iter(kinds), "")
    # In all others line ends are the same bytes, and every byte is a Latin-1 character, so nothing has to be guessed.
    return kind if kind in _WIDE else "latin-1"


def _encoding(data: bytes) -> str:
    """Return the encoding as far as it matters: a Unicode one, or some code page."""
    try:
        codec = decode(data).codec
    except ToolError as error:
        raise MergeConflictError("it is not text, so its changes cannot be merged") from error
    if codec in _WIDE:
        return codec
    if data.isascii():
        return "ascii"
    return codec if codec == "utf-8" else "code page"


def _readable(text: str, codec: str, whole: bytes) -> str:
    """Return a piece of a file for people to read."""
    return text if codec in _WIDE else text.encode(codec).decode(decode(whole).codec, "replace")


def _regions(side: int, old: Sequence[str], new: Sequence[str]) -> list[_Region]:
    found: list[_Region] = []
    for tag, i1, i2, j1, j2 in opcodes(old, new):
        if tag == "equal":
            continue
        up, down = _slack(old, i1, i2, new[j1:j2])
        found.append(_Region(side, i1, i2, tuple(new[j1:j2]), i1 - up, i2 + down))
    return found


def _slack(old: Sequence[str], lo: int, hi: int, new: Sequence[str]) -> tuple[int, int]:
    """Return by how many lines an insertion or deletion could equivalently move up or down."""
    if (lo == hi) == (not new):
        return 0, 0
    moving = new or old[lo:hi]
    size, up, down = len(moving), 0, 0
    while hi + down < len(old) and moving[down % size] == old[hi + down]:
        down += 1
    while lo - 1 - up >= 0 and moving[(-1 - up) % size] == old[lo - 1 - up]:
        up += 1
    return up, down


def _clusters(regions: Sequence[_Region], close: bool) -> list[list[_Region]]:
    """Regions in order; those of the two sides that touch are together."""
    clusters: list[list[_Region]] = []
    active: list[list[_Region]] = []
    for region in sorted(regions, key=lambda r: (r.low, r.high)):
        active = [cluster for cluster in active if max(r.high for r in cluster) >= region.low]
        joined = [
            c for c in active if any(r.side != region.side and r.touches(region, close=close) for r in c)
        ]
        if not joined:
            clusters.append([region])
            active.append(clusters[-1])
            continue
        first, *rest = joined
        first.append(region)
        for other in rest:
            first += other
            other.clear()
        active = [cluster for cluster in active if cluster]
    found = [sorted(cluster, key=lambda r: (r.lo, r.hi)) for cluster in clusters if cluster]
    return _apart(sorted(found, key=lambda c: (c[0].lo, c[0].hi)))


def _apart(clusters: Sequence[list[_Region]]) -> list[list[_Region]]:
    """Join clusters whose lines overlap."""
    result: list[list[_Region]] = []
    end = -1
    for cluster in clusters:
        if result and cluster[0].lo < end:
            result[-1] = sorted([*result[-1], *cluster], key=lambda r: (r.lo, r.hi))
        else:
            result.append(cluster)
        end = max(end, *(r.hi for r in cluster))
    return result


def _applied(old: Sequence[str], lo: int, hi: int, regions: Sequence[_Region]) -> list[str]:
    """Lines ``lo`` to ``hi`` of the base as one side has them."""
    lines: list[str] = []
    at = lo
    for region in regions:
        lines += [*old[at : region.lo], *region.new]
        at = region.hi
    return [*lines, *old[at:hi]]
