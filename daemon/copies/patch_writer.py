"""A git patch, written without git. Pure (source: git's own documentation of ``diff --binary`` and ``apply``)."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from typing import TYPE_CHECKING

from tools.diff.unified_diff import grouped, line_range, opcodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.copies.working_copy import BranchChange

_LINK = 0o120000


def write_patch(changes: Sequence[BranchChange]) -> bytes:
    """Return all changes as ``git apply --binary`` takes them."""
    return b"".join(part for change in changes for part in _sections(change))


def _sections(change: BranchChange) -> Iterator[bytes]:
    name = change.name.encode("utf-8", "surrogateescape")
    old, new = change.before_mode, change.after_mode
    if old and new and (old == _LINK) != (new == _LINK):
        # A file that becomes a link, or the reverse, is deleted and created.
        yield _section(name, change.before, None, old, None)
        yield _section(name, None, change.after, None, new)
        return
    yield _section(name, change.before, change.after, old, new)


def _section(
    name: bytes, before: bytes | None, after: bytes | None, old: int | None, new: int | None
) -> bytes:
    a, b = _quoted(b"a/" + name), _quoted(b"b/" + name)
    out = [b"diff --git %s %s\n" % (a, b)]
    if before is None:
        out.append(b"new file mode %o\n" % (new or 0o100644))
    elif after is None:
        out.append(b"deleted file mode %o\n" % (old or 0o100644))
    elif old != new:
        out.append(b"old mode %o\nnew mode %o\n" % (old or 0o100644, new or 0o100644))
    if before is not None and after is not None and before == after:
        return b"".join(out)
    same = b" %o" % (new or 0o100644) if before is not None and after is not None and old == new else b""
    out.append(b"index %s..%s%s\n" % (_oid(before), _oid(after), same))
    if b"\0" in (before or b"") + (after or b""):
        out.append(b"GIT binary patch\n" + _literal(after or b"") + b"\n" + _literal(before or b"") + b"\n")
    elif before or after:
        out.append(b"--- %s\n" % (b"/dev/null" if before is None else a + (b"\t" if b" " in a else b"")))
        out.append(b"+++ %s\n" % (b"/dev/null" if after is None else b + (b"\t" if b" " in b else b"")))
        out += _hunks(_lines(before), _lines(after))
    return b"".join(out)


def _lines(content: bytes | None) -> list[bytes]:
    """Split at line feeds only, as git does."""
    return io.BytesIO(content or b"").readlines()


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in grouped(opcodes(old, new)):
        first, last = group[0], group[-1]
        head = f"@@ -{line_range(first[1], last[2])} +{line_range(first[3], last[4])} @@\n"
        yield head.encode()
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(b" ", old[i1:i2])
                continue
            yield from _marked(b"-", old[i1:i2])
            yield from _marked(b"+", new[j1:j2])


def _marked(sign: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield sign + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"


def _literal(content: bytes) -> bytes:
    packed = zlib.compress(content)
    lines = [b"literal %d\n" % len(content)]
    for start in range(0, len(packed), 52):
        piece = packed[start : start + 52]
        size = len(piece)
        letter = bytes([size + 64 if size <= 26 else size - 26 + 96])
        lines.append(letter + base64.b85encode(piece, pad=True) + b"\n")
    return b"".join(lines)


def _oid(content: bytes | None) -> bytes:
    if content is None:
        return b"0" * 40
    # git's own naming of contents; it protects nothing
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest().encode()


def _quoted(name: bytes) -> bytes:
    if all(32 <= char < 127 and char not in b'"\\' for char in name):
        return name
    escaped = b"".join(
        b"\\" + bytes([char]) if char in b'"\\' else bytes([char]) if 32 <= char < 127 else b"\\%03o" % char
        for char in name
    )
    return b'"' + escaped + b'"'
