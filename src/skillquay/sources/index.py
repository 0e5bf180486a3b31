"""Remember between runs what was published of each skill, so that an unchanged tree need not be read to be listed.

The index is only a claim: a row is used when the skill's stamp still fits, every file is hashed again soon after, and a
row that cannot be understood is not there. Losing the index costs time and nothing else, so every failure is silent but
for one line in the log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from skillquay.core.catalog import Listed
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import SkillquayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Index", "Unit"]

_log = logging.getLogger(__name__)

_BEGINNING: Final = b'{"uri":"'  # of every entry we write
_FORMAT: Final = 4
_PATIENCE: Final = 2.0  # seconds to wait for another process that writes
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS units (
  location BLOB PRIMARY KEY, stamp TEXT NOT NULL, check_sum TEXT NOT NULL, skills BLOB NOT NULL
) WITHOUT ROWID
"""
_NOT_OURS: Final = (AttributeError, LookupError, RecursionError, SkillquayError, TypeError, ValueError)
_DAMAGED: Final = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_ERROR,  # a table of another shape
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_NOTADB,
    }
)


class Unit(NamedTuple):
    """What one outermost skill's directory publishes: that skill and those nested in it, and the stamp it had."""

    skills: tuple[Listed, ...]
    stamp: str | None


class Index:
    """Units by location, in one SQLite file. `key` is all that, besides the files, decides what is published."""

    def __init__(self, path: str, *, key: str) -> None:
        self._path = path
        self._key = f"{_FORMAT} {key}"
        self.unusable: list[object] = []  # locations of rows that are in the way, until something is saved

    def load(self) -> dict[str, Unit]:
        """All that is remembered."""
        try:
            with _connected(self._path) as connection:
                return self._read(connection.execute("SELECT location, stamp, check_sum, skills FROM units"))
        except (OSError, sqlite3.Error) as error:
            _log.info("The index of published skills cannot be used, everything is read anew: %s", error)
            return {}

    def save(self, units: Mapping[str, Unit], *, gone: Iterable[str] = ()) -> None:
        """Remember these units, as far as they have a stamp, and forget those that are gone."""
        forget = [os.fsencode(each) for each in gone]
        forget += [os.fsencode(location) for location, unit in units.items() if unit.stamp is None]
        try:
            try:
                self._write(units, forget)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    raise
                _remove(self._path)
                self._write(units, forget)
        except (OSError, sqlite3.Error) as error:
            _log.warning("The index of published skills cannot be written, the next start will be slower: %s", error)

    def _write(self, units: Mapping[str, Unit], forget: Iterable[bytes]) -> None:
        with _connected(self._path) as connection:
            unneeded = [*self.unusable, *forget]
            connection.executemany("DELETE FROM units WHERE location = ?", ((each,) for each in unneeded))
            connection.executemany("INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?)", self._rows(units))
        self.unusable = []

    def _rows(self, units: Mapping[str, Unit]) -> Iterator[tuple[bytes, str, str, bytes]]:
        for each, unit in units.items():
            if unit.stamp is not None:
                location, skills = os.fsencode(each), _write_skills(unit.skills)
                yield location, unit.stamp, self._sum(location, unit.stamp, skills), skills

    def _read(self, rows: Iterable[tuple[bytes, str, str, bytes]]) -> dict[str, Unit]:
        units: dict[str, Unit] = {}
        for location, stamp, check_sum, skills in rows:
            with contextlib.suppress(*_NOT_OURS):
                if check_sum == self._sum(location, stamp, skills):
                    units[os.fsdecode(location)] = Unit(_read_skills(skills), stamp)
                    continue
            self.unusable.append(location)  # a damaged row, or another directory's, is no row
        return units

    def _sum(self, location: bytes, stamp: str, skills: bytes) -> str:
        return sha256(b"\0".join((self._key.encode(), location, stamp.encode(), skills))).hexdigest()


class _connected:  # noqa: N801 - reads as a verb
    """A connection that commits on success, and is closed either way."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_PATIENCE)

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


def _remove(path: str) -> None:
    for each in (path, f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(each)


def _write_skills(skills: tuple[Listed, ...]) -> bytes:
    """One skill a line, and after a tab what its manifest does not know. JSON has neither of the two unescaped."""
    return b"\n".join(
        b"%b\t%b" % (listed.text, json.dumps([listed.empty, listed.executable]).encode())
        if listed.empty or listed.executable
        else listed.text
        for listed in skills
    )


def _read_skills(data: bytes) -> tuple[Listed, ...]:
    """What was written, as far as a look tells. Whether it is true of the files is found out when they are read."""
    return tuple(map(_read_skill, data.split(b"\n"))) if data else ()


def _read_skill(line: bytes) -> Listed:
    text, _, facts = line.partition(b"\t")
    uri = text[len(_BEGINNING) : text.index(b'"', len(_BEGINNING))].decode()
    if not text.startswith(_BEGINNING) or not uri.endswith(f"/{SKILL_MD}"):
        raise ValueError("not an entry of ours")
    if "%" in uri or not uri.startswith("skill://"):
        SkillUri(uri)
    empty, executable = map(tuple, json.loads(facts)) if facts else ((), ())
    return Listed(str.__new__(SkillUri, uri), text, empty, executable)
