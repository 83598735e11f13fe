"""The wire of models: which there are, and whether one answers."""

from pydantic import Field

from daemon.model.stored_model import Model
from daemon.provider.catalogue import ModelProvider
from daemon.provider.editor_models import AnswerEnding, AnswerPiece


class ModelListParams(Model):
    """Ask for providers and their models. ``env``: provider variables over those of this client, e.g. a key that the
    user has just entered; they are used for this answer alone."""

    provider: str | None = None
    """One provider's id; null: all."""
    env: dict[str, str] = Field(default_factory=dict, repr=False)


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
