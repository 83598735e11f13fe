"""A judged call: a file, an edit call made of a real change, and what must come of it."""

from __future__ import annotations

import codecs
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tests.evals.corpus.sources import Change

Group = Literal["clean", "recoverable", "refuse", "either"]
"""``either``: to refuse is right, and so is what was meant; anything else is not."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A case in characters. ``expected`` are the texts the file may have afterwards; none: it must be refused."""

    text: str
    old: str
    new: str
    expected: tuple[str, ...]
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A case in bytes, as it is judged."""

    kind: str
    group: Group
    name: str
    data: bytes
    args: dict[str, object]
    expected: tuple[bytes, ...]
    form: str = ""
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A change with the lines of context around it that the call repeats."""

    change: Change
    low: int
    high: int

    @property
    def old(self) -> tuple[str, ...]:
        """Lines of old_string."""
        return self.change.lines[self.low : self.high]

    @property
    def new(self) -> tuple[str, ...]:
        """Lines of new_string."""
        change = self.change
        return change.lines[self.low : change.first] + change.made + change.lines[change.last : self.high]

    @property
    def text(self) -> str:
        """The file."""
        return joined(self.change.lines, self.change.final_end)

    @property
    def after(self) -> str:
        """The file after the change."""
        return joined(self.change.after, self.change.final_end)

    def with_old(self, lines: Sequence[str], final_end: bool | None = None) -> Call:
        """Return the same call on a file that has other text (as many lines) in place of old_string."""
        change = self.change
        whole = (*change.lines[: self.low], *lines, *change.lines[self.high :])
        end = change.final_end if final_end is None else final_end
        return replace(self, change=replace(change, lines=whole, final_end=end))


def joined(lines: Sequence[str], final_end: bool = True) -> str:
    """Lines to text."""
    return "\n".join(lines) + ("\n" if lines and final_end else "")


def shared_ends(one: str, other: str) -> tuple[int, int]:
    """How many characters two texts share at the beginning, and of the rest at the end."""
    limit = min(len(one), len(other))
    head = next((i for i in range(limit) if one[i] != other[i]), limit)
    tail = next((i for i in range(limit - head) if one[-1 - i] != other[-1 - i]), limit - head)
    return head, tail


def calls(rng: random.Random, change: Change) -> Call | None:
    """A call with enough context to be unique; None when there is none with up to 12 lines on a side."""
    context = rng.choice([0, 1, 1, 2, 3, 3])
    for size in range(max(context, 0 if change.last > change.first else 1), 13):
        call = Call(change, max(0, change.first - size), min(len(change.lines), change.last + size))
        old = "\n".join(call.old)
        if old.strip() and call.text.count(old) == 1 and call.new != call.old:
            return call
    return None


@dataclass(frozen=True, slots=True)
class Form:
    """How a text becomes bytes. ``sprinkle`` is text put into the first line so that a guess has a chance."""

    name: str
    codec: str = "utf-8"
    bom: bytes = b""
    end: str = "\n"

    def encode(self, text: str) -> bytes:
        """The bytes of the file. Raises UnicodeEncodeError when the codec lacks a character."""
        return self.bom + text.replace("\n", self.end).encode(self.codec)


PLAIN = Form("utf-8")
FORMS: tuple[Form, ...] = (
    Form("crlf", end="\r\n"),
    Form("cr", end="\r"),
    Form("utf-8 bom", bom=codecs.BOM_UTF8),
    Form("utf-8 bom crlf", bom=codecs.BOM_UTF8, end="\r\n"),
    Form("utf-16-le", "utf-16-le", codecs.BOM_UTF16_LE, "\r\n"),
    Form("utf-16-be", "utf-16-be", codecs.BOM_UTF16_BE),
    Form("utf-32-le", "utf-32-le", codecs.BOM_UTF32_LE),
    Form("utf-16-le without bom", "utf-16-le"),
)
LEGACY: tuple[tuple[str, str], ...] = (
    ("cp1252", "Straße, naïve café – “déjà vu”, señor, garçon, übermäßig"),
    ("latin-1", "Straße, naïve café déjà vu, señor, garçon, übermäßig"),
    ("shift_jis", "日本語のテキストです。ファイルの先頭にあるコメント。漢字とかな交じり文。"),
    ("euc_jp", "日本語のテキストです。ファイルの先頭にあるコメント。漢字とかな交じり文。"),
    ("koi8_r", "Это русский комментарий в начале файла, чтобы кодировка была ясна."),
    ("cp1251", "Это русский комментарий в начале файла, чтобы кодировка была ясна."),
    ("gb18030", "这是文件开头的中文注释，用于说明编码。程序代码在下面，请勿修改。"),
    ("euc_kr", "이것은 파일 시작 부분에 있는 한국어 주석입니다. 인코딩을 알 수 있습니다."),
)
"""Code pages and a line of text in each, put on top of the file."""
