"""Types of command-line values. Each raises ArgumentTypeError with a message that argparse shows."""

from __future__ import annotations

from argparse import ArgumentTypeError

from tools.localization import noted, t

NO_LIMIT = "none"
"""In place of an amount: there is to be no such limit."""


def seconds(text: str) -> float:
    """Return 0 or more."""
    return _number(text, text, noted("{text!r} is not a number of seconds"))


def amount(text: str) -> float:
    """Return 0 or more, with a dollar sign or without."""
    return _number(text, text.lstrip("$"), noted("{text!r} is not an amount, e.g. 2.50; 0: no limit"))


def usd(text: str) -> float | str:
    """Return an amount of money, or NO_LIMIT."""
    if text.strip().lower() == NO_LIMIT:
        return NO_LIMIT
    words = noted("{text!r} is not an amount of US dollars, e.g. 2.50, or none")
    return _number(text, text.strip().lstrip("$"), words)


def tokens(text: str) -> int | str:
    """Return a number of tokens, e.g. ``500k``, or NO_LIMIT."""
    short = text.strip().lower().replace(",", "").replace("_", "")
    if short == NO_LIMIT:
        return NO_LIMIT
    factor = {"k": 1_000, "m": 1_000_000}.get(short[-1:], 1)
    words = noted("{text!r} is not a number of tokens, e.g. 500000 or 500k, or none")
    value = factor * _number(text, short if factor == 1 else short[:-1], words, below=10**15 / factor)
    if value != int(value):
        raise ArgumentTypeError(t(words, text=text))
    return int(value)


def days(text: str) -> float:
    """Return more than 0."""
    return _positive(text, noted("days"))


def megabytes(text: str) -> float:
    """Return more than 0."""
    return _positive(text, noted("megabytes"))


def limit(text: str) -> int:
    """Return a count, 0 for no limit."""
    return _whole(text, noted("{text!r} is not a count, e.g. 50; 0: no limit"), below=10**9)


def port(text: str) -> int:
    """Return a port, 0 for any free one."""
    return _whole(text, noted("{text!r} is not a port: 0 to 65535, 0 for any free one"), below=65_536)


def address(text: str) -> tuple[str, int]:
    """Return a host and a port: ``HOST:PORT``, ``[::1]:PORT``, or the port of 127.0.0.1."""
    host, _, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host or "127.0.0.1", port(digits)


def store(text: str) -> str:
    """Return the address of a database, or ``files``, which may be written as an address, too."""
    return "files" if text == "files:" else text


def count(text: str) -> int:
    """Return 1 or more."""
    return _whole(text, noted("{text!r} is not a whole number from {least} on"), least=1)


def number(text: str) -> int:
    """Return 0 or more."""
    return _whole(text, noted("{text!r} is not a whole number from {least} on"))


def model_name(text: str) -> str:
    """Parse a model name of the form ``provider/model``."""
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise ArgumentTypeError(t("{text!r} is not of the form provider/model", text=text))
    return text


def _number(text: str, digits: str, words: str, *, below: float = 10**9, **values: str) -> float:
    try:
        value = float(digits)
    except ValueError:
        value = -1.0
    if not 0 <= value < below:
        raise ArgumentTypeError(t(words, text=text, **values))
    return value


def _positive(text: str, unit: str) -> float:
    words = noted("{text!r} is not a number of {unit}")
    if value := _number(text, text, words, unit=t(unit)):
        return value
    raise ArgumentTypeError(t(words, text=text, unit=t(unit)))


def _whole(text: str, words: str, *, least: int = 0, below: int = 10**15) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15 and least <= int(text) < below):
        raise ArgumentTypeError(t(words, text=text, least=least))
    return int(text)
