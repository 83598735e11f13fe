"""Words for what a check has refused: settings, definitions, requests, files.

The libraries' own messages are in English and about Python, so that no text for users has them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jsonschema import SchemaError
    from pydantic import ValidationError

_EXPECTED = {
    "extra_forbidden": noted("is not a known key: check its spelling"),
    "missing": noted("must be given"),
    "literal_error": noted("must be one of: {expected}"),
    "enum": noted("must be one of: {expected}"),
    "bool": noted("must be true or false"),
    "int": noted("must be a whole number"),
    "float": noted("must be a number"),
    "finite_number": noted("must be a number"),
    "string": noted("must be text in double quotes"),
    "dict": noted("must be an object, in curly brackets"),
    "model": noted("must be an object, in curly brackets"),
    "tuple": noted("must be a list, in square brackets"),
    "list": noted("must be a list, in square brackets"),
    "greater_than": noted("must be greater than {gt}"),
    "greater_than_equal": noted("must be {ge} or more"),
    "less_than": noted("must be less than {lt}"),
    "less_than_equal": noted("must be {le} or less"),
    "too_short": noted("must not be empty"),
    "string_too_short": noted("must not be empty"),
    "string_pattern_mismatch": noted("is not in the form that is expected"),
    "too_long": noted("must have at most {max_length} entries"),
    "string_too_long": noted("must have at most {max_length} characters"),
}
"""By pydantic's type of an error, or its first word (``int_parsing``, ``int_type``)."""
_KINDS = {
    "array": noted("must be a list, in square brackets"),
    "boolean": noted("must be true or false"),
    "integer": noted("must be a whole number"),
    "number": noted("must be a number"),
    "object": noted("must be an object, in curly brackets"),
    "string": noted("must be text in double quotes"),
}
"""By JSON Schema's name of a type."""
_TYPES = "array, boolean, integer, null, number, object, string"
_BRANCH = re.compile(r"[\w-]+\[.*\]")
"""A step of a place that names a branch of a union, such as ``list[str]``."""


def wrong_value(error: ValidationError, known: int = 0) -> str:
    """Return the first problem: the place and what is expected there. ``known``: steps of the place to leave out."""
    first = error.errors(include_url=False, include_input=False)[0]
    return refused({**first, "loc": first["loc"][known:]})


def wrong_values(error: ValidationError, most: int = 5) -> str:
    """Return the first ``most`` problems, each once."""
    return reasons(error.errors(include_url=False, include_input=False), most)


def reasons(problems: Iterable[Any], most: int = 5) -> str:
    """Return the first ``most`` of a ValidationError's ``errors()``, each once.

    Of several shapes that a value may have, the first one tells enough.
    """
    shapes: dict[tuple[int | str, ...], int | str] = {}
    told: list[str] = []
    for problem in problems:
        steps = tuple(problem["loc"])
        if all(
            shapes.setdefault(steps[:at], step) == step for at, step in enumerate(steps) if _is_shape(step)
        ):
            told.append(refused(problem))
    return "; ".join(dict.fromkeys(told[:most]))


def refused(problem: Any) -> str:
    """Return the place and the expectation of one of a ValidationError's ``errors()``."""
    kind = str(problem["type"])
    known = (
        _EXPECTED.get(kind)
        or _EXPECTED.get(kind.partition("_")[0])
        or noted("has a value that is not possible")
    )
    context = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in problem.get("ctx", {}).items()
        if name != "error"
    }
    if "expected" in context:
        context["expected"] = str(context["expected"]).replace(" or ", ", ").replace("'", "")
    return f"{place(problem['loc'])} {t(known, **context)}"


def place(steps: Iterable[int | str]) -> str:
    """Return where something is in a value; entries of lists are counted from 1."""
    words = [
        t("entry {number}", number=step + 1) if isinstance(step, int) else step
        for step in steps
        if isinstance(step, int) or not (step == _KEY or _BRANCH.fullmatch(step) or _is_shape(step))
    ]
    return ", ".join(words) or t("it")


_KEY = "[key]"
"""Stands behind the key of an entry, where pydantic refuses the key itself."""


def _is_shape(step: int | str) -> bool:
    """Return whether a step is the name of a class, which pydantic adds for each shape that a value may have."""
    if isinstance(step, int) or not step[:1].isupper():
        return False
    from pydantic import BaseModel

    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == step:
            return True
        waiting += kind.__subclasses__()
    return False


def wrong_schema(error: SchemaError) -> str:
    """Return where a JSON schema is wrong, and what is expected there."""
    steps, expected = list(error.absolute_path), cast("object", error.validator_value)
    if error.validator == "type" and str(expected) in _KINDS:
        words = t(_KINDS[str(expected)])
    elif steps and steps[-1] == "type":
        words = t("must be one of: {expected}", expected=_TYPES)
    else:
        words = t("has a value that JSON Schema does not have")
    return f"{place(steps)} {words}"


def unreadable(error: Exception) -> str:
    """Return why a file of JSON cannot be used: an OSError, or what reading and parsing it has raised."""
    from json import JSONDecodeError

    match error:
        case JSONDecodeError() if not error.doc.strip():
            return t("it is empty")
        case JSONDecodeError():
            return t(
                "it is not valid JSON: look for a missing or extra comma, quote or bracket at line {line}, column "
                "{column}",
                line=error.lineno,
                column=error.colno,
            )
        case UnicodeDecodeError():
            return t("it is not UTF-8 text: save it as UTF-8")
        case RecursionError():
            return t("it is nested too deeply")
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
