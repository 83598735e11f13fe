"""Requests of MCP servers for an answer of the model, as they come in."""

from __future__ import annotations

import mcp_types as types
import pytest

from daemon.mcp import sampling
from daemon.mcp.elicitation import BadRequestError
from tools.redaction.redactor import Redactor


class Counting(Redactor):
    """Counts the characters that it has looked at."""

    looked_at = 0

    def text(self, text: str) -> str:
        self.looked_at += len(text) or 1
        return super().text(text)


def params(*texts: str) -> types.CreateMessageRequestParams:
    said = [
        types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
        for text in texts
    ]
    return types.CreateMessageRequestParams(messages=said, max_tokens=10)


def test_secrets_of_the_user_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SECRETS", Redactor(["key-of-the-server"]))
    made = sampling.sample(params("Hello", "I have key-of-the-server"))
    assert made.messages == (("user", "Hello"), ("user", "I have [redacted: …rver]"))


@pytest.mark.parametrize("texts", [["x" * 150_000] * 80, ["x"] * 20_000])
def test_secrets_are_not_looked_for_in_what_is_too_much(
    monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    secrets = Counting()
    monkeypatch.setattr(sampling, "SECRETS", secrets)
    with pytest.raises(BadRequestError, match="at most 200,000 characters in 500 messages"):
        sampling.sample(params(*texts))
    assert secrets.looked_at == 0
