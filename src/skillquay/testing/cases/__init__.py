"""The cases, by theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillquay.testing.cases import (
    addresses,
    approvals,
    controls,
    directories,
    entries,
    execution,
    failures,
    integrity,
    limits,
    origins,
)

if TYPE_CHECKING:
    from skillquay.testing.stage import Case

__all__ = ["THEMES", "hostile_cases"]

THEMES = {
    "Honest servers": controls.CASES,
    "Content that is not what was listed": integrity.CASES,
    "Entries and declarations": entries.CASES,
    "Addresses": addresses.CASES,
    "Approval": approvals.CASES,
    "Origins and names": origins.CASES,
    "Execution and permissions": execution.CASES,
    "Directories": directories.CASES,
    "Too much": limits.CASES,
    "Servers that fail": failures.CASES,
}


def hostile_cases() -> list[Case]:
    """Every case, in order."""
    return [case for theme in THEMES.values() for case in theme]
