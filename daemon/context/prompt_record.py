"""The system prompts of a session as its record has them: one event a change, each layer's text stored once. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.model.events import SystemPromptChanged
from daemon.model.traces import PromptLayer, RecordedPrompt
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from daemon.context.prompt import Layer


def changed_prompt(
    layers: Sequence[Layer], recorded: RecordedPrompt, trace_id: str, now: datetime
) -> SystemPromptChanged | None:
    """Return the event that records ``layers``; None when they are the prompt that was recorded last.

    Hashes are those of the texts without secrets, so that they reveal nothing about a secret.
    """
    known = set(recorded.layers)
    found: list[PromptLayer] = []
    for layer in layers:
        text = SECRETS.text(layer.text)
        sha256 = _sha256(text)
        found.append(PromptLayer(name=layer.name, sha256=sha256, text=None if sha256 in known else text))
        known.add(sha256)
    whole = _sha256("".join(f"{layer.name}\n{layer.sha256}\n" for layer in found))
    if whole == recorded.sha256:
        return None
    return SystemPromptChanged(trace_id=trace_id, time=now, sha256=whole, layers=tuple(found))


def with_prompt(recorded: RecordedPrompt, event: SystemPromptChanged) -> RecordedPrompt:
    """Return ``recorded`` after one more change."""
    layers = dict.fromkeys((*recorded.layers, *(layer.sha256 for layer in event.layers)))
    return RecordedPrompt(sha256=event.sha256, layers=tuple(layers))


class PromptHistory(Struct):
    """The system prompts that were in force, oldest first."""

    changes: list[SystemPromptChanged] = field(default_factory=list[SystemPromptChanged])
    _texts: dict[str, str] = field(default_factory=dict[str, str])

    def apply(self, event: SystemPromptChanged) -> None:
        """Take one change into account."""
        self.changes.append(event)
        self._texts.update((layer.sha256, layer.text) for layer in event.layers if layer.text is not None)

    def text(self, layer: PromptLayer) -> str:
        """Return the text of a layer; a damaged log may have lost it."""
        return self._texts.get(layer.sha256, "(The text of this layer is missing in the trace.)")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
