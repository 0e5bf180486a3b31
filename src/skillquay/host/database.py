"""Reach the database that keeps a person's answers, SQLite or PostgreSQL, through one small interface (K4).

Statements are written once, with `:name` parameters. A transaction that writes keeps every other writer out until it
ends, so that what it read still holds when it writes, and it is on the disk when it has ended. Every failure is a
`StateError` that names the database and the next step; a damaged database is reported, and never replaced.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from skillquay.core.hidden import shorten
from skillquay.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from sqlalchemy import TextClause
    from sqlalchemy.engine import URL, Connection
    from sqlalchemy.exc import SQLAlchemyError

__all__ = ["PATIENCE", "Database", "Transaction", "open_database"]

PATIENCE: Final = 10.0  # seconds to wait for another process that writes, or for a server to answer
_SCHEMA_VERSION: Final = 1
_NOTHING: Final[Mapping[str, object]] = {}
_IN_MEMORY: Final = ":memory:"
_POSTGRES: Final = ("postgresql://", "postgres://")
_LOCK: Final = int.from_bytes(b"skillqua")  # the advisory lock that writers take
# Keys are hashes: PostgreSQL takes no index entry as long as a URI may be. What is small comes first in a row, so that
# SQLite finds it without reading the rest.
_TABLES: Final = (
    """CREATE TABLE skillquay_answers (
      subject TEXT NOT NULL, what TEXT NOT NULL, server TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
      ended DOUBLE PRECISION, answer TEXT NOT NULL, shown TEXT NOT NULL, scope TEXT NOT NULL, label TEXT NOT NULL,
      seal TEXT NOT NULL, uri TEXT NOT NULL, pairs TEXT NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (subject, what))""",
    "CREATE INDEX skillquay_answers_server ON skillquay_answers (server)",
    """CREATE TABLE skillquay_marks (
      kind TEXT NOT NULL, subject TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, about TEXT NOT NULL,
      PRIMARY KEY (kind, subject))""",
)
_AUDIT_COLUMNS: Final = """subject TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, kind TEXT NOT NULL,
      server TEXT NOT NULL, scope TEXT NOT NULL, uri TEXT NOT NULL, detail TEXT NOT NULL)"""
_AUDIT_INDEX: Final = "CREATE INDEX skillquay_audit_subject ON skillquay_audit (subject)"
_SQLITE_KNOWN: Final = "SELECT 1 FROM sqlite_master WHERE name = 'skillquay_schema'"
_SQLITE_SCHEMA: Final = (
    *_TABLES,
    f"CREATE TABLE skillquay_audit (id INTEGER PRIMARY KEY AUTOINCREMENT, {_AUDIT_COLUMNS}",
    _AUDIT_INDEX,
    """CREATE TRIGGER skillquay_audit_update BEFORE UPDATE ON skillquay_audit
      BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END""",
    """CREATE TRIGGER skillquay_audit_delete BEFORE DELETE ON skillquay_audit
      BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END""",
)
# Not to_regclass: it answers from a cache, which a wait for the advisory lock does not refresh.
_POSTGRES_KNOWN: Final = (
    "SELECT 1 FROM pg_tables WHERE tablename = 'skillquay_schema' AND schemaname = ANY (current_schemas(false))"
)
_POSTGRES_SCHEMA: Final = (
    *_TABLES,
    f"CREATE TABLE skillquay_audit (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_AUDIT_COLUMNS}",
    _AUDIT_INDEX,
    """CREATE FUNCTION skillquay_append_only() RETURNS trigger LANGUAGE plpgsql
      AS $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$""",
    """CREATE TRIGGER skillquay_audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON skillquay_audit
      FOR EACH STATEMENT EXECUTE FUNCTION skillquay_append_only()""",
)

_AGAIN: Final = "Try again, or end the program that holds it."
_SPACE: Final = "There is no room left; nothing was changed. Free some space and try again."
_RIGHTS: Final = "Nothing was changed. Give this user the right to write there, or choose another place."
_DAMAGED: Final = (
    "It is damaged, and is left as it is. Restore a copy, or move it away to begin anew: every skill is then asked "
    "about again."
)
_UNREACHED: Final = "See whether the server runs and the URL is right, and try again."
# A message that quotes a damaged schema need not be UTF-8, and then fails itself.
_SQLITE_FAILURES: Final = (sqlite3.Error, UnicodeDecodeError)
_SQLITE_STEPS: Final = {
    sqlite3.SQLITE_BUSY: _AGAIN,
    sqlite3.SQLITE_LOCKED: _AGAIN,
    sqlite3.SQLITE_FULL: _SPACE,
    sqlite3.SQLITE_IOERR: "Nothing was changed. See whether its disk is full or failing, and try again.",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # a table or a column is gone
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _RIGHTS,
    sqlite3.SQLITE_CANTOPEN: _RIGHTS,
    sqlite3.SQLITE_PERM: _RIGHTS,
}
_POSTGRES_STEPS: Final = {  # by the beginning of the SQLSTATE, the longest first
    "55P03": _AGAIN,
    "40": _AGAIN,
    "53100": _SPACE,
    "53": "The server has too little room or too many connections. Try again later.",
    "25006": _RIGHTS,
    "42501": _RIGHTS,
    "42": _DAMAGED,  # a table or a column is gone
    "57": _UNREACHED,
    "XX": _DAMAGED,
}

_creating = threading.Lock()


class Transaction(Protocol):
    """Statements that take effect together, or not at all."""

    def execute(self, sql: str, parameters: Mapping[str, object] = _NOTHING) -> list[tuple[Any, ...]]:
        """Run one statement with `:name` parameters; the rows it gives."""
        ...


class Database(Protocol):
    """A database any thread may use; `shown` is its name for people, without a password."""

    shown: str

    def transaction(self, *, write: bool) -> AbstractContextManager[Transaction]:
        """Run statements together. With `write`, no other writer comes in between; the end of it is durable."""
        ...

    def version(self) -> tuple[int, int] | None:
        """A value that changes whenever anyone has changed the content; None where that cannot be told cheaply."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def open_database(where: str | os.PathLike[str]) -> Database:
    """The database at a path, `":memory:"` or a `postgresql://` URL, with the tables in it."""
    if isinstance(where, str) and where.startswith(_POSTGRES):
        return _opened(_Postgres(where), _POSTGRES_KNOWN, _POSTGRES_SCHEMA)
    if isinstance(where, str) and "://" in where:
        scheme = shorten(where.partition("://")[0])
        raise StateError(f"Answers cannot be kept at a {scheme}:// URL. Give a path or a postgresql:// URL.")
    return _opened(_Sqlite(where), _SQLITE_KNOWN, _SQLITE_SCHEMA)


def _opened(database: Database, known: str, schema: tuple[str, ...]) -> Database:
    try:
        with database.transaction(write=False) as transaction:
            is_new = not transaction.execute(known)
        if is_new:
            with database.transaction(write=True) as transaction:
                if not transaction.execute(known):  # nobody else was faster
                    for statement in ("CREATE TABLE skillquay_schema (version INTEGER NOT NULL)", *schema):
                        transaction.execute(statement)
                    transaction.execute(
                        "INSERT INTO skillquay_schema (version) VALUES (:version)", {"version": _SCHEMA_VERSION}
                    )
        with database.transaction(write=False) as transaction:
            versions = transaction.execute("SELECT version FROM skillquay_schema")
        _check_version(database, versions)
    except BaseException:
        database.close()
        raise
    return database


def _check_version(database: Database, versions: list[tuple[Any, ...]]) -> None:
    version = versions[0][0] if len(versions) == 1 else None
    if not isinstance(version, int) or version < 1:
        raise StateError(f"{database.shown} does not say which schema it has. {_DAMAGED}")
    if version > _SCHEMA_VERSION:
        raise StateError(
            f"{database.shown} was written by a newer skillquay (schema {version}; this one knows {_SCHEMA_VERSION}). "
            "Upgrade skillquay, or choose another place."
        )


class _Sqlite:
    """One connection, used by one thread at a time."""

    def __init__(self, where: str | os.PathLike[str]) -> None:
        path = os.fspath(where)
        self.shown = shorten(path, 400) or "The empty path"
        self._lock = threading.Lock()
        self._writes = 0
        try:
            if where != _IN_MEMORY:
                path = os.path.abspath(path) if path else path
                _create_privately(path)
            self._connection = _connect(path)
        except _SQLITE_FAILURES as error:
            raise self._failure(error) from error
        except (OSError, ValueError) as error:
            raise StateError(f"{self.shown} cannot be used to keep answers: {_said(error)}. {_RIGHTS}") from error

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """One transaction; another thread waits for its end."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield _SqliteTransaction(self._connection)
                self._connection.execute("COMMIT")
                self._writes += write
            except _SQLITE_FAILURES as error:
                raise self._failure(error) from error
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.rollback()  # nothing is left to roll back after a commit

    def version(self) -> tuple[int, int] | None:
        """Writes of this connection, and what SQLite knows of those of others."""
        with self._lock:
            try:
                ((others,),) = self._connection.execute("PRAGMA data_version")
            except _SQLITE_FAILURES as error:
                raise self._failure(error) from error
            return self._writes, others

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _failure(self, error: sqlite3.Error | UnicodeDecodeError) -> StateError:
        step = _SQLITE_STEPS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "Nothing was changed.")
        if isinstance(error, UnicodeDecodeError):
            step = _DAMAGED
        return StateError(f"The answers in {self.shown} cannot be read or written: {_said(error)}. {step}")


class _SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Mapping[str, object] = _NOTHING) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()


def _create_privately(path: str) -> None:
    """Make the file, for this user alone.

    A file that is there is never opened here: closing it would drop the locks that SQLite holds on it elsewhere in
    this process. For the same reason no other thread gets at a new one before it is closed.
    """
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    with _creating:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise OSError("it is not a file") from None


def _make_private(path: str) -> None:
    """Keep others out of a file that is known to be ours."""
    if os.stat(path).st_mode & 0o077:
        os.chmod(path, 0o600)


def _connect(path: str) -> sqlite3.Connection:
    deadline = time.monotonic() + PATIENCE
    while True:
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.text_factory = _decoded
            # Nothing is changed in a file before it is known to be ours, or empty.
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables and "skillquay_schema" not in tables:
                raise ValueError("it is a database of another program")
            if path != _IN_MEMORY:
                _make_private(path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # elsewhere than on macOS, an fsync is one
        except BaseException as error:
            connection.close()
            # Two processes that turn a new file to WAL at once are told so at once, whatever the timeout is.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return connection


def _decoded(text: bytes) -> str:
    """What is not UTF-8 spoils the row it stands in, not the whole answer."""
    return text.decode("utf-8", "replace")


class _Postgres:
    """A pool of connections; writers queue at an advisory lock."""

    def __init__(self, where: str) -> None:
        try:
            import psycopg  # noqa: F401, PLC0415 - an extra, needed only by those who name such a URL
            import sqlalchemy  # noqa: PLC0415
        except ImportError as error:
            raise StateError(
                'Keeping answers in PostgreSQL needs more packages. Run: pip install "skillquay[postgres]"'
            ) from error
        try:
            url = sqlalchemy.make_url(where).set(drivername="postgresql+psycopg")
        except (sqlalchemy.exc.ArgumentError, ValueError):
            url = None
        if url is None or "@" in (url.host or ""):  # such a host is the rest of a password
            raise StateError(
                "The postgresql:// URL cannot be read. Write postgresql://user:password@host:port/database, with the "
                'characters "@", ":", "/" and "%" of a password as %40, %3A, %2F and %25.'
            )
        self.shown = _without_secrets(url)
        given = (value for key, values in url.normalized_query.items() if "pass" in key for value in values)
        self._secrets = {secret for secret in (url.password, *given) if secret}
        self._failures = sqlalchemy.exc.SQLAlchemyError
        self._text = sqlalchemy.text
        patience = {} if "connect_timeout" in url.query else {"connect_timeout": int(PATIENCE)}
        self._engine = sqlalchemy.create_engine(
            url,
            connect_args={"client_encoding": "utf8", "prepare_threshold": None, **patience},
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
        )

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """One transaction, on a connection of its own."""
        try:
            with self._engine.begin() as connection:
                transaction = _PostgresTransaction(connection, self._text)
                if write:
                    transaction.execute(
                        "SELECT set_config('lock_timeout', :patience, true)", {"patience": f"{PATIENCE * 1000:.0f}ms"}
                    )
                    transaction.execute(
                        "SELECT set_config('synchronous_commit', 'on', true) "
                        "WHERE current_setting('synchronous_commit') = 'off'"
                    )
                    transaction.execute("SELECT pg_advisory_xact_lock(:lock)", {"lock": _LOCK})
                yield transaction
        except self._failures as error:
            raise self._failure(error) from error

    def version(self) -> tuple[int, int] | None:
        """Nobody knows but the server, and asking it costs as much as asking for the answer."""
        return None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _failure(self, error: SQLAlchemyError) -> StateError:
        cause = getattr(error, "orig", None) or error
        state = getattr(cause, "sqlstate", None) or ""
        steps = (step for code, step in _POSTGRES_STEPS.items() if state.startswith(code))
        step = next(steps, "Nothing was changed.") if state else _UNREACHED
        said = _said(cause)
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return StateError(f"The answers in {self.shown} cannot be read or written: {said}. {step}")


class _PostgresTransaction:
    def __init__(self, connection: Connection, text: Callable[[str], TextClause]) -> None:
        self._connection = connection
        self._text = text

    def execute(self, sql: str, parameters: Mapping[str, object] = _NOTHING) -> list[tuple[Any, ...]]:
        result = self._connection.execute(self._text(sql), parameters)
        return [tuple(row) for row in result] if result.returns_rows else []


def _without_secrets(url: URL) -> str:
    port = f":{url.port}" if url.port else ""
    return shorten(f"postgresql://{url.host or ''}{port}/{url.database or ''}", 400)


def _said(error: BaseException) -> str:
    return shorten(" ".join(str(error).split()), 300).rstrip(".?")
