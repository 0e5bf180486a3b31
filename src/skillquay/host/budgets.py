"""How much time and how many bytes a server may take (B1, B2, L4, P4)."""

from __future__ import annotations

from dataclasses import dataclass

from skillquay.core.entries import LIMITS

__all__ = ["Budgets", "answer_cap"]

_MIB = 1024 * 1024
_ENVELOPE = 64 * 1024  # what surrounds the content of one file in an answer
_WORST_ESCAPE = 6  # bytes of JSON for one byte of text: \u0000


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The limits of one host. Times are in seconds, sizes in bytes; what is per server counts for one session."""

    discovery: float = 5.0
    call: float = 60.0
    pages: int = 200
    entries: int = 10_000
    page_bytes: int = 16 * _MIB
    listing_bytes: int = 64 * _MIB
    server_bytes: int = 1024 * _MIB
    shown_characters: int = 100_000


def answer_cap(size: int | None = None) -> int:
    """The longest answer that can hold a file of so many bytes, before anything is decoded (B1)."""
    return (LIMITS.size if size is None else size) * _WORST_ESCAPE + _ENVELOPE
