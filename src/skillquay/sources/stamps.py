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

__all__ = ["Stamp", "file_mark", "stamp_directory"]


class Stamp:
    """The marks of one skill's files, gathered while they are read."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[tuple[str, str]] | None = []

    def add(self, path: str, mark: str) -> None:
        """One more file or directory, by its path below the skill's directory."""
        if self._marks is not None:
            self._marks.append((path, mark))

    def spoil(self) -> None:
        """There is something here that a later look could not tell."""
        self._marks = None

    def digest(self) -> str | None:
        """The stamp; None where there can be none."""
        if self._marks is None:
            return None
        text = "\0".join(f"{path}\0{mark}" for path, mark in sorted(self._marks))
        return sha256(os.fsencode(text)).hexdigest()


def file_mark(status: os.stat_result) -> str:
    """What a look at a file shows of its content."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def stamp_directory(entries: Iterable[os.DirEntry[str]]) -> str | None:
    """The stamp of a skill's directory with these things in it, as it is now; None where there can be none."""
    stamp = Stamp()
    pending: list[tuple[str, os.DirEntry[str]]] = [("", entry) for entry in entries]
    try:
        while pending:
            relative, entry = pending.pop()
            name = relative + entry.name
            if entry.is_dir(follow_symlinks=False):
                with os.scandir(entry.path) as scan:
                    pending.extend((name + "/", below) for below in scan)
                stamp.add(name + "/", "")
            elif entry.is_file(follow_symlinks=False):
                stamp.add(name, file_mark(entry.stat(follow_symlinks=False)))
            else:
                return None
        return stamp.digest()
    except OSError:
        return None
