"""Validate a client's choice of model, mode or limit for a session, with a message when it is not possible."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from daemon.model.traces import Budget
from daemon.provider.choose import parse_model
from daemon.trust import mode_in_force
from lsp_bridge.protocol.handshake import RequestError
from tools.localization import noted, t

if TYPE_CHECKING:
    from daemon.config import Config
    from daemon.model.permissions import Mode, Trust

_NEEDS_TRUST = noted(
    "only works in folders that you trust. If this one is yours, run `goalwright trust` in it, or trust it "
    "in the editor."
)


def check_model(model: str) -> None:
    """Raises RequestError when it is not of the form ``provider/model``."""
    try:
        parse_model(model)
    except ValueError as error:
        raise RequestError(str(error)) from error


def check_mode(mode: Mode, trust: Trust) -> None:
    """Raises RequestError when the folder's trust does not allow it."""
    if mode_in_force(mode, trust) == mode:
        return
    if trust == "restricted":
        raise RequestError(
            t(
                "The mode {mode} is not available in a folder that you do not trust: nothing is changed or "
                "run there. Trust it in the editor first.",
                mode=mode,
            )
        )
    raise RequestError(t("The mode {mode} {needs_trust}", mode=mode, needs_trust=t(_NEEDS_TRUST)))


def mode_notice(config: Config, trust: Trust) -> str:
    """Return why the mode of the settings is not the one in force."""
    if config.settings.approval.mode != "auto" or trust == "trusted":
        return ""
    return t("The mode auto {needs_trust}", needs_trust=t(_NEEDS_TRUST))


def check_budget(budget: Budget) -> None:
    """Raises RequestError for limits that are none."""
    if not budget.model_fields_set:
        # An empty object, or an unknown name, would otherwise mean "no limits" and remove those of the settings.
        names = ", ".join(to_camel(name) for name in Budget.model_fields)
        raise RequestError(
            t(
                "Name a limit: {names}. Null means no limit; limits that you leave out are removed.",
                names=names,
            )
        )
    limits = {
        "money": (budget.session_usd, budget.goal_usd),
        "tokens": (budget.session_tokens, budget.goal_tokens),
    }
    for unit, values in limits.items():
        for value in values:
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise RequestError(
                    t(
                        "A limit of {value:g} ({unit}) is not valid: give 0 or more, or null for no limit.",
                        value=value,
                        unit=unit,
                    )
                )
