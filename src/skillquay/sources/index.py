"""Remember between runs what was published of each skill, so that an unchanged tree need not be read to be listed.

The index is only a claim: a row is used when the skill's stamp still fits, every file is hashed again soon after, and a
row that cannot be understood is not there. Losing the index costs time and nothing else, so every failure is silent but
for one line in the log.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from skillquay.core.catalog import Listed
from skillquay.core.uris import SkillUri

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Index", "Unit"]

_log = logging.getLogger(__name__)

_FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS units (
  location TEXT PRIMARY KEY, stamp TEXT NOT NULL, check_sum TEXT NOT NULL, skills BLOB NOT NULL
) WITHOUT ROWID
"""


class Unit(NamedTuple):
    """What one outermost skill's directory publishes: that skill and those nested in it, and the stamp it had."""

    skills: tuple[Listed, ...]
    stamp: str | None


class Index:
    """Units by location, in one SQLite file. `key` is all that, besides the files, decides what is published."""

    def __init__(self, path: str, *, key: str) -> None:
        self._path = path
        self._key = f"{_FORMAT} {key}"

    def load(self) -> dict[str, Unit]:
        """All that is remembered."""
        try:
            with _connected(self._path) as connection:
                rows = connection.execute("SELECT location, stamp, check_sum, skills FROM units").fetchall()
        except (OSError, sqlite3.Error) as error:
            _log.info("The index of published skills cannot be used, everything is read anew: %s", error)
            return {}
        units: dict[str, Unit] = {}
        for location, stamp, check_sum, skills in rows:
            try:
                if check_sum == self._sum(location, stamp, skills):
                    units[location] = Unit(_read_skills(skills), stamp)
            except (TypeError, ValueError, LookupError):
                continue  # a damaged row is no row
        return units

    def save(self, units: Mapping[str, Unit], *, gone: Iterable[str] = ()) -> None:
        """Remember these units, as far as they have a stamp, and forget those that are gone."""
        rows: list[tuple[str, str, str, bytes]] = []
        forget = list(gone)
        for location, unit in units.items():
            if unit.stamp is None:
                forget.append(location)
            else:
                skills = _write_skills(unit.skills)
                rows.append((location, unit.stamp, self._sum(location, unit.stamp, skills), skills))
        try:
            with _connected(self._path) as connection:
                connection.executemany("DELETE FROM units WHERE location = ?", ((each,) for each in forget))
                connection.executemany("INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?)", rows)
        except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
            _log.warning("The index of published skills cannot be written, the next start will be slower: %s", error)

    def _sum(self, location: str, stamp: str, skills: bytes) -> str:
        return sha256(f"{self._key}\0{location}\0{stamp}\0".encode() + skills).hexdigest()


class _connected:  # noqa: N801 - reads as a verb
    """A connection that commits on success, and is closed either way."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=5)

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_SCHEMA)
        except BaseException:
            self._connection.close()
            raise
        return self._connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._connection.commit()
        finally:
            self._connection.close()


def _write_skills(skills: tuple[Listed, ...]) -> bytes:
    parts = [json.dumps([[str(listed.uri), listed.empty, len(listed.text)] for listed in skills]).encode()]
    return b"\n".join([*parts, *(listed.text for listed in skills)])


def _read_skills(data: bytes) -> tuple[Listed, ...]:
    head, _, rest = data.partition(b"\n")
    skills: list[Listed] = []
    for uri, empty, size in json.loads(head):
        skills.append(Listed(str.__new__(SkillUri, uri), rest[:size], tuple(empty)))
        rest = rest[size + 1 :]
    return tuple(skills)
