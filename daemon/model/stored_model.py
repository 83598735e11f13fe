"""The base of all stored and sent models.

One model, two spellings: ``snake_case`` in the store (the seeds' formats) and ``camelCase`` on the wire.
"""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

_MOST = 10**15


def _counted(value: object) -> object:
    if type(value) is int and 0 <= value <= _MOST:
        return value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value  # pydantic reports that it is no number
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return min(max(value, 0), _MOST)
    return value


def _spent(value: float) -> float:
    return min(max(value, 0.0), float(_MOST)) if math.isfinite(value) else 0.0


Count = Annotated[int, BeforeValidator(_counted)]
"""A number of tokens, messages or milliseconds. Invalid values (negative, NaN) are read as 0, not rejected: a damaged
trace still opens, and a forged one cannot reduce the usage."""
Cost = Annotated[float, AfterValidator(_spent)]
"""US dollars, read in the same way."""


class Model(BaseModel):
    """Frozen; read from either spelling; unknown fields of a newer version are ignored.

    Its validator is made when the first of its kind is: a daemon meets few kinds in its life, and making all of them
    takes a fifth of its start. Modules of models leave out ``from __future__ import annotations`` where none refers to
    a later one: pydantic would compile each annotation from its text, 10 ms of a start in all.
    """

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True
    )

    def stored(self) -> dict[str, Any]:
        """JSON-able dict for the store, in snake_case."""
        return self.model_dump(mode="json")

    def wire(self) -> dict[str, Any]:
        """JSON-able dict for JSON-RPC, in camelCase."""
        return self.model_dump(mode="json", by_alias=True)
