"""Find skills by words: BM25 over names, descriptions, and the bodies of local skills; nothing is fetched (R3)."""

from __future__ import annotations

import re
import sqlite3
from threading import Lock
from typing import TYPE_CHECKING
from weakref import finalize

from skillquay.errors import SkillquayError
from skillquay.host.local import read_body

if TYPE_CHECKING:
    from skillquay.host.directory import KnownSkill

__all__ = ["SkillSearch"]

_WORD = re.compile(r"\w+")
_MOST_WORDS = 16
_WEIGHTS = "8.0, 3.0, 1.0"  # a word in the name says more than one in the description or the body


class SkillSearch:
    """An index of these skills in memory, gone with the last who holds it."""

    def __init__(self, skills: tuple[KnownSkill, ...]) -> None:
        self._skills = skills
        self._lock = Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        finalize(self, self._database.close)
        self._database.execute(
            "CREATE VIRTUAL TABLE skills USING fts5(name, description, body, tokenize='porter unicode61')"
        )
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO skills(rowid, name, description, body) VALUES (?, ?, ?, ?)",
            (
                (number, *map(_storable, (skill.name, skill.description, _body(skill))))
                for number, skill in enumerate(skills)
            ),
        )
        self._database.execute("COMMIT")
        self._database.execute("INSERT INTO skills(skills) VALUES ('optimize')")

    def find(self, query: str, limit: int) -> tuple[KnownSkill, ...]:
        """The best first. Every word counts, and the last may be the beginning of one, if it is two letters long."""
        words = _WORD.findall(query)[:_MOST_WORDS]
        if not words:
            return ()
        quoted = [f'"{word}"' for word in words]
        if len(words[-1].encode()) > 1:  # nearly every document has a word that begins with a given letter
            quoted[-1] += "*"
        with self._lock:
            rows = self._database.execute(
                f"SELECT rowid FROM skills WHERE skills MATCH ? ORDER BY bm25(skills, {_WEIGHTS}), rowid LIMIT ?",  # noqa: S608
                (" OR ".join(quoted), limit),
            ).fetchall()
        return tuple(self._skills[row[0]] for row in rows)


def _body(skill: KnownSkill) -> str:
    """The body of a local skill only, since nothing is fetched ahead of need (R3)."""
    if skill.local is None:
        return ""
    try:
        return read_body(skill.local).body
    except SkillquayError:
        return ""


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
