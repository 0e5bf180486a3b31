"""Read one file of a skill: its bytes of one moment, or why they cannot be published."""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple

from skillquay.core.entries import LIMITS
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import shorten

__all__ = ["RECENT", "FileRead", "NotPublishedError", "read_file", "size_of", "unreadable"]

RECENT: Final = 100_000_000  # nanoseconds in which a file may be written again without its time changing
_FIRST_READ: Final = 1 << 14  # enough for nearly every file of a skill
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY


class NotPublishedError(Exception):
    """A file or directory that does not become part of a skill, and why."""

    def __init__(self, rule: str, kind: str, message: str, fix: str, *, level: Level = Level.ERROR) -> None:
        super().__init__(message)
        self.rule, self.kind, self.message, self.fix, self.level = rule, kind, message, fix, level

    def finding(self, file: str) -> Finding:
        """The remark about this file or directory."""
        shown = shorten(file, 200)
        return Finding(rule=self.rule, level=self.level, kind=self.kind, message=self.message, file=shown, fix=self.fix)


class FileRead(NamedTuple):
    """A file's bytes, None where no skill may hold so many (E4), and what its status was when they were read."""

    data: bytes | None
    status: os.stat_result


def size_of(location: str) -> int:
    """How large a file is that is only counted."""
    try:
        return os.lstat(location).st_size
    except OSError as error:
        raise unreadable(error) from None


def read_file(location: str, begun: int) -> FileRead:
    """A file's bytes and status, all of one moment.

    A file whose inode last changed well before `begun`, when this began, did not change while it was
    read. Of a file that has just changed, two readings must be the same.
    """
    try:
        fd = os.open(location, _OPEN_FLAGS)
        try:
            data = os.read(fd, _FIRST_READ)
            for _ in range(2):
                status = os.fstat(fd)
                size = status.st_size
                if not stat.S_ISREG(status.st_mode):
                    raise NotPublishedError("U1", "special-file", "Not a regular file any more.", "Try again.")
                if size > LIMITS.size:
                    return FileRead(None, status)
                if len(data) == size and begun - status.st_ctime_ns > RECENT:
                    return FileRead(data, status)
                data = _read_whole(fd, size)
                changed = os.fstat(fd).st_ctime_ns
                is_still = begun - changed > RECENT or _read_whole(fd, size) == data
                if len(data) == size and changed == status.st_ctime_ns and is_still:
                    return FileRead(data, status)
        finally:
            os.close(fd)
    except OSError as error:
        raise unreadable(error) from None
    raise NotPublishedError("E3", "changing", "The file changed while it was being read.", "Try again later.")


def _read_whole(fd: int, size: int) -> bytes:
    """A file from its beginning, up to one byte more than `size`, so that growth shows."""
    data = b""
    os.lseek(fd, 0, os.SEEK_SET)
    while len(data) <= size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def unreadable(error: OSError) -> NotPublishedError:
    """What is told of something the operating system does not let us read."""
    reason = (error.strerror or "unknown error").lower()
    fix = "Check its permissions." if isinstance(error, PermissionError) else "See what is the matter with it."
    return NotPublishedError("U1", "unreadable", f"It cannot be read: {reason}.", fix)
