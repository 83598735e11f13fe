"""Open a database of traces: its address, its tables in the newest version, and its errors in words."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InternalError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from daemon.store.sql.schema import metadata, traces
from daemon.store.trace_store import RefusedError, StoreError, TooSlowError, UnreachableError
from tools.localization import noted, t

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Generator

    from sqlalchemy import Connection, Engine

log = logging.getLogger(__name__)

SQLITE, POSTGRESQL = "sqlite", "postgresql"
_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSIONS = "alembic_version"
_TOOK_TOO_LONG = "57014"
"""The state of a statement that PostgreSQL ended at our limit."""
_CONNECTIONS = "goalwright_connections"
"""The option of an engine that has its ``Connections``."""
SILENT_S = 60
"""How long PostgreSQL may leave a connection without an answer, unless its user says otherwise."""
_BUSY_S = 30.0
"""How long SQLite waits for another program that writes."""
_PAUSE_S = 0.01
_LOCK = 0x676F616C
"""PostgreSQL's advisory lock under which one program at a time migrates."""


def address(url: str) -> URL:
    """Return the database that a setting names: ``sqlite:///PATH`` or ``postgresql://…``. Raises StoreError.

    The user name, password, and host of PostgreSQL may be left out: its own variables and its password file count
    then.
    """
    try:
        found = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(t("{url} is not the address of a database.", url=_shown(url))) from error
    kind = found.get_backend_name()
    if kind != SQLITE and url.count("@") > 1:
        # Part of the password would be taken for the host or the database, and shown.
        raise StoreError(
            t("{url} is not the address of a database. Write @ as %40, and / as %2F.", url=_shown(url))
        )
    if found.drivername == SQLITE and found.database and found.database != ":memory:" and not found.query:
        return found.set(database=os.path.expanduser(found.database))  # noqa: PTH111 -- it is no path yet
    if kind == POSTGRESQL and found.drivername in (POSTGRESQL, "postgresql+psycopg"):
        return found.set(drivername="postgresql+psycopg")
    raise StoreError(
        t(
            "{url} is not supported. Use sqlite:///PATH or postgresql://HOST/DATABASE.",
            url=place(found),
        )
    )


def open_database(
    url: str,
    *,
    existing: bool = False,
    filled: bool = False,
    longest_s: int = 0,
    silent_s: int = SILENT_S,
) -> Engine:
    """Return a pool of connections to a database whose tables are in the newest version. Blocking.

    ``existing``: make no new file. ``filled``: make no tables where none are. ``longest_s``: PostgreSQL ends statements
    that take longer; 0: none. ``silent_s``: a connection on which it does not answer for so long is lost. Raises
    StoreError, and UnreachableError when nobody answers.
    """
    found = address(url)
    is_sqlite = found.get_backend_name() == SQLITE
    if existing and is_sqlite and not Path(found.database or "").exists():
        raise StoreError(t("There is no database {file}.", file=found.database))
    engine = _sqlite(found) if is_sqlite else _postgresql(found, silent_s, longest_s)
    with in_words(engine):
        if filled:
            _check_there(engine)
        _migrate(engine)
    return engine


def _postgresql(found: URL, silent_s: int, longest_s: int) -> Engine:
    try:
        from daemon.store.sql.connections import Connections

        connections = Connections(silent_s, longest_s)
        engine = sa.create_engine(
            found,
            connect_args=connections.arguments,
            execution_options={_CONNECTIONS: connections},
            pool_pre_ping=True,
            pool_size=4,
        )
    except (ImportError, NoSuchModuleError) as error:
        raise StoreError(
            t("PostgreSQL needs more packages. Install goalwright[postgres], and try again.")
        ) from error
    event.listen(engine, "do_connect", connections.connect)
    return engine


def cut(engine: Engine) -> None:
    """Have threads that wait for PostgreSQL get an error within a moment, and everything afterwards; before the end."""
    connections = engine.get_execution_options().get(_CONNECTIONS)
    if connections is not None:
        connections.cut()


def _check_there(engine: Engine) -> None:
    """Raise StoreError for a database without our tables: who only looks makes none."""
    with engine.connect() as connection:
        if _version(connection) is None:
            raise StoreError(t("There are no sessions in {where}.", where=place(engine.url)))


@contextlib.contextmanager
def in_words(engine: Engine) -> Generator[None]:
    """Raise what a database refuses as StoreError, and what a lost connection breaks as UnreachableError."""
    try:
        yield
    except PoolTimeout as error:
        raise UnreachableError(t("The database {where} is busy.", where=place(engine.url))) from error
    except DBAPIError as error:
        where = place(engine.url)
        why = " ".join(str(error.orig).split())[:300]
        for secret in _secrets(engine.url):
            why = why.replace(secret, "***")
        if _is_lost(error):
            words = noted("The database {where} cannot be reached: {why}")
            if engine.dialect.name == SQLITE:  # such as a disk that is full
                words = noted("The database {where} cannot be used: {why}")
            raise UnreachableError(t(words, where=where, why=why)) from error
        if getattr(error.orig, "sqlstate", None) == _TOOK_TOO_LONG:
            raise TooSlowError(
                t("The database ended this because it took too long. Ask for less, such as fewer days.")
            ) from error
        raise RefusedError(t("The database {where} refused: {why}", where=where, why=why)) from error


def _is_lost(error: DBAPIError) -> bool:
    """Return whether a later try may succeed."""
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:  # classes of PostgreSQL: connection, resources, operator intervention, its machine
        return str(state)[:2] in ("08", "53", "57", "58") and state != _TOOK_TOO_LONG
    # Without a state the server refused nothing: the driver lost it in the middle of an answer.
    return isinstance(error, OperationalError | InternalError)


def _sqlite(found: URL) -> Engine:
    path = Path(found.database or "")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Others must not read sessions; the files beside it get the same permissions.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        if not (path.is_file() and os.access(path, os.R_OK)):
            raise StoreError(
                t("{file} cannot be opened: {strerror}.", file=path, strerror=error.strerror or error)
            ) from error
        engine = sa.create_engine(found, creator=lambda: _read_only(path))
    else:
        _check_ours(path, found)
        engine = sa.create_engine(found, connect_args={"timeout": _BUSY_S})
        event.listen(engine, "connect", _shared)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin below
        connection.execute("PRAGMA foreign_keys=ON")

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(
            "BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN"
        )

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _shared(connection: sqlite3.Connection, _record: object) -> None:
    """Let others read while this writes."""
    import sqlite3

    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # SQLite does not wait itself when two switch the mode of a new file at once.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    connection.execute("PRAGMA synchronous=NORMAL")


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a file that we may only read. Without a log beside it nobody writes to it, and SQLite need not lock it."""
    import sqlite3

    is_still = not path.with_name(f"{path.name}-wal").exists()
    options = "mode=ro&immutable=1" if is_still else "mode=ro"
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}", uri=True, timeout=_BUSY_S, check_same_thread=False
    )


def _check_ours(path: Path, found: URL) -> None:
    """Raise StoreError for a file of another program. It must not even be opened for writing: that changes its mode."""
    import sqlite3

    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            names = {
                str(row[0]) for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
    except sqlite3.Error:
        return  # opening it will tell
    if names and not names >= {_VERSIONS, traces.name}:
        raise _foreign(found)


def _foreign(found: URL) -> StoreError:
    return StoreError(
        t(
            "{where} is the database of another program, and is not changed. Name another one.",
            where=place(found),
        )
    )


def _migrate(engine: Engine) -> None:
    """Bring the tables to the newest version; programs that open the database at once wait for each other."""
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells each of its steps
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    newest = ScriptDirectory.from_config(config).get_current_head()
    with engine.connect() as connection:
        if _version(connection) == newest:
            return
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == POSTGRESQL:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        version, names = _version(connection), set(sa.inspect(connection).get_table_names())
        if version == newest:
            return
        if names & set(metadata.tables) if version is None else traces.name not in names:
            raise _foreign(engine.url)
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise StoreError(
                t(
                    "A newer version of Goalwright uses the database {where}. Update Goalwright to open it.",
                    where=place(engine.url),
                )
            ) from error
    log.info("the tables of %s are now in version %s", place(engine.url), newest)


def _version(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSIONS):
        return None
    return connection.scalar(sa.text(f"SELECT version_num FROM {_VERSIONS}"))


def place(url: URL) -> str:
    """Return a database as messages name it: without password and parameters."""
    if url.get_backend_name() == SQLITE:
        return f"sqlite:///{url.database or ''}"
    kind = url.drivername.partition("+")[0]
    return URL.create(kind, url.username, None, url.host, url.port, url.database).render_as_string()


def _secrets(url: URL) -> list[str]:
    """Return what must not be shown: the password, and the values of parameters, which may have another one."""
    values = [
        value for found in url.query.values() for value in ([found] if isinstance(found, str) else found)
    ]
    return [str(one) for one in (url.password, *values) if one and len(str(one)) > 3]


def _shown(url: str) -> str:
    """Return an address that could not be read, without what may be a password."""
    scheme, separator, _ = url.partition("://")
    return f"{scheme}{separator}…" if separator or "@" in url else url
