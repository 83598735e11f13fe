"""The base of all stored and sent models.

One model, two spellings: ``snake_case`` in the store (the seeds' formats) and ``camelCase`` on the wire.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Frozen; read from either spelling; unknown fields of a newer version are ignored."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    def stored(self) -> dict[str, Any]:
        """JSON-able dict for the store, in snake_case."""
        return self.model_dump(mode="json")

    def wire(self) -> dict[str, Any]:
        """JSON-able dict for JSON-RPC, in camelCase."""
        return self.model_dump(mode="json", by_alias=True)
