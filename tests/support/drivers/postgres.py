"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, reached over a socket there."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from daemon.store.sql.database import open_database

_UP_S = 60
_TEMPLATE = "goalwright_template"


class Postgres:
    """A server that only this process's user, and the one it runs as, can reach."""

    def __init__(self, *, durable: bool = False) -> None:
        """``durable``: it survives a loss of power, as it does by default; slower."""
        self._durable = durable
        self.folder = Path(tempfile.mkdtemp(prefix="gw-pg-"))
        # It refuses to run as root.
        self.account = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        shutil.chown(self.folder, self.account)
        options = ["-U", "goalwright", "--auth=trust", "--no-sync", "-E", "UTF8"]
        command = [_program("initdb"), "-D", str(self.data), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self._as_account())
        self.start()

    @property
    def data(self) -> Path:
        """The cluster's folder."""
        return self.folder / "data"

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://goalwright@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [
            "-k",
            str(self.folder),
            "-c",
            "listen_addresses=",
            "-c",
            f"fsync={'on' if self._durable else 'off'}",
            "-c",
            "max_connections=60",
        ]
        command = [_program("postgres"), "-D", str(self.data), *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_account())
        deadline = time.monotonic() + _UP_S
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.url("postgres")).close()
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        """``kill -9`` it with all of its processes, and wait until it is gone."""
        pid = self._process.pid
        os.kill(pid, signal.SIGSTOP)  # it must not start another process meanwhile
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            os.kill(one, signal.SIGKILL)
        self._process.wait()

    def freeze(self, how: signal.Signals = signal.SIGSTOP) -> None:
        """Stop all of its processes where they are, or, with ``SIGCONT``, let them go on."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            os.kill(one, how)

    def end(self) -> None:
        """Stop it and remove its folder."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGQUIT)  # at once, without a last checkpoint
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            self.freeze(signal.SIGCONT)  # a test that failed may have left it frozen
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, name: str, template: str = _TEMPLATE) -> str:
        """Return the address of a database, made from a template (our empty tables) unless it is there."""
        assert self._process.poll() is None, (
            f"PostgreSQL ended with {self._process.returncode}: {(self.folder / 'log').read_text()[-3000:]}"
        )
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for database, source in ((_TEMPLATE, "template1"), (name, template)):
                if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                    continue
                wanted = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
                connection.execute(wanted.format(sql.Identifier(database), sql.Identifier(source)))
                if database == _TEMPLATE:
                    open_database(self.url(database)).dispose()
        return self.url(name)

    def _as_account(self) -> dict[str, Any]:
        """Arguments of Popen. Any: of several types."""
        if os.geteuid() != 0:
            return {"cwd": self.folder}
        return {"cwd": self.folder, "user": self.account, "group": self.account, "extra_groups": []}


def _program(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = shutil.which(name) or next(map(str, places), None)
    assert found is not None, (
        f"{name} of PostgreSQL was not found. On Debian or Ubuntu: apt-get install postgresql"
    )
    return found


@functools.cache
def shared() -> Postgres:
    """The server of this test process; it ends with the process."""
    server = Postgres()
    atexit.register(server.end)
    return server


_names = (f"t{number}" for number in itertools.count())
_given: dict[Path, str] = {}
_free: list[str] = []


def database_for(folder: Path) -> str:
    """Return the address of a database that belongs to a folder: a new one, or one that was given back."""
    if folder not in _given:
        _given[folder] = _free.pop() if _free else next(_names)
    return shared().database(_given[folder])


def give_back(folder: Path) -> None:
    """Empty the database of a folder, if it has one, for another folder: making one takes a tenth of a second.

    Nobody may use it any more, and its tables must be as they were.
    """
    name = _given.pop(folder, None)
    if name is None:
        return
    with psycopg.connect(shared().url(name), autocommit=True) as connection:
        connection.execute("SET lock_timeout = '30s'")
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        ).fetchall()
        tables = sql.SQL(", ").join(sql.Identifier(table) for (table,) in found)
        connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(tables))
    _free.append(name)
