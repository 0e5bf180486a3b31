"""How much an archive may hold, counted while it is inflated (I4).

What a header claims counts only against the archive: who claims too much is believed, who claims little is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skillquay.core.entries import LIMITS
from skillquay.core.hidden import shorten
from skillquay.core.paths import MAX_DEPTH
from skillquay.errors import ArchiveError

__all__ = ["BUDGET", "Allowance", "Budget", "Meter"]

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one archive.

    `entries` counts members of any kind, `files` the files and links among them, `depth` the segments of a path,
    `file_bytes` and `total_bytes` what comes out, `packed_bytes` the archive itself, and `header_bytes` what the
    extended headers of a tar hold in all.
    """

    entries: int = 2048
    depth: int = MAX_DEPTH
    file_bytes: int = LIMITS.size
    total_bytes: int = LIMITS.size
    files: int = LIMITS.files
    packed_bytes: int = 32 * _MIB
    header_bytes: int = 4 * _MIB


BUDGET: Final = Budget()


class Allowance:
    """How many bytes one server may still have unpacked, in all its archives together, until it is renewed.

    What was taken is not given back when the archive is refused in the end: the work was done.
    """

    __slots__ = ("_total", "left")

    def __init__(self, total: int) -> None:
        self._total = self.left = total

    def renew(self) -> None:
        """Begin anew."""
        self.left = self._total

    def take(self, size: int) -> None:
        """Count so many bytes more; an `ArchiveError` says that there are none left."""
        self.left -= size
        if self.left < 0:
            self.left = 0
            raise ArchiveError(
                f"The archives of this server gave the {self._total:,} bytes that are unpacked of one server between "
                "two listings. Refresh, or load fewer of its skills."
            )


class Meter:
    """What came out of one archive so far, against its budget."""

    __slots__ = ("_allowance", "_budget", "_entries", "_files", "_headers", "_total")

    def __init__(self, budget: Budget, allowance: Allowance | None) -> None:
        self._budget = budget
        self._allowance = allowance
        self._entries = self._files = self._headers = self._total = 0

    def count_entry(self) -> None:
        """One more member, of whatever kind."""
        self._entries += 1
        self.claim_entries(self._entries)

    def claim_entries(self, entries: int) -> None:
        """An archive that only says that it has more members than it may is believed."""
        if entries > self._budget.entries:
            raise ArchiveError(f"The archive has more than {self._budget.entries:,} members.")

    def count_file(self) -> None:
        """One more file."""
        self._files += 1
        if self._files > self._budget.files:
            raise ArchiveError(f"The archive has more than {self._budget.files:,} files.")

    def claim_size(self, name: str, size: int) -> None:
        """A member that only says that it is larger than it may be is believed; one that says less is measured."""
        self._check(name, size, self._total + size)

    def count_bytes(self, name: str, so_far: int, size: int) -> None:
        """So many bytes more of a file of which there were `so_far`."""
        self._total += size
        self._check(name, so_far + size, self._total)
        if self._allowance is not None:
            self._allowance.take(size)

    def _check(self, name: str, size: int, total: int) -> None:
        if size > self._budget.file_bytes:
            raise ArchiveError(f'"{shorten(name)}" is larger than {self._budget.file_bytes:,} bytes.')
        if total > self._budget.total_bytes:
            raise ArchiveError(f"The archive holds more than {self._budget.total_bytes:,} bytes.")

    def count_header(self, size: int) -> None:
        """An extended header of so many bytes."""
        self._headers += size
        if self._headers > self._budget.header_bytes:
            raise ArchiveError(f"The extended headers of the archive exceed {self._budget.header_bytes:,} bytes.")
        if self._allowance is not None:
            self._allowance.take(size)
