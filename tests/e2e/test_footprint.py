import sys

from tests.support.drivers.goalwright import Goalwright, finished, installed
from tests.support.fakes.model_server import ModelServer

_HEAVY = {"msgspec", "pydantic", "pygls", "lsprotocol", "aiohttp", "_ssl", "yaml", "importlib.metadata"}


async def _imported(goalwright: Goalwright, *args: str) -> set[str]:
    argv = [sys.executable, "-X", "importtime", "-I", "-m", "goalwright", *args]
    done = (
        await finished(
            [*argv, "--workspace", str(goalwright.workspace)], goalwright.env, goalwright.workspace
        )
    ).check()
    assert "import time:" in done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line}


async def test_a_run_in_the_terminal_imports_nothing_heavy() -> None:
    async with ModelServer(["Hello."]) as server, installed(url=server.url) as goalwright:
        goalwright.configure(diagnostics=False)
        imported = await _imported(goalwright, "run", "Say hello.", "--yes")
        assert sorted(imported & _HEAVY) == []
        assert len(server.requests) == 1
