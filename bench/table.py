"""One measurement, what it is compared with, and whether it is what was wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Row", "print_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    what: str
    measured: str
    against: str
    ratio: str
    wanted: str
    reached: bool

    @classmethod
    def told(cls, what: str, measured: str, against: str, ratio: float) -> Self:
        """A comparison that nothing is wanted of."""
        return cls(what=what, measured=measured, against=against, ratio=f"{ratio:.2f} x", wanted="", reached=True)


def print_table(rows: Iterable[Row]) -> None:
    table = [("what", "measured", "against", "ratio", "wanted", "")]
    table += [
        (row.what, row.measured, row.against, row.ratio, row.wanted, "" if row.reached else "MISSED") for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
