"""System prompts in the record of a session."""

from __future__ import annotations

from daemon.model.base import Model


class PromptLayer(Model):
    """A layer of a system prompt."""

    name: str
    """``agent``, ``provider``, ``environment``, ``project``, ``instructions <path>``, ``hooks``, …"""
    sha256: str
    """Of its text without secrets."""
    text: str | None = None
    """None: an earlier event of the same record has it."""


class RecordedPrompt(Model):
    """The part of a record that tells whether the system prompt has changed."""

    sha256: str = ""
    """Of the prompt that was recorded last; empty when none was, as in traces of older versions."""
    layers: tuple[str, ...] = ()
    """Hashes of the layers whose texts the record has."""
