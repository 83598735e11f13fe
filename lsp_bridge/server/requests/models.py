"""Requests about models: which there are, whether a name is one of them, and whether a model answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from daemon.provider import catalogue, pricing
from daemon.provider.base import ProviderError
from daemon.provider.choose import is_provider_variable
from daemon.provider.commit_message import commit_message
from lsp_bridge.protocol import methods as p
from lsp_bridge.protocol.handshake import RequestError
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.model.base import Model


class ModelRequests:
    """The requests of one connection about models. ``env``: what its client has handed over."""

    def __init__(self, env: Callable[[], dict[str, str]]) -> None:
        self._env = env
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/model/list": self.list,
            "goalwright/model/test": self.test,
            "goalwright/model/check": self.check,
            "goalwright/model/commitMessage": self.commit_message,
        }

    async def list(self, params: p.ModelListParams) -> p.ModelListResult:
        """Providers with their models."""
        if params.provider is not None and params.provider not in catalogue.PROVIDER_IDS:
            raise RequestError(
                p.INVALID_PARAMS,
                t(
                    "There is no provider {provider!r}. Choose one of: {known}.",
                    provider=params.provider,
                    known=", ".join(catalogue.PROVIDER_IDS),
                ),
            )
        found = await catalogue.providers(self._with(params.env), params.provider)
        return p.ModelListResult(
            providers=tuple(p.ModelProvider.model_validate(asdict(one)) for one in found)
        )

    async def test(self, params: p.ModelTestParams) -> p.ModelTestResult:
        """Whether a model answers."""
        info = pricing.model_info(params.model)
        price = info.price
        known = p.ModelTestResult(
            window=info.context_window,
            input_price=price.input if price else None,
            output_price=price.output if price else None,
        )
        try:
            seconds = await catalogue.tested(params.model, self._with(params.env))
        except ProviderError as error:
            return known.model_copy(update={"error": str(error), "error_kind": error.kind})
        return known.model_copy(update={"seconds": round(seconds, 3)})

    async def check(self, params: p.ModelCheckParams) -> p.ModelCheckResult:
        """Whether a name is one of its provider's models."""
        return p.ModelCheckResult(problem=await catalogue.check(params.model, self._env()))

    async def commit_message(self, params: p.CommitMessageParams) -> p.CommitMessageResult:
        """The message of a commit."""
        try:
            message = await commit_message(params.model, self._with({}), params.changes, params.recent)
        except ProviderError as error:
            return p.CommitMessageResult(error=str(error), error_kind=error.kind)
        return p.CommitMessageResult(message=message)

    def _with(self, more: Mapping[str, str]) -> dict[str, str]:
        """The client's variables with ``more`` over them; what is secret among them stays out of logs and traces."""
        env = {**self._env(), **{name: value for name, value in more.items() if is_provider_variable(name)}}
        SECRETS.register_env(env)
        return env
