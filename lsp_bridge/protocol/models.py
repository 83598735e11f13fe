"""The wire of models: which there are, and whether one answers."""

from __future__ import annotations

from pydantic import Field

from daemon.model.stored_model import Count, Model

MAX_PIECE = 4_000_000
"""Most characters of one piece of an answer."""


class ModelListParams(Model):
    """Ask for providers and their models. ``env``: provider variables over those of this client, e.g. a key that the
    user has just entered; they are used for this answer alone."""

    provider: str | None = None
    """One provider's id; null: all."""
    env: dict[str, str] = Field(default_factory=dict, repr=False)


class OfferedModel(Model):
    """A model that can be chosen. Prices: US dollars for a million tokens; null: not known."""

    model: str
    window: int
    window_assumed: bool = False
    """``window`` is only a guess."""
    input_price: float | None = None
    output_price: float | None = None
    label: str = ""
    """Its name for people, where it differs much from ``model``."""


class ModelProvider(Model):
    """A provider, and its models."""

    id: str
    name: str
    key_variable: str = ""
    """The environment variable that holds its key; empty: it needs none."""
    url_variable: str = ""
    """The environment variable that holds its address, for servers that have none of their own."""
    key_page: str = ""
    """Where keys are made."""
    how: str = ""
    """How it is set up, as text for the user, where the two variables do not say it."""
    connected: bool = False
    """It has a key or an address, or answers on this machine."""
    models: tuple[OfferedModel, ...] = ()
    default: str = ""
    """The model to begin with; empty: none is offered."""
    error: str = ""
    """Why its models are unknown, as text for the user."""
    error_kind: str | None = None
    """``auth``, ``network`` …"""


class ModelListResult(Model):
    """Providers in the order in which they are shown."""

    providers: tuple[ModelProvider, ...]


class ModelTestParams(Model):
    """Have a model answer one word. ``env``: as in ``ModelListParams``."""

    model: str
    env: dict[str, str] = Field(default_factory=dict, repr=False)


class ModelTestResult(Model):
    """The result of the test. ``error``: why there was no answer, as text for the user; other fields may still be
    set."""

    window: int
    window_assumed: bool = False
    """``window`` is only a guess."""
    input_price: float | None = None
    output_price: float | None = None
    seconds: float = 0
    error: str = ""
    error_kind: str | None = None
    """``no_key``, ``auth``, ``bad_request``, ``network`` …"""


class ModelCheckParams(Model):
    """Compare a model's name with what its provider lists."""

    model: str


class ModelCheckResult(Model):
    """``problem``: the problem with the name, as text for the user; empty when none is known."""

    problem: str = ""


class AnswerPiece(Model):
    """More of an answer: text, reasoning, or a whole tool call."""

    text: str = Field(default="", max_length=MAX_PIECE)
    reasoning: str = Field(default="", max_length=MAX_PIECE)
    call_id: str = Field(default="", max_length=1_000)
    call_name: str = Field(default="", max_length=1_000)
    """Name of the tool; empty: no call."""
    call_input: str = Field(default="", max_length=MAX_PIECE)
    """Its arguments, as JSON."""


class AnswerEnding(Model):
    """The end of an answer."""

    error: str = Field(default="", max_length=100)
    """Name of the error that ended it: ``NoPermissions``, ``NotFound``, ``Blocked``, ``OffTopic``, or another one;
    empty: it is complete."""
    message: str = Field(default="", max_length=10_000)
    input_tokens: Count | None = None
    """As the model's extension counts them; null: not known."""
    output_tokens: Count | None = None


class ModelAnswerParams(Model):
    """Send more of the answer that ``goalwright/editor/chat`` asked for. Wait for the result before the next piece."""

    chat_id: str
    pieces: tuple[AnswerPiece, ...] = Field(default=(), max_length=10_000)
    ending: AnswerEnding | None = None


class ModelAnswerResult(Model):
    """``wanted``: false when nothing more of this answer is wanted."""

    wanted: bool


class CommitMessageParams(Model):
    """Have a model write the message of a commit."""

    model: str
    changes: str
    """A diff. A part that is too long for a message is cut at its end."""
    recent: tuple[str, ...] = ()
    """Subjects of earlier commits, newest first: the message is written like them."""


class CommitMessageResult(Model):
    """``error``: why there is no message, as text for the user."""

    message: str = ""
    error: str = ""
    error_kind: str | None = None
    """As in ``ModelTestResult``."""
