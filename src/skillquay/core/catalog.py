"""One immutable publication: the entries, files and directories of one moment always agree (L1, G1, D1, N3)."""

from __future__ import annotations

import base64
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, TypeVar

from skillquay.core.entries import FileRecord, Manifest, SkillEntry
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD
from skillquay.errors import CursorError, EntryError

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
        self.entries = tuple(sorted(entries, key=_uri))
        self._by_root: dict[tuple[str, ...], SkillEntry] = {}
        for entry in self.entries:
            if self._by_root.setdefault(entry.uri.key[:-1], entry) is not entry:
                raise EntryError(f'"{shorten(entry.uri)}" is published twice.', field="uri", rule="G1")
        self._uris = tuple(map(_uri, self.entries))

    def entry(self, uri: SkillUri) -> SkillEntry | None:
        """The entry of the skill whose `SKILL.md` this is, however spelled, listed or not in any page (G1)."""
        *root, name = uri.key
        return self._by_root.get(tuple(root)) if name == SKILL_MD else None

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
        return _page(self.entries, self._uris, cursor, size, listing="skills/list")

    def children_page(self, uri: SkillUri, cursor: str | None, *, size: int) -> Page[Node] | None:
        """At most `size` children of a directory after the place a cursor of this directory names (D1)."""
        if (nodes := self.children(uri)) is None:
            return None
        listing = "\0".join(("resources/directory/read", *uri.key))
        return _page(nodes, [node.name for node in nodes], cursor, size, listing=listing)

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


def _page(items: Sequence[Item], places: Sequence[str], cursor: str | None, size: int, *, listing: str) -> Page[Item]:
    start = 0 if cursor is None else bisect_right(places, _read_cursor(cursor, listing))
    end = start + size
    return Page(
        items=items[start:end], next_cursor=_write_cursor(places[end - 1], listing) if end < len(items) else None
    )


def _write_cursor(place: str, listing: str) -> str:
    encoded = place.encode()
    check = sha256(f"{listing}\0".encode() + encoded).digest()[:_CHECK_BYTES]
    return base64.urlsafe_b64encode(check + encoded).decode().rstrip("=")


def _read_cursor(cursor: str, listing: str) -> str:
    """The place a cursor names. Only the exact text that this listing gives out for a place is a cursor of it."""
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[_CHECK_BYTES:].decode()
        if _write_cursor(place, listing) == cursor:
            return place
    except (TypeError, ValueError):
        pass  # not text, not base64, not ASCII, not UTF-8
    raise CursorError("The cursor was not given out by this listing. Begin again without one.")
