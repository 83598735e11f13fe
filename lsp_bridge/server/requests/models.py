"""Requests about models: which there are, whether a name is one of them, and whether a model answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.provider import catalogue, pricing
from daemon.provider.choose import is_provider_variable
from daemon.provider.commit_message import commit_message
from daemon.provider.editor_models import EDITORS
from daemon.provider.model_calls import ProviderError
from lsp_bridge.protocol import models as p
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Mapping


class ModelRequests(RequestArea):
    """The requests of one connection about models."""

    @request("goalwright/model/list", changes=False)
    async def list(self, params: p.ModelListParams) -> p.ModelListResult:
        """List the providers with their models."""
        if params.provider is not None and params.provider not in catalogue.PROVIDER_IDS:
            raise RequestError(
                t(
                    "There is no provider {provider!r}. Choose one of: {known}.",
                    provider=params.provider,
                    known=", ".join(catalogue.PROVIDER_IDS),
                )
            )
        found = await catalogue.providers(self._with(params.env), params.provider)
        return p.ModelListResult(providers=tuple(found))

    @request("goalwright/model/test", changes=False)
    async def test(self, params: p.ModelTestParams) -> p.ModelTestResult:
        """Try whether a model answers."""
        info = pricing.model_info(params.model)
        price = info.price
        known = p.ModelTestResult(
            window=info.context_window,
            window_assumed=info.window_assumed,
            input_price=price.input if price else None,
            output_price=price.output if price else None,
        )
        try:
            seconds = await catalogue.tested(params.model, self._with(params.env))
        except ProviderError as error:
            return known.model_copy(update={"error": str(error), "error_kind": error.kind})
        return known.model_copy(update={"seconds": round(seconds, 3)})

    @request("goalwright/model/check", changes=False)
    async def check(self, params: p.ModelCheckParams) -> p.ModelCheckResult:
        """Say whether a name is one of its provider's models."""
        return p.ModelCheckResult(problem=await catalogue.check(params.model, self._context.provider_env()))

    @request("goalwright/model/commitMessage", changes=False)
    async def commit_message(self, params: p.CommitMessageParams) -> p.CommitMessageResult:
        """Write the message of a commit."""
        try:
            message = await commit_message(params.model, self._with({}), params.changes, params.recent)
        except ProviderError as error:
            return p.CommitMessageResult(error=str(error), error_kind=error.kind)
        return p.CommitMessageResult(message=message)

    @request("goalwright/model/answer", changes=False)
    async def answer(self, params: p.ModelAnswerParams) -> p.ModelAnswerResult:
        """Take more of an answer of a model of this editor."""
        try:
            wanted = EDITORS.take(self._context.client.editor, params.chat_id, params.pieces, params.ending)
        except ValueError as error:
            raise RequestError(str(error)) from error
        return p.ModelAnswerResult(wanted=wanted)

    def _with(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the client's variables with ``more`` over them; secrets among them stay out of logs and traces."""
        more = {name: value for name, value in more.items() if is_provider_variable(name)}
        env = {**self._context.provider_env(), **more}
        SECRETS.register_env(env)
        return env
