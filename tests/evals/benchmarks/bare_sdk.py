"""Send the same requests through the SDK with no harness around it: ``python -m tests.evals.benchmarks.bare_sdk URL <
bodies``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.support.drivers.goalwright import KEY


async def _main(url: str, bodies: list[dict[str, Any]]) -> None:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as client:
        create: Any = client.messages.create  # its overloads do not fit a body that was recorded
        for body in bodies:
            stream = await create(**body)
            async for _ in stream:
                pass


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.load(sys.stdin)))
