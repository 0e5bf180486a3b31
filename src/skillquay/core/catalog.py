"""One immutable publication: the entries, files and directories of one moment always agree (L1, G1, D1, N3)."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, TypeVar

from skillquay.core.entries import FileRecord, Manifest, SkillEntry
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import shorten
from skillquay.errors import CursorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skillquay.core.uris import SkillUri

__all__ = ["Catalog", "Node", "Page", "name_findings"]

Item = TypeVar("Item")

_CHECK_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A direct child of a published directory; `record` is None for a sub-directory."""

    uri: SkillUri
    name: str
    record: FileRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a listing, and the cursor of the next part."""

    items: Sequence[Item]
    next_cursor: str | None


class Catalog:
    """All skills published at one moment. It is never changed; a changed directory makes a new one."""

    __slots__ = ("_by_root", "_uris", "entries")

    def __init__(self, entries: Iterable[SkillEntry]) -> None:
        self._by_root = {entry.root.key: entry for entry in entries}
        self.entries = tuple(sorted(self._by_root.values(), key=_uri))
        self._uris = tuple(map(_uri, self.entries))

    def entry(self, uri: SkillUri) -> SkillEntry | None:
        """The entry of the skill whose `SKILL.md` this is, listed or not in any page (G1)."""
        return self._by_root.get(uri.key[:-1]) if uri.is_skill else None

    def file(self, uri: SkillUri) -> FileRecord | None:
        """The record of a published file; nested skills' files are found in either skill."""
        for entry in self._around(uri):
            if isinstance(entry.resources, Manifest) and (record := entry.resources.find(uri)):
                return record
        return None

    def children(self, uri: SkillUri) -> tuple[Node, ...] | None:
        """The direct children of a published directory, in a fixed order; None when it is not one (D1)."""
        depth = len(uri.key)
        found: dict[str, Node] = {}
        for entry in self._around(uri):
            records = entry.resources.files if isinstance(entry.resources, Manifest) else ()
            for record in records:
                key = record.uri.key
                if len(key) > depth and key[:depth] == uri.key:
                    name = key[depth]
                    is_file = len(key) == depth + 1
                    found[name] = Node(
                        uri=record.uri if is_file else uri.child(name), name=name, record=record if is_file else None
                    )
        return tuple(found[name] for name in sorted(found)) or None

    def page(self, cursor: str | None, *, size: int) -> Page[SkillEntry]:
        """At most `size` entries after the place a cursor names.

        A cursor names a place in the order of URIs, not a position, so that a listing taken page by page while skills
        come and go neither skips nor repeats a skill that was there throughout (L1).
        """
        start = 0 if cursor is None else bisect_right(self._uris, _read_cursor(cursor))
        items = self.entries[start : start + size]
        more = start + size < len(self.entries)
        return Page(items=items, next_cursor=_write_cursor(items[-1].uri) if more else None)

    def _around(self, uri: SkillUri) -> Iterator[SkillEntry]:
        """The skills whose directory this URI is or lies in, the outermost first."""
        key = uri.key
        for length in range(2, len(key) + 1):
            if entry := self._by_root.get(key[:length]):
                yield entry


def name_findings(entries: Iterable[SkillEntry]) -> Iterator[Finding]:
    """What an operator should know about the names in a listing (N3)."""
    by_name: dict[str, list[SkillUri]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry.uri)
        first = entry.uri.partition("://")[2].partition("/")[0]
        if "%" in first or not first.isascii():
            yield Finding(
                rule="N3",
                level=Level.WARNING,
                kind="first-segment",
                message=f'The first segment "{shorten(entry.uri.segments[0])}" of a path is not a plain URI name.',
                fix="Use letters, digits, dots and hyphens in the directory's name or the prefix.",
            )
    for name, uris in by_name.items():
        if len(uris) > 1:
            yield Finding(
                rule="N3",
                level=Level.WARNING,
                kind="same-name",
                message=f'{len(uris)} skills are named "{name}": {", ".join(map(shorten, sorted(uris)[:5]))}.',
                fix="Give each a name of its own; hosts must tell them apart by path.",
            )


def _uri(entry: SkillEntry) -> str:
    return str(entry.uri)


def _write_cursor(uri: str) -> str:
    encoded = uri.encode()
    return base64.urlsafe_b64encode(_check(encoded) + encoded).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        uri = decoded[_CHECK_BYTES:]
        if decoded[:_CHECK_BYTES] != _check(uri):
            raise ValueError
        return uri.decode()
    except (ValueError, binascii.Error):
        raise CursorError("The cursor was not given out by this listing. Begin again without one.") from None


def _check(encoded: bytes) -> bytes:
    return sha256(b"skills/list\0" + encoded).digest()[:_CHECK_BYTES]
