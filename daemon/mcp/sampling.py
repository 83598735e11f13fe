"""Requests of MCP servers for an answer of the model: checked, bounded and shown before anything is sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.mcp.elicitation import BadRequestError
from tools.access import suggestions
from tools.localization import t
from tools.redaction.redactor import SECRETS
from tools.text.terminal import plain, shown, shown_line
from tools.text.truncate import abridged
from tools.tool import PermissionAsk
from tools.tool_names import MCP_SAMPLING

if TYPE_CHECKING:
    import mcp_types as types

    from tools.ports import SideMessage

MOST_TOKENS = 4_000
"""Tokens of an answer, whatever the server wants."""
MOST_CHARACTERS = 200_000
"""Characters of everything that is sent."""
MOST_MESSAGES = 500
_SHOWN = 4_000
"""Characters that the user sees; the middle of a longer text is left out."""
_TASK = "Answer the request of a program. You have no tools."


class SamplingRequest(Struct, frozen=True):
    """A request for an answer of the model."""

    system: str
    messages: tuple[SideMessage, ...]
    max_tokens: int

    @property
    def characters(self) -> int:
        """How much is sent."""
        return len(self.system) + sum(len(text) for _, text in self.messages)

    def question(self, server: str, model: str, *, other: bool = False) -> PermissionAsk:
        """Return the question to the user. ``other``: "always" was said to another server of this name."""
        whole = "\n\n".join([f"system: {self.system}", *(f"{role}: {text}" for role, text in self.messages)])
        # A name with wildcards would grant it to other servers.
        own = not set("*?[") & set(server)
        return PermissionAsk(
            MCP_SAMPLING,
            (server,),
            t(
                "The MCP server {server} wants an answer of {model}",
                server=shown_line(server),
                model=shown_line(model),
            ),
            suggestions=suggestions(MCP_SAMPLING, (server,)) if own else (),
            leaves=t("another server had this name when you allowed it") if other else "",
            detail=shown(plain(abridged(whole, _SHOWN))),
            notes=(
                t(
                    "It sends {characters:,} characters and gets up to {tokens:,} tokens. The model sees nothing of "
                    "your session, and its answer goes to the server. The session pays.",
                    characters=self.characters,
                    tokens=self.max_tokens,
                ),
            ),
        )


def sample(params: types.CreateMessageRequestParams) -> SamplingRequest:
    """Return the request of a server. Raises BadRequestError."""
    if params.tools:
        raise BadRequestError("the model is not given tools")
    told: list[SideMessage] = []
    for message in params.messages[: MOST_MESSAGES + 1]:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        for block in blocks:
            if block.type != "text":
                raise BadRequestError("only text can be sent to the model")
            told.append((message.role, block.text))
    made = SamplingRequest(params.system_prompt or _TASK, tuple(told), min(params.max_tokens, MOST_TOKENS))
    if not any(text.strip() for _, text in told) or made.max_tokens < 1:
        raise BadRequestError("it must have a message and max_tokens of at least 1")
    # Before secrets are looked for, which takes seconds in the longest message that a server may send.
    if made.characters > MOST_CHARACTERS or len(told) > MOST_MESSAGES:
        raise BadRequestError(
            f"it may have at most {MOST_CHARACTERS:,} characters in {MOST_MESSAGES} messages"
        )
    # A server may repeat a key that it was given.
    messages = tuple((role, SECRETS.text(text)) for role, text in told)
    return replace(made, system=SECRETS.text(made.system), messages=messages)
