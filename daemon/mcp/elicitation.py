"""Forms of MCP servers as questions to the user, and the answers as what the server's schema asks for. Pure.

Servers are untrusted: a form is checked and bounded before anybody sees it, and its texts hide nothing.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from tools.json_access import array, mapping, string
from tools.localization import t
from tools.text.terminal import plain, shown, shown_brief, shown_line
from tools.text.truncate import cut_text
from tools.tool import Question, QuestionOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.tool import QuestionAnswer

MOST_FIELDS = 8
MOST_OPTIONS = 50
LONGEST_MESSAGE = 2_000
LONGEST_LABEL = 200
LONGEST_URL = 2_000
"""Characters."""
_LONGEST_VALUE = 1_000
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{0,18})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")

Value = str | int | float | bool | list[str]
Kind = Literal["string", "integer", "number", "boolean", "array"]
_KINDS: tuple[Kind, ...] = ("string", "integer", "number", "boolean", "array")


class BadRequestError(Exception):
    """A request of a server cannot be granted; the message is for the server and its log."""


class _WrongAnswerError(Exception):
    """An answer does not fit its field; the message is for the user."""


class Field(Struct, frozen=True):
    """A property of a form. ``options``: label and value of each allowed answer; without any, a text is typed."""

    name: str
    kind: Kind
    title: str
    about: str
    required: bool
    options: tuple[tuple[str, Value], ...] = ()
    format: str = ""
    least: float = -math.inf
    most: float = math.inf
    """Bounds: of a number, of the characters of a text, or of how many options are chosen."""
    default: Value | None = None
    """The answer when the user leaves the field empty."""
    problem: str = ""
    """With the last answer, for the user."""

    def question(self) -> Question:
        """Return the question to the user."""
        hints = [self.about] if self.about else []
        if self.default is not None:
            hints.append(t("If you leave it empty: {value}.", value=shown_line(self._said(self.default))))
        elif not self.required:
            hints.append(t("You may leave it empty."))
        options = tuple(QuestionOption(label=label) for label, _ in self.options)
        lines = [*([self.problem] if self.problem else []), self.title, *hints]
        return Question(text="\n".join(lines), options=options, multiple=self.kind == "array")

    def value(self, answer: QuestionAnswer) -> Value | None:
        """Return what was answered, None for nothing. Raises _WrongAnswerError."""
        values = dict(self.options)
        if self.kind == "array":
            return self._several([*map(values.get, answer.chosen), *self._typed_options(answer.text)])
        if answer.chosen:
            return values[answer.chosen[0]]
        if not (text := answer.text.strip()):
            return self._empty()
        if self.options:
            return self._typed_options(text)[0]
        return self._number(text) if self.kind in ("integer", "number") else self._text(text)

    def _said(self, value: Value) -> str:
        values = value if isinstance(value, list) else [value]
        labels = {str(known): label for label, known in self.options}
        return ", ".join(labels.get(str(one), str(one)) for one in values)

    def _empty(self) -> Value | None:
        if self.default is None and self.required:
            raise _WrongAnswerError(t("{field} needs an answer.", field=self.title))
        return self.default

    def _several(self, found: Sequence[Value | None]) -> Value | None:
        chosen = list(dict.fromkeys(one for one in found if isinstance(one, str)))
        if not chosen:
            return self._empty()
        self._bounded(len(chosen), t("{field}: choose {bounds}.", field=self.title, bounds=self._bounds()))
        return chosen

    def _typed_options(self, text: str) -> list[Value]:
        """Return the options that a text names, by label or value; several only where several may be chosen."""
        parts = text.split(",") if self.kind == "array" else [text]
        found: list[Value] = []
        for part in filter(None, map(str.strip, parts)):
            value = next(
                (v for label, v in self.options if part.casefold() in (label.casefold(), str(v).casefold())),
                None,
            )
            if value is None:
                raise _WrongAnswerError(t("{field}: choose one of the options.", field=self.title))
            found.append(value)
        return found

    def _number(self, text: str) -> Value:
        whole = self.kind == "integer"
        if not (_WHOLE if whole else _NUMBER).fullmatch(text):
            raise _WrongAnswerError(
                t("{field}: write a whole number.", field=self.title)
                if whole
                else t("{field}: write a number.", field=self.title)
            )
        number = int(text) if whole else float(text)
        self._bounded(number, t("{field}: write {bounds}.", field=self.title, bounds=self._bounds()))
        return number

    def _text(self, text: str) -> Value:
        characters = t("{field}: write {bounds} characters.", field=self.title, bounds=self._bounds())
        self._bounded(len(text), characters)
        try:
            fits = _FORMATS.get(self.format, bool)(text)
        except ValueError:
            fits = False
        if not fits:
            raise _WrongAnswerError(
                t("{field}: write it in the format {format}.", field=self.title, format=self.format)
            )
        return text

    def _bounded(self, amount: float, problem: str) -> None:
        if not self.least <= amount <= self.most:
            raise _WrongAnswerError(problem)

    def _bounds(self) -> str:
        if self.least == -math.inf:
            return t("at most {most:g}", most=self.most)
        if self.most == math.inf:
            return t("at least {least:g}", least=self.least)
        return t("{least:g} to {most:g}", least=self.least, most=self.most)


def _is_uri(text: str) -> bool:
    return bool(urlsplit(text).scheme) and not re.search(r"\s", text)


_FORMATS: Mapping[str, Any] = {
    "email": _EMAIL.fullmatch,
    "uri": _is_uri,
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
}
"""Checks by format; each returns nothing or raises ValueError for what it is not."""


class Form(Struct, frozen=True):
    """A form of a server. ``message``: its words about it."""

    server: str
    message: str
    fields: tuple[Field, ...]

    def questions(self) -> tuple[Question, ...]:
        """Return the questions to the user; the first one says who asks."""
        lines = [
            # Our words come first, so that the server's cannot push them out of sight.
            t(
                "Your answer goes to the MCP server {server}. Do not enter passwords or keys.",
                server=self.server,
            ),
            self.message,
        ]
        if not self.fields:
            yes, no = _confirmations()
            return (_yes_or_no(lines, yes, no),)
        first, *others = self.fields
        question = replace(first, problem="").question()
        whole = "\n".join([*([first.problem] if first.problem else []), *lines, "", question.text])
        return (question.model_copy(update={"text": whole}), *(field.question() for field in others))

    def declined(self, answers: Sequence[QuestionAnswer]) -> bool:
        """Return whether the user declined a form without fields."""
        return not self.fields and _confirmations()[0] not in answers[0].chosen

    def content(self, answers: Sequence[QuestionAnswer]) -> tuple[dict[str, Value], Form | None]:
        """Return the answers to ``questions`` by name, and the form to ask again of those that do not fit."""
        found: dict[str, Value] = {}
        wrong: list[Field] = []
        for field, answer in zip(self.fields, answers, strict=bool(self.fields)):
            try:
                value = field.value(answer)
            except _WrongAnswerError as error:
                wrong.append(replace(field, problem=str(error)))
                continue
            if value is not None:
                found[field.name] = value
        return found, replace(self, fields=tuple(wrong)) if wrong else None


def _confirmations() -> tuple[str, str]:
    return t("Accept"), t("Decline")


def form(server: str, message: str, schema: Mapping[str, Any]) -> Form:
    """Return the form of an elicitation. Raises BadRequestError."""
    properties = mapping(schema.get("properties"))
    if schema.get("type", "object") != "object":
        raise BadRequestError("the requested schema must be an object")
    if len(properties) > MOST_FIELDS:
        raise BadRequestError(f"a form may have at most {MOST_FIELDS} fields")
    required = array(schema.get("required"))
    fields = [_field(name, mapping(value), name in required) for name, value in properties.items()]
    return Form(shown_line(server), _words(message, LONGEST_MESSAGE) or "…", tuple(fields))


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    kind: Kind | None = next((known for known in _KINDS if schema.get("type") == known), None)
    if kind is None or len(name) > LONGEST_LABEL:
        raise BadRequestError("a field must be a string, number, integer, boolean or an array of options")
    options = _options(kind, schema)
    if kind == "array" and not options:
        raise BadRequestError("a field of the type array needs options")
    least, most = {
        "string": ("minLength", "maxLength"),
        "array": ("minItems", "maxItems"),
    }.get(kind, ("minimum", "maximum"))
    default = schema.get("default")
    return Field(
        name=name,
        kind=kind,
        title=shown_brief(string(schema.get("title")) or name, LONGEST_LABEL),
        about=_words(string(schema.get("description")), LONGEST_MESSAGE // 4),
        required=required,
        options=options,
        format=string(schema.get("format"))[:20],
        least=_bound(schema.get(least), -math.inf),
        most=_bound(schema.get(most), math.inf),
        default=_default(kind, default, [value for _, value in options]),
    )


def _bound(value: object, otherwise: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and abs(value) < 1e300 else otherwise  # pyright: ignore[reportReturnType, reportArgumentType]


def _default(kind: Kind, value: object, known: Sequence[Value]) -> Value | None:
    """Return a default that is of the field's kind and one of its options, if it has any."""
    if kind == "array":
        chosen = [one for one in array(value) if isinstance(one, str) and one in known]
        return chosen or None
    fits = {
        "string": isinstance(value, str) and 0 < len(value) <= _LONGEST_VALUE,
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
    }[kind]
    return value if fits and (not known or value in known) else None  # pyright: ignore[reportReturnType]


def _options(kind: Kind, schema: Mapping[str, Any]) -> tuple[tuple[str, Value], ...]:
    """Return label and value of each option. Raises BadRequestError."""
    if kind == "boolean":
        return (t("Yes"), True), (t("No"), False)
    if kind in ("integer", "number"):
        return ()
    source = mapping(schema.get("items")) if kind == "array" else schema
    titled = array(source.get("oneOf")) or array(source.get("anyOf"))
    if titled:
        pairs = [(mapping(one).get("const"), mapping(one).get("title")) for one in titled]
    else:
        names = array(schema.get("enumNames"))
        values = array(source.get("enum"))
        pairs = [(value, names[at] if at < len(names) else None) for at, value in enumerate(values)]
    if len(pairs) > MOST_OPTIONS:
        raise BadRequestError(f"a field may have at most {MOST_OPTIONS} options")
    options: dict[str, Value] = {}
    for value, title in pairs:
        if not isinstance(value, str) or not value or len(value) > _LONGEST_VALUE:
            raise BadRequestError("an option must be a short string")
        label = shown_brief(string(title) or value, LONGEST_LABEL)
        if label in options:
            label = shown_brief(f"{label} ({value})", 2 * LONGEST_LABEL)
        if options.setdefault(label, value) != value:
            raise BadRequestError("two options look the same")
    return tuple(options.items())


def _words(text: str, length: int) -> str:
    return shown(plain(cut_text(text.strip(), length)))


def page_question(server: str, message: str, url: str) -> Question:
    """Return the question of a server that wants the user to open a page. Raises BadRequestError."""
    unfit = BadRequestError("the URL must begin with http:// or https://, without a user, and be short")
    if len(url) > LONGEST_URL:  # first: the codec for host names takes a minute for millions of characters
        raise unfit
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
    except (ValueError, UnicodeError) as error:
        raise BadRequestError("the URL is not valid") from error
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise unfit
    lines = [
        t("The MCP server {server} asks you to open a page of {host}:", server=shown_line(server), host=host),
        shown_line(url),
        t("Goalwright does not open it. Open it yourself if you expect this and trust {host}.", host=host),
        _words(message, LONGEST_MESSAGE),
    ]
    yes, no = page_answers()
    return _yes_or_no(lines, yes, no)


def _yes_or_no(lines: Sequence[str], yes: str, no: str) -> Question:
    options = (QuestionOption(label=yes), QuestionOption(label=no))
    return Question(text="\n".join(lines), options=options)


def page_answers() -> tuple[str, str]:
    """Return the labels of the answers to ``page_question``: opened, and not."""
    return t("I have opened it"), t("I do not open it")
