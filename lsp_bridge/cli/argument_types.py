"""Types of command-line values. Each raises ArgumentTypeError with a message that argparse shows."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Callable

NO_LIMIT = "none"
"""In place of an amount: there is to be no such limit."""


def _number(words: str, *, sign: str = "", unit: str = "", below: int = 10**9) -> Callable[[str], float]:
    """Return a type of numbers from 0 on, which may begin with ``sign``; those of a ``unit`` are above 0."""

    def parse(text: str) -> float:
        try:
            value = float(text.strip().lstrip(sign))
        except ValueError:
            value = -1.0
        if not 0 <= value < below or (unit and not value):
            raise ArgumentTypeError(t(words, text=text, unit=unit and t(unit)))
        return value

    return parse


def _whole(words: str, *, least: int = 0, below: int = 10**15) -> Callable[[str], int]:
    """Return a type of whole numbers in this range."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 15 and least <= int(text) < below):
            raise ArgumentTypeError(t(words, text=text, least=least))
        return int(text)

    return parse


_OF_UNIT, _FROM = (
    noted("{text!r} is not a number of {unit}"),
    noted("{text!r} is not a whole number from {least} on"),
)
_USD = noted("{text!r} is not an amount of US dollars, e.g. 2.50, or none")
seconds = _number(noted("{text!r} is not a number of seconds"))
amount = _number(noted("{text!r} is not an amount, e.g. 2.50; 0: no limit"), sign="$")
days = _number(_OF_UNIT, unit=noted("days"), below=365_000)  # a time so long before or after now has no date
megabytes = _number(_OF_UNIT, unit=noted("megabytes"))
count, number = _whole(_FROM, least=1), _whole(_FROM)
limit = _whole(noted("{text!r} is not a count, e.g. 50; 0: no limit"), below=10**9)
port = _whole(noted("{text!r} is not a port: 0 to 65535, 0 for any free one"), below=65_536)


def usd(text: str) -> float | str:
    """Return an amount of money, or NO_LIMIT."""
    return NO_LIMIT if text.strip().lower() == NO_LIMIT else _number(_USD, sign="$")(text)


def tokens(text: str) -> int | str:
    """Return a number of tokens, e.g. ``500k``, or NO_LIMIT."""
    short = text.strip().lower().replace(",", "").replace("_", "")
    if short == NO_LIMIT:
        return NO_LIMIT
    factor = {"k": 1_000, "m": 1_000_000}.get(short[-1:], 1)
    try:
        value = factor * float(short if factor == 1 else short[:-1])
    except ValueError:
        value = -1.0
    if not (0 <= value < 10**15 and value == int(value)):
        words = noted("{text!r} is not a number of tokens, e.g. 500000 or 500k, or none")
        raise ArgumentTypeError(t(words, text=text))
    return int(value)


def known_id(text: str) -> str:
    """Return the id of a session or trace. An empty one, of a variable that is not set, would mean the last one."""
    if not text.partition(":")[0].strip():
        raise ArgumentTypeError(t("the id is empty"))
    return text


def address(text: str) -> tuple[str, int]:
    """Return a host and a port: ``HOST:PORT``, ``[::1]:PORT``, or the port of 127.0.0.1."""
    host, _, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host or "127.0.0.1", port(digits)


def store(text: str) -> str:
    """Return the address of a database, or ``files``, which may be written as an address, too."""
    return "files" if text == "files:" else text


def model_name(text: str) -> str:
    """Parse a model name of the form ``provider/model``."""
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise ArgumentTypeError(t("{text!r} is not of the form provider/model", text=text))
    return text
