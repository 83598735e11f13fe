"""The shapes of keys: tokens of well-known services, private keys, credentials in addresses, assignments. Pure.

Almost every secret is a *run*: sixteen signs or more without a space or a quote. Runs are found by one ``translate``
and ``find``, and only there regular expressions look closer. Matched bytes never contain a quote or a backslash, so a
JSON string stays one. Hashes, UUIDs, base64 and names of code must not match: redaction cannot be reversed.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int, bytes]
"""Start, end, and the replacement."""

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_IN_RUN = _BASE64 + b"_.~!@#$%^*:?&-"
_RUNS = bytes(120 if sign in _IN_RUN else 32 for sign in range(256))
_MIN_RUN = b"x" * 15
_DATA = 512
"""Bytes of pure base64 from which it is no key but an image or the like."""
_MAX_VALUE = 4_096

_PIECES = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_RUN = re.compile(rb"[A-Za-z0-9]+")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGITS = b"0123456789"
_LABELED_HASH = re.compile(rb"(?:sha|md)[0-9]{1,3}[:-]", re.IGNORECASE)


def occurrences(data: bytes, needle: bytes) -> Iterator[int]:
    """Yield where ``needle`` is, without overlaps."""
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + len(needle))


def mark(value: bytes) -> bytes:
    """Return the replacement of ``value``: its last four signs identify it for users, when enough others are hidden."""
    last = value[-4:]
    if len(value) < 16 or not re.fullmatch(rb"[A-Za-z0-9_-]{4}", last):
        return b"[redacted]"
    return "[redacted: …".encode() + last + b"]"


def looks_random(value: bytes) -> bool:
    """Return whether 16 signs or more are no words, no name of code, and no date."""
    letters = sum(sign in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" for sign in value)
    digits = sum(sign in b"0123456789" for sign in value)
    if len(value) < 16 or letters < 3 or _entropy(value) < 3.0:
        return False
    if digits * 5 >= len(value):
        return True
    pieces = len(_PIECES.findall(value))
    return (letters + digits) / pieces < 3.0


def _entropy(value: bytes) -> float:
    """Bits a sign."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())


def _random_token(value: bytes) -> bool:
    """Return whether the part after a prefix such as ``sk-`` is random; ordinary words may follow it
    (``sk-loading-indicator``)."""
    longest = max((len(run) for run in _RUN.findall(value)), default=0)
    mixed = any(48 <= sign <= 57 for sign in value)
    return longest >= 20 or (mixed and longest >= 12) or looks_random(value)


# -- runs --

_PREFIX = re.compile(
    rb"sk-ant-[A-Za-z0-9_-]{8,300}"
    rb"|gh[pousr]_[A-Za-z0-9]{20,300}"
    rb"|github_pat_[A-Za-z0-9_]{20,300}"
    rb"|gl(?:pat|dt|rt|cbt|ptt|soat|ft)-[A-Za-z0-9_.-]{16,300}"
    rb"|xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,300}"
    rb"|A(?:KIA|SIA)[0-9A-Z]{16}(?![A-Za-z0-9+/_])"
    rb"|AIza[A-Za-z0-9_-]{30,45}(?![A-Za-z0-9+/_-])"
    rb"|ya29\.[A-Za-z0-9_-]{16,2000}"
    rb"|hf_[A-Za-z0-9]{30,100}(?![A-Za-z0-9_])"
    rb"|npm_[A-Za-z0-9]{30,100}(?![A-Za-z0-9_])"
    rb"|SG\.[A-Za-z0-9_-]{16,100}\.[A-Za-z0-9_-]{16,100}"
    rb"|[rs]k_(?:live|test)_[A-Za-z0-9]{10,300}"
    rb"|gwt_[0-9a-f]{8}_[A-Za-z0-9_-]{43}"
    rb"|whsec_[A-Za-z0-9+/=]{20,300}"
    rb"|GOCSPX-[A-Za-z0-9_-]{20,100}|dckr_[po]at_[A-Za-z0-9_-]{20,100}"
    rb"|eyJ[A-Za-z0-9_-]{8,9000}+\.[A-Za-z0-9_-]{8,9000}+\.[A-Za-z0-9_-]{8,9000}+(?:\.[A-Za-z0-9_-]{0,9000}){0,2}"
    rb"|(?P<weak>(?:sk-|pypi-|xapp-)(?P<rest>[A-Za-z0-9_-]{16,300}))"
)
_BEGINNINGS = (
    b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"gldt-", b"glrt-", b"glcbt-",
    b"glptt-", b"glsoat-", b"glft-", b"xox", b"AKIA", b"ASIA", b"AIza", b"ya29.", b"hf_", b"npm_", b"SG.", b"k_live_",
    b"k_test_", b"whsec_", b"gwt_", b"eyJ", b"pypi-", b"xapp-", b"GOCSPX-", b"dckr_",
)  # fmt: skip
_STRONG = (b"sk-ant-", b"gh", b"glpat-")
"""Prefixes that only keys have, wherever they occur."""
_BREAK = re.compile(rb"(?:\\[nrtbf]|\[[0-9;]{0,12}m|\\u00[0-9a-f]{2}|%[0-9A-Fa-f]{2})\Z")
"""Letters that are none: escapes of JSON, of a terminal and of an address."""
_ATTEMPTS = 50
"""Most attempts in one run: a text full of prefixes must not delay the daemon."""


def _begins_word(data: bytes, at: int) -> bool:
    before = data[at - 1 : at] if at else b""
    if not before or not (before.isalnum() or before in b"_-"):
        return True
    return _BREAK.search(data[max(0, at - 16) : at]) is not None


def _runs(data: bytes) -> Iterator[tuple[int, int]]:
    classes = data.translate(_RUNS)
    start = classes.find(_MIN_RUN)
    while start >= 0:
        end = classes.find(b" ", start)
        if end < 0:
            end = len(data)
        yield start, end
        start = classes.find(_MIN_RUN, end)


def _tokens(data: bytes, start: int, end: int) -> Iterator[Span]:
    for _ in range(_ATTEMPTS):
        found = _PREFIX.search(data, start, end)
        if found is None:
            return
        rest = found["rest"]
        text = found[0]
        if (rest is None or _random_token(rest)) and (
            text.startswith(_STRONG) or _begins_word(data, found.start())
        ):
            yield found.start(), found.end(), mark(text)
            start = found.end()
        else:
            start = found.start() + 1


_BEGUN = re.compile(rb"(?:gh[pousr]_|github_pat_|hf_|npm_|AIza|A[KS]IA)([A-Za-z0-9_-]{12,})\Z")


def _begun(data: bytes, start: int, end: int) -> Iterator[Span]:
    """Return a token that was cut off by the end of its text, so that it is too short for its kind."""
    if end < len(data) and data[end : end + 1] != b'"':
        return
    found = _BEGUN.search(data, start, end)
    if found is not None and _random_token(found[1]) and _begins_word(data, found.start()):
        yield found.start(), end, mark(found[0])


# -- private keys --

_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
# No two alternatives start with the same character, and a gap is possessive (`+`): otherwise backtracking explodes.
_GAP = rb"(?:\\+[nrt]|\s|[0-9]{1,6}(?=[\t |:]|\\+t|\xe2)|[+|:-]|\xe2\x86\x92)"
_LINES = re.compile(rb"(?:" + _GAP + rb"{1,24}+[A-Za-z0-9+/]{16,}={0,2}){1,200}")
_LINE_END = re.compile(rb"(?<!\\)\\++[nr]|[\r\n]+")
_KEY_LINE = re.compile(_GAP + rb"{0,24}+[A-Za-z0-9+/]{8,}={0,2}" + _GAP + rb"{0,4}")
_AFTER_QUOTE = re.compile(rb"(?<=[\"'`])[A-Za-z0-9+/]{8,}={0,2}\Z")
_LONGEST = 20_000
"""Most bytes of a private key as text, including prefixes of lines in a listing."""
_PRIVATE = b"[redacted: private key]"


def _private_keys(data: bytes, *, is_json: bool) -> Iterator[Span]:
    if b"PRIVATE KEY" not in data:
        return
    ends = list(_END.finditer(data))
    starts = [end.start() for end in ends]
    done = 0
    for begin in _BEGIN.finditer(data):
        if begin.start() < done:
            continue
        limit = begin.end() + _LONGEST
        at = bisect_left(starts, begin.end())
        if (
            at < len(ends)
            and starts[at] < limit
            and not (is_json and _string_ends(data, begin.end(), starts[at]))
        ):
            done = ends[at].end()
        else:
            # Its end was cut off, but the lines of base64 that follow are still the key.
            lines = _LINES.match(data, begin.end(), limit)
            if lines is None:
                continue  # only mentioned, e.g. by code that searches for keys
            done = lines.end()
        yield begin.start(), done, _PRIVATE
    before = 0
    for end in ends:
        start = _first_key_line(data, max(before, end.start() - _LONGEST), end.start())
        if start < end.start():
            yield start, end.end(), _PRIVATE
        before = end.end()


def _first_key_line(data: bytes, start: int, end: int) -> int:
    """Return where the lines of base64 begin that reach up to ``end``, where a key ends; ``end`` when there are
    none."""
    breaks = list(_LINE_END.finditer(data, start, end))
    if not breaks or breaks[-1].end() + 24 < end:
        return end
    first = end
    for line_end, line_start in zip(
        reversed(breaks), [*reversed([b.end() for b in breaks[:-1]]), start], strict=True
    ):
        if _KEY_LINE.fullmatch(data, line_start, line_end.start()) is None:
            begins = _AFTER_QUOTE.search(data, max(line_start, line_end.start() - 200), line_end.start())
            return first if begins is None else begins.start()
        first = line_start
    return first


def _string_ends(data: bytes, start: int, end: int) -> bool:
    at = data.find(b'"', start, end)
    while at >= 0:
        slashes = at - len(data[:at].rstrip(b"\\")) if data[at - 1 : at] == b"\\" else 0
        if slashes % 2 == 0:
            return True
        at = data.find(b'"', at + 1, end)
    return False


# -- credentials in addresses --

_CREDENTIALS = re.compile(
    rb"://([^\s/:@\"'`\\<>\[\]]{0,200}):"
    rb"([^\s/@\"'`\\<>\[\]]{1,300}(?:@[^\s/:@\"'`\\<>\[\](){},;?&=|]{1,100}){0,3})@"  # p@ss is a password too
)
_SIGNED = re.compile(rb"sig=((?:[A-Za-z0-9+/]|%2[BFbf]){43}(?:=|%3[Dd]))")
"""The signature of an address that Azure signed: it alone gives access."""
_ALONE = re.compile(rb"://([A-Za-z0-9_-]{20,200})@")
_BROKEN_OFF = re.compile(rb"://[^\s/:@\"'`\\<>\[\]]{1,200}:([A-Za-z0-9+_.~!#^*?&%=-]{8,300}+)(?=\"|\Z)")
_IMAGES = (b"docker", b"oci", b"image", b"storage", b"archive", b"daemon")
"""Schemes with a tag behind the colon: ``docker://node:18-alpine``."""


def _signatures(data: bytes) -> Iterator[Span]:
    for at in occurrences(data, b"sig="):
        begins = data[max(0, at - 6) : at].endswith((b"?", b"&", b"&amp;", b"\\u0026"))
        if begins and (found := _SIGNED.match(data, at)) is not None:
            yield found.start(1), found.end(1), mark(found[1])


def _addresses(data: bytes, *, is_json: bool, ends: bool) -> Iterator[Span]:
    if b"@" not in data and not ends:
        return
    for at in occurrences(data, b"://"):
        if (found := _CREDENTIALS.match(data, at)) is not None:
            if found[2][:1] not in b"${<%*":  # a template is only a placeholder for the password
                yield found.start(2), found.end(2), mark(found[2])
        elif (found := _ALONE.match(data, at)) is not None and _random_token(found[1]):
            yield found.start(1), found.end(1), mark(found[1])
        elif ends and (found := _BROKEN_OFF.match(data, at)) is not None:
            value = found[1]
            mixed = value.translate(None, _DIGITS) != value and any(
                map(bytes.isalpha, _PIECES.findall(value))
            )
            last = found.end() == len(data) or is_json
            if mixed and last and value[:1] not in b"%*" and not data[:at].endswith(_IMAGES):
                yield found.start(1), found.end(1), mark(value)


# -- headers and assignments --

_QUOTE = rb"(?:\\{0,7}[\"'`])?"
_SCHEMES = rb"(?:bearer|basic|token|digest|apikey|bot)"
_HEADER = re.compile(
    rb"authorization" + _QUOTE + rb"\s{0,4}[:=,]\s{0,4}" + _QUOTE + rb"(" + _SCHEMES + rb"\s{1,4})?"
    rb"([A-Za-z0-9._~+/=-]{8,4096})",
    re.IGNORECASE,
)
_HEADER_NAMES = (b"uthorization", b"UTHORIZATION")
_BEARER = re.compile(rb"bearer[ \t]{1,4}\Z", re.IGNORECASE)
_FLIPS = re.compile(rb"[a-z](?=[A-Z])")
_MANY_FLIPS = 4
"""A value without any digit is a secret only when it looks like dice; few names have so many humps."""
_NAME = 72
"""Bytes before a run in which the name of an assignment is searched."""
_ASSIGNMENT = re.compile(
    rb"(?:token|secret|passw(?:or)?d|pwd|passphrase|credential"
    rb"|(?:api|access|private|auth[a-z]{0,14}|account|encryption|signing|master|service|storage|shared|client|app|deploy"
    rb"|webhook|admin|license|subscription)[ _.-]{0,2}key)(?P<tail>s?[A-Za-z0-9_.-]{0,24}?)"
    + _QUOTE
    + rb"\]?\s{0,8}(?::=|=>|=|:)\s{0,8}"
    + _QUOTE
    + rb"(?P<value>[A-Za-z0-9+/_.~!@#^*?-][A-Za-z0-9+/_=.~!@#$%^*:?&-]{15,4096}+)(?![(\[{])",
    re.IGNORECASE,
)
_AMAZON = re.compile(rb"secret[_ .-]?access[_ .-]?key", re.IGNORECASE)
_AMAZON_VALUE = re.compile(rb"(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9+/]{40}")
_WORDS = (b"key", b"token", b"secret", b"passw", b"pwd", b"passphrase", b"credential", b"bearer")
"""Every match of ``_ASSIGNMENT`` or ``_BEARER`` contains one of these, in any case."""
_NOT_THE_SECRET = re.compile(
    rb"(?:id|name|hash|count|url|uri|path|file|type|expir[a-z]{0,5}|regex|pattern|prefix|sha[0-9]{0,3}|digest"
    rb"|fingerprint|length|size|index|usage|endpoint|arn|version|ref|at)s?\Z",
    re.IGNORECASE,
)


def _headers(data: bytes) -> Iterator[Span]:
    for name in _HEADER_NAMES:
        for at in occurrences(data, name):
            found = _HEADER.match(data, at - 1) if at else None
            if found is not None and (_told(found[2]) if found[1] else looks_random(found[2])):
                yield found.start(2), found.end(2), mark(found[2])


def _told(value: bytes) -> bool:
    """Return whether the text after ``Authorization: Bearer`` is a secret, and not a placeholder of documentation."""
    if value.isupper() and not any(48 <= sign <= 57 for sign in value):
        return False  # YOUR_TOKEN
    return len(value) >= 20 or not value.isalpha() or not (value.islower() or value.istitle())


def _assigned(data: bytes, start: int, end: int) -> Iterator[Span]:
    before = max(0, start - _NAME)
    if _BEARER.search(data, before, start) and looks_random(data[start:end]):
        yield start, end, mark(data[start:end])
        return
    for found in _ASSIGNMENT.finditer(data, before, end):
        if _NOT_THE_SECRET.search(found["tail"]):
            continue
        value = found["value"].rstrip(b".:?!&")
        if b"://" in value or _UUID.fullmatch(value) or _LABELED_HASH.match(value):
            continue
        # Random values may look like words (as Amazon's own example does), so the name and the length are enough.
        of_amazon = _AMAZON.match(data, found.start()) and _AMAZON_VALUE.fullmatch(value)
        if not of_amazon and not looks_random(value):
            continue
        at = found.start("value")
        yield at, at + len(value), mark(value)


def _is_data(data: bytes, start: int, end: int) -> bool:
    return end - start >= _DATA and not data[start:end].translate(None, _BASE64)


def _may_be_value(run: bytes) -> bool:
    if not run.isalpha() and run.translate(None, _DIGITS) != run:
        return True
    return not run.islower() and len(_FLIPS.findall(run)) >= _MANY_FLIPS


def spans(data: bytes, *, is_json: bool, ends: bool = True) -> Iterator[Span]:
    """Yield the spans of ``data`` that look like secrets, in no order; they may overlap.

    ``ends``: also those that only look like one because the text ends there: a model that is stopped, and a command
    that is killed, break off anywhere.
    """
    runs = [run for run in _runs(data) if not _is_data(data, *run)]
    joined = b" ".join([data[start:end] for start, end in runs])
    if any(map(joined.__contains__, _BEGINNINGS)):
        for start, end in runs:
            yield from _tokens(data, start, end)
            if ends:
                yield from _begun(data, start, end)
    lower = data.lower()
    if any(map(lower.__contains__, _WORDS)):
        # Most runs are ids and times: where none of the words is near, no expression is tried.
        words = sorted(at for word in _WORDS for at in occurrences(lower, word))
        for start, end in runs:
            at = bisect_left(words, start - _NAME)
            near = at < len(words) and words[at] < end
            if near and end - start <= 2 * _MAX_VALUE and _may_be_value(data[start:end]):
                yield from _assigned(data, start, end)
    yield from _private_keys(data, is_json=is_json)
    yield from _addresses(data, is_json=is_json, ends=ends)
    yield from _signatures(data)
    yield from _headers(data)
