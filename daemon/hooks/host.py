"""The process in which Python hooks run: started with the workspace as its argument, JSON lines in and out.

Apart from the daemon, so that a function that hangs, calls ``os._exit`` or eats memory takes nothing else with it.
One call at a time, so that it is known which function it was. Imports the standard library only.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from tools.localization import t
from tools.text.truncate import head, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_ANSWER = 64 * 1024
"""Bytes; as daemon.hooks.answer.MAX_OUTPUT, which is not imported here."""
MAX_MEMORY = 4 * 1024**3
"""Bytes of address space."""


def main() -> None:
    """Serve until stdin ends."""
    if len(sys.argv) > 1:
        from daemon.safe_path import protect

        protect(sys.argv[1], through_current_folder=False)
    _free_names()
    calls, answers = _own_pipes()
    _be_modest()
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in calls:
            waiting.put(line)
        os._exit(0)  # the daemon has gone; the main thread may hang in a hook

    threading.Thread(target=read, daemon=True).start()
    serve(waiting.get, answers)


def serve(next_line: Callable[[], bytes], answers: BinaryIO) -> None:
    """Answer calls forever."""
    functions: dict[str, Callable[[object], object]] = {}
    loop = asyncio.new_event_loop()
    while True:
        call = cast("dict[str, object]", json.loads(next_line()))
        try:
            value = str(call["function"])
            if value not in functions:
                functions[value] = _load(value)
            answer = functions[value](call["payload"])
            if inspect.isawaitable(answer):
                answer = loop.run_until_complete(_awaited(answer))
            reply = _line({"id": call["id"], "answer": answer})
            if len(reply) > MAX_ANSWER:
                raise ValueError(
                    t("its answer is larger than {max_answer} KB", max_answer=MAX_ANSWER // 1024)
                )
        except BaseException as error:  # including SystemExit: a hook must not end the process of other hooks
            last = "".join(traceback.format_exception_only(error)).strip()
            shown = "".join(traceback.format_exception(error))
            reply = _line({"id": call["id"], "error": head(last, 2_000), "traceback": tail(shown, 8_000)})
        answers.write(reply)
        answers.flush()


async def _awaited(answer: object) -> object:
    return await cast("asyncio.Future[object]", answer)


def _load(value: str) -> Callable[[object], object]:
    from importlib.metadata import EntryPoint

    function: object = EntryPoint(name="hook", value=value, group="goalwright.hooks").load()
    if not callable(function):
        raise TypeError(t("{value} is not a function", value=value))
    return cast("Callable[[object], object]", function)


def _line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _free_names() -> None:
    """Hooks that import a ``daemon`` or ``tools`` mean one of their own environment, such as python-daemon."""
    home = str(Path(__file__).resolve().parents[2])
    sys.path[:] = [folder for folder in sys.path if str(Path(folder).resolve()) != home]
    for name in list(sys.modules):
        if name.partition(".")[0] in ("daemon", "lsp_bridge", "tools"):
            del sys.modules[name]


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our ends of the pipes, out of reach: what hooks print must not pass for an answer."""
    calls, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return os.fdopen(calls, "rb"), os.fdopen(answers, "wb")


def _be_modest() -> None:
    """When memory runs out it is this process that fails, not the daemon or the editor."""
    if sys.platform == "win32":
        return
    import resource

    try:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (OSError, ValueError):
        pass  # not every system has such a limit
    try:
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    except OSError:
        pass  # Linux only


if __name__ == "__main__":
    main()
