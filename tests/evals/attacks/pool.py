"""Gives attack lines to workers, each a process with a field of its own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.evals.attacks.field import DAEMON_CANARY, SECRET_NAMES, remove
from tests.evals.attacks.lines import Line
from tests.evals.attacks.worker import Played, Rules

Backend = Literal["bwrap", "landlock", "none"]
REPOSITORY = Path(__file__).resolve().parents[3]
_PLACES = ("/srv", "/opt", "~/.cache", "~")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SANDBOX: dict[Backend, dict[str, Any]] = {
    "bwrap": {"sandbox": "workspace-write"},
    "landlock": {"sandbox": "workspace-write"},
    "none": {"sandbox": "off"},
}
"""Configurations of the back ends; the product uses ``landlock`` where there is no bwrap."""


def play_all(
    some: Sequence[Line],
    *,
    backend: Backend = "bwrap",
    rules: Rules = "wild",
    user: str = "",
    workers: int = 2,
    told: Callable[[Line, Played], None] = lambda line, played: None,
) -> list[tuple[Line, Played]]:
    """Play lines and return what became of each, in their order. ``told`` is called after each, from any thread.

    ``user``: play as that user; needs root.
    """
    waiting: queue.SimpleQueue[Line] = queue.SimpleQueue()
    for line in some:
        waiting.put(line)
    played: dict[int, Played] = {}
    wrong: list[str] = []
    with place() as folder:
        environment = _environment(folder, backend, user)

        def work(number: int) -> None:
            options = {
                "folder": str(folder / f"w{number}"), "rules": rules, "config": SANDBOX[backend], "user": user,
            }  # fmt: skip
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.evals.attacks.worker", json.dumps(options)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment, text=True,
                start_new_session=True,
            )  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            with process:
                while not waiting.empty():
                    try:
                        line = waiting.get_nowait()
                    except queue.Empty:
                        break
                    print(line.number, file=process.stdin, flush=True)
                    answer = json.loads(process.stdout.readline() or '{"error": "the worker ended"}')
                    if "error" in answer:
                        wrong.append(f"{line.command}: {answer['error']}")
                        continue
                    played[line.number] = Played(**(answer | {"harms": tuple(answer["harms"])}))
                    told(line, played[line.number])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if wrong:
        raise RuntimeError("not played: " + "; ".join(wrong))
    return [(line, played[line.number]) for line in some]


@contextmanager
def place() -> Generator[Path]:
    """A folder for all fields: not in /tmp, of which the sandbox shows another one, and not in a repository."""
    places = (Path(name).expanduser() for name in _PLACES)
    writable = next(path for path in places if path.is_dir() and os.access(path, os.W_OK))
    folder = Path(tempfile.mkdtemp(prefix="goalwright-attacks-", dir=writable))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        remove(folder)


def _environment(folder: Path, backend: Backend, user: str) -> dict[str, str]:
    """The environment of a worker, with keys in it, and without bwrap where another back end is wanted."""
    path = _SYSTEM_PATH if user else os.environ.get("PATH", _SYSTEM_PATH)
    if backend == "landlock":
        programs = folder / "bin"
        programs.mkdir()
        for place in path.split(os.pathsep):
            for program in Path(place).glob("*"):
                if program.name != "bwrap" and not os.path.lexists(programs / program.name):
                    (programs / program.name).symlink_to(program)
        path = str(programs)
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "VIRTUAL_ENV")}
    return {
        **kept,
        **dict.fromkeys(SECRET_NAMES, DAEMON_CANARY),
        "PATH": path,
        "HOME": str(folder),
        "GIT_CEILING_DIRECTORIES": str(folder),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
