"""Models ``vscode/VENDOR/ID``: an attached VS Code window asks the extension that offers them. No key is needed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from daemon.model.messages import Usage
from daemon.provider import errors, openai_wire
from daemon.provider.editor_models import EDITORS, HOST, AnswerEnding, EditorModels
from daemon.provider.model_calls import ModelRequest, ProviderError, ProviderEvents
from daemon.provider.openai_stream import AnswerBuilder
from tools.localization import t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILY = "vscode"
_LETTERS_A_TOKEN = 4
_STATUS = re.compile(r"\b(?:status|code|http|error|failed)\W{0,3}(4\d\d|5\d\d)\b", re.IGNORECASE)
_BUSY = re.compile(r"rate.?limit|too many requests", re.IGNORECASE)
_SPENT = re.compile(r"quota|premium requests|exhausted", re.IGNORECASE)
_UNREACHED = re.compile(
    r"net::|fetch failed|ECONN|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|socket hang up|network", re.IGNORECASE
)
_MAX_WORDS = 600


class VSCodeProvider:
    """Implements ``Provider`` over the language models of an attached editor."""

    def __init__(self, editors: EditorModels = EDITORS, *, silence_s: float = 600.0) -> None:
        """``silence_s``: seconds without a piece until a call counts as dead; VS Code may be asking the user."""
        self._editors = editors
        self._silence_s = silence_s

    async def stream(self, request: ModelRequest) -> ProviderEvents:
        """Play one call; see ``Provider.stream``."""
        editor = await self._editors.awaited(request.env)
        if editor is None:
            raise _no_window(request.model)
        messages = openai_wire.to_messages(request)
        answer = AnswerBuilder(f"{FAMILY}/{request.model}", HOST)
        chat = self._editors.begin(editor)
        sent = calls = 0
        try:
            await editor.ask(chat.id, request.model, messages, openai_wire.tools(request.tools))
            async for item in chat.items(self._silence_s):
                if isinstance(item, AnswerEnding):
                    if item.error:
                        raise _error(item, request)
                    answer.usage = _counted(item, _letters(messages), sent)
                    for event in answer.end(finished=True):
                        yield event
                    return
                sent += item.size
                events = answer.say("reasoning", item.reasoning) if item.reasoning else []
                events += answer.say("text", item.text) if item.text else []
                if item.call_name:
                    events += answer.call(calls, item.call_id, item.call_name, item.call_input or "{}")
                    calls += 1
                for event in events:
                    yield event
        finally:
            self._editors.finish(chat)


def _counted(ending: AnswerEnding, letters: int, sent: int) -> Usage:
    """Return the tokens: counted by the model's extension, else estimated."""
    given, made = ending.input_tokens, ending.output_tokens
    return Usage(
        input=letters // _LETTERS_A_TOKEN if given is None else given,
        output=sent // _LETTERS_A_TOKEN if made is None else made,
    )


def _letters(messages: Sequence[dict[str, Any]]) -> int:
    """Count the characters of all texts and calls; images are left out."""
    found = 0
    for message in messages:
        content: Any = message.get("content")
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content or ()]
        calls = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
        found += sum(map(len, (*texts, *calls)))
    return found


def _no_window(model: str) -> ProviderError:
    return ProviderError(
        "bad_request",
        t(
            "{model} is a model of VS Code, and no VS Code window has this folder open. Open the folder in VS Code, "
            "and continue the turn; or choose another model.",
            model=f"{FAMILY}/{model}",
        ),
    )


def _error(ending: AnswerEnding, request: ModelRequest) -> ProviderError:
    """Return the ProviderError for a call that failed in the editor."""
    model = f"{FAMILY}/{request.model}"
    said = errors.redact(head(" ".join(ending.message.split()), _MAX_WORDS), request.env)
    match ending.error:
        case "NoPermissions":
            return ProviderError(
                "auth",
                t(
                    "VS Code does not let Goalwright use {model}. Send again and allow it, or allow it with the "
                    "command Manage Language Model Access… of VS Code.",
                    model=model,
                ),
            )
        case "NotFound":
            return ProviderError(
                "bad_request",
                t(
                    "VS Code has no model {model} at the moment. Check that its extension is enabled and signed in, "
                    "or choose another model.",
                    model=model,
                ),
            )
        case "Blocked":
            return _spent(model, said)
        case "OffTopic":
            return ProviderError(
                "bad_request",
                t(
                    "{model} rejected the request because it is off-topic. Ask about code, or choose another model.",
                    model=model,
                ),
            )
        case _:
            return _failed(model, said or ending.error, request)


def _spent(model: str, said: str) -> ProviderError:
    return ProviderError(
        "rate_limit",
        t(
            "VS Code blocked the use of {model}: its quota may be used up. Check the account of its extension, or "
            "choose another model. It said: {words}",
            model=model,
            words=said or "–",
        ),
    )


def _failed(model: str, said: str, request: ModelRequest) -> ProviderError:
    """Return the ProviderError for a failure of the extension's own, whose text is all that is known."""
    found, spent = _STATUS.search(said), _SPENT.search(said) is not None
    status = int(found[1]) if found else 429 if spent or _BUSY.search(said) else None
    failure = errors.Failure(status, "insufficient_quota" if spent else "", said)
    kind, retryable = errors.classify(failure)
    if kind == "overflow":
        return errors.error_for(failure, host=HOST, key_name=model, env=request.env)
    if kind == "auth":
        words = t(
            "The extension of {model} is not signed in, or may not use it. Sign in to it in VS Code, or choose "
            "another model. It said: {words}",
            model=model,
            words=said,
        )
        return ProviderError(kind, words)
    if kind == "rate_limit" and not retryable:
        return _spent(model, said)
    if kind == "bad_request" and _UNREACHED.search(said):
        kind, retryable = "network", True
    words = t("The extension of {model} failed. It said: {words}", model=model, words=said)
    return ProviderError(kind, words, retryable=retryable)
