"""Tell from a look at a skill's directory, without reading it, that nothing in it changed since it was read.

A stamp covers the name, inode, size, and times of each file. It is only made of skills without links, hidden things or
anything else worth a remark, and never of files that changed so recently that they may change again unseen.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Stamp", "stamp_directory"]


class Stamp:
    """The marks of one skill's files, gathered while they are read."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[str] | None = []

    def add_file(self, path: str, status: os.stat_result) -> None:
        """One more file, by its path below the skill's directory."""
        if self._marks is not None:
            self._marks.append(_mark(path, status))

    def add_directory(self, path: str) -> None:
        """One more directory; its path ends in a slash."""
        if self._marks is not None:
            self._marks.append(path)

    def spoil(self) -> None:
        """There is something here that a later look could not tell."""
        self._marks = None

    def digest(self) -> str | None:
        """The stamp; None where there can be none."""
        return None if self._marks is None else _digest(self._marks)


def stamp_directory(entries: Iterable[os.DirEntry[str]]) -> str | None:
    """The stamp of a skill's directory with these things in it, as it is now; None where there can be none."""
    marks: list[str] = []
    try:
        return _digest(marks) if _look(entries, "", marks) else None
    except (OSError, RecursionError):
        return None


def _look(entries: Iterable[os.DirEntry[str]], above: str, marks: list[str]) -> bool:
    """Gather the marks of all that is in a directory. False when there is something that cannot be told at a look."""
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            marks.append(_mark(above + entry.name, entry.stat(follow_symlinks=False)))
        elif entry.is_dir(follow_symlinks=False):
            path = f"{above}{entry.name}/"
            marks.append(path)
            with os.scandir(entry.path) as scan:
                if not _look(scan, path, marks):
                    return False
        else:
            return False
    return True


def _mark(path: str, status: os.stat_result) -> str:
    """What a look at a file shows of its content."""
    return f"{path}\0{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _digest(marks: list[str]) -> str:
    return sha256(os.fsencode("\0\0".join(sorted(marks)))).hexdigest()
