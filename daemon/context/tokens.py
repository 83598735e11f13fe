"""Estimate tokens without a network; the estimates are calibrated by the provider's counts.

Measured with the tokenizers that litellm brings (Anthropic's older one, cl100k, o200k): code has 3.4 to 4.2 characters
a token, numbered lines 3.6, output of commands 2.4 to 3, and everything beyond ASCII about one more token for three
bytes more. Newer models count more than these, so the estimate is at the low end of characters a token.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from daemon.model.messages import FilePart, Part
    from daemon.provider.model_calls import ModelRequest, PromptMessage, ToolSpec

IMAGE_TOKENS = 1_600
"""An image as large as the providers take it unscaled (about 1.15 megapixels)."""
PAGES_TOKENS = 3_000
"""Estimated tokens of a document whose pages are unknown."""
_MESSAGE = 4
_CALL = 12
_RESULT = 8
"""Tokens of a provider's framing around each message, call and result."""
_LEAST, _MOST = 0.5, 3.0
_NEWEST = 0.5
"""Share of the newest count in a calibration."""


class RequestTokens(Struct, frozen=True):
    """Estimated tokens of a request by layer."""

    system: int
    tools: int
    messages: int
    tail: int

    @property
    def total(self) -> int:
        """All layers."""
        return self.system + self.tools + self.messages + self.tail


def estimate_tokens(text: str) -> int:
    """Tokens of a text, estimated; takes a fraction of a microsecond for ASCII, whatever its length."""
    length = len(text)
    if text.isascii():
        return (length * 100 + 339) // 340
    # Bytes beyond one per character: 2 for a Chinese character, 1 for a Cyrillic letter, 3 for an emoji.
    extra = len(text.encode("utf-8", "surrogatepass")) - length
    return (length * 100 + extra * 120 + 339) // 340


def part_tokens(part: Part) -> int:
    """Tokens of one part of a message; marks that are not sent have none."""
    # Compare the name of the type, because isinstance() asks pydantic, which takes ten times as long.
    if part.type == "tool_result":
        tokens = _RESULT + estimate_tokens(part.content)
        return tokens + sum(map(_file_tokens, part.images)) if part.images else tokens
    if part.type == "tool_call":
        return _CALL + estimate_tokens(part.name) + estimate_tokens(part.input)
    if part.type == "text" or part.type == "note":
        return estimate_tokens(part.text)
    if part.type == "reasoning":
        # Redacted reasoning is base64, about as long as the text that it hides.
        return estimate_tokens(part.text) if part.redacted is None else len(part.redacted) // 5
    if part.type == "file":
        return _file_tokens(part)
    return estimate_tokens(part.prompt) if part.type == "subtask" else 0


def message_tokens(message: PromptMessage) -> int:
    """Return the tokens of a message in a request."""
    return _MESSAGE + sum([part_tokens(part) for part in message.content])


def request_tokens(request: ModelRequest) -> RequestTokens:
    """Tokens of a whole request by our own count, uncalibrated."""
    return RequestTokens(
        system=sum(estimate_tokens(block.text) for block in request.system),
        tools=sum(map(tool_tokens, request.tools)),
        messages=sum(map(message_tokens, request.messages)),
        tail=estimate_tokens(request.tail),
    )


def tool_tokens(tool: ToolSpec) -> int:
    """Tokens of a tool's definition."""
    return (
        _CALL + estimate_tokens(tool.name) + estimate_tokens(tool.description) + _schema_tokens(tool.schema)
    )


def calibrated(ratio: float, counted: int, estimated: int) -> float:
    """Return the ratio of counted to estimated tokens after one more call; ``ratio`` is the one before it (1.0 at
    first).

    Halfway to the newest, so that one odd count does not decide, and within 0.5 to 3: beyond that the numbers are
    wrong, not the estimate.
    """
    if counted <= 0 or estimated <= 0:
        return ratio
    newest = min(max(counted / estimated, _LEAST), _MOST)
    return min(max(ratio + (newest - ratio) * _NEWEST, _LEAST), _MOST)


def stored_calibration(ratio: float) -> float:
    """Return a ratio that was read from a file, within the same bounds; 1.0 when it is no number."""
    return min(max(ratio, _LEAST), _MOST) if math.isfinite(ratio) else 1.0


def _schema_tokens(schema: object) -> int:
    # Estimate JSON without creating it: the quotes, the colon and the comma around each name and value.
    return estimate_tokens(repr(schema))


def _file_tokens(part: FilePart) -> int:
    if part.data is None:
        return 8 + estimate_tokens(part.name)
    if part.media_type.startswith("image/") and part.media_type != "image/svg+xml":
        return IMAGE_TOKENS
    if part.media_type == "application/pdf":
        return PAGES_TOKENS
    # The file is sent as the text that the base64 encodes.
    return 8 + estimate_tokens(part.name) + len(part.data) * 3 // 4 * 100 // 340
