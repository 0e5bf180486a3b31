"""Find skills by words: BM25 over names, descriptions, and the bodies of local skills; nothing is fetched (R3)."""

from __future__ import annotations

import re
import sqlite3
from threading import Lock
from typing import TYPE_CHECKING
from weakref import finalize

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SkillSearch"]

_WORD = re.compile(r"\w+")
_MOST_WORDS = 16
_WEIGHTS = "8.0, 3.0, 1.0"  # a word in the name says more than one in the description or the body


class SkillSearch:
    """An index in memory, gone with the last who holds it; each document is known by the number it was given in."""

    def __init__(self, documents: Iterable[tuple[str, str, str]]) -> None:
        self._lock = Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        finalize(self, self._database.close)
        self._database.execute(
            "CREATE VIRTUAL TABLE skills "
            "USING fts5(name, description, body, tokenize='porter unicode61')"
        )
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO skills(rowid, name, description, body) VALUES (?, ?, ?, ?)",
            ((number, *map(_storable, document)) for number, document in enumerate(documents)),
        )
        self._database.execute("COMMIT")

    def find(self, query: str, limit: int) -> list[int]:
        """The best documents first. Every word counts, and the last may be the beginning of one."""
        words = _WORD.findall(query)[:_MOST_WORDS]
        if not words:
            return []
        quoted = [f'"{word}"' for word in words]
        quoted[-1] += "*"
        with self._lock:
            rows = self._database.execute(
                f"SELECT rowid FROM skills WHERE skills MATCH ? ORDER BY bm25(skills, {_WEIGHTS}), rowid LIMIT ?",  # noqa: S608
                (" OR ".join(quoted), limit),
            ).fetchall()
        return [row[0] for row in rows]


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
