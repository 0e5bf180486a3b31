"""One immutable publication: the entries, files and directories of one moment always agree (L1, G1, D1, N3)."""

from __future__ import annotations

import base64
import json
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from skillquay.core.entries import FileRecord, Manifest, SkillEntry, read_own_entry
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD
from skillquay.errors import CursorError, EntryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skillquay.core.uris import SkillUri

__all__ = [
    "Catalog",
    "Listed",
    "Node",
    "Page",
    "Where",
    "find_children",
    "find_file",
    "name_findings",
    "nesting_note",
    "page_of_children",
]

Item = TypeVar("Item")

Where: TypeAlias = Callable[[SkillEntry], bool]

_CHECK_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A direct child of a published directory; `record` is None for a sub-directory."""

    uri: SkillUri
    name: str
    record: FileRecord | None


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry in the form a catalog keeps ten thousand of: written once, as the JSON text that travels.

    `empty` are the paths of directories in it that hold nothing, `executable` those of files that can be run; a
    manifest knows neither (D1, I3).
    """

    uri: SkillUri
    text: bytes
    empty: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: SkillEntry, empty: tuple[str, ...] = (), executable: tuple[str, ...] = ()) -> Self:
        """Write an entry down."""
        return cls(entry.uri, entry.to_text().encode(), empty, executable)

    @property
    def entry(self) -> SkillEntry:
        """The entry as a value."""
        return read_own_entry(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The entry as it travels."""
        data: dict[str, Any] = json.loads(self.text)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a listing, and the cursor of the next part."""

    items: Sequence[Item]
    next_cursor: str | None


class Catalog:
    """All skills published at one moment. It is never changed; a changed directory makes a new one."""

    __slots__ = ("_by_root", "listed")

    def __init__(self, skills: Iterable[Listed] = ()) -> None:
        self.listed = tuple(sorted(skills, key=_uri))
        self._by_root: dict[tuple[str, ...], Listed] = {}
        for listed in self.listed:
            if self._by_root.setdefault(_root(listed.uri), listed) is not listed:
                raise EntryError(f'"{shorten(listed.uri)}" is published twice.', field="uri", rule="G1")

    def changed(self, *, removed: Iterable[SkillUri], added: Iterable[Listed]) -> Catalog:
        """The catalog without some skills and with others; what did not change is neither copied nor looked at."""
        catalog = Catalog()
        catalog._by_root = by_root = dict(self._by_root)
        listed = list(self.listed)
        for uri in removed:
            old = by_root.pop(_root(uri))
            del listed[bisect_left(listed, old.uri, key=_uri)]
        for new in added:
            if by_root.setdefault(_root(new.uri), new) is not new:
                raise EntryError(f'"{shorten(new.uri)}" is published twice.', field="uri", rule="G1")
            insort(listed, new, key=_uri)
        catalog.listed = tuple(listed)
        return catalog

    def __len__(self) -> int:
        return len(self.listed)

    def skill(self, uri: SkillUri) -> Listed | None:
        """The skill whose `SKILL.md` this is, however spelled (G1)."""
        *root, name = uri.key
        return self._by_root.get(tuple(root)) if name == SKILL_MD else None

    def around(self, uri: SkillUri) -> Iterator[Listed]:
        """The skills whose directory this URI is or lies in, the innermost first."""
        key = uri.key
        for length in range(len(key), 1, -1):
            if listed := self._by_root.get(key[:length]):
                yield listed

    def outermost(self) -> Iterator[Listed]:
        """The skills that lie in no other, in the order of their URIs (I12)."""
        by_root = self._by_root
        lengths = sorted(set(map(len, by_root)))
        for listed in self.listed:
            root = _root(listed.uri) if len(lengths) > 1 else ()
            if not any(root[:length] in by_root for length in lengths if length < len(root)):
                yield listed

    def page(
        self,
        cursor: str | None,
        *,
        size: int,
        max_bytes: int | None = None,
        where: Where | None = None,
        listing: str = "skills/list",
    ) -> Page[Listed]:
        """At most `size` skills, and about `max_bytes` of them, after the place a cursor of this listing names.

        A cursor names a place in the order of URIs, not a position, so that a listing taken page by page while skills
        come and go neither skips nor repeats a skill that was there throughout (L1). A page has at least one skill, so
        that a listing always ends.
        """
        start = 0 if cursor is None else bisect_right(self.listed, _read_cursor(cursor, listing), key=_uri)
        items: list[Listed] = []
        room = max_bytes
        for listed in islice(self.listed, start, None):
            if where is not None and not where(listed.entry):
                continue
            if items and (len(items) >= size or (room is not None and len(listed.text) > room)):
                return Page(items=items, next_cursor=_write_cursor(items[-1].uri, listing))
            items.append(listed)
            room = None if room is None else room - len(listed.text)
        return Page(items=items, next_cursor=None)


def find_file(skills: Iterable[Listed], uri: SkillUri) -> FileRecord | None:
    """The record of a file in one of the skills around it; an enclosing skill has a nested one's files too."""
    for listed in skills:
        resources = listed.entry.resources
        if isinstance(resources, Manifest) and (record := resources.find(uri)):
            return record
    return None


def find_children(skills: Iterable[Listed], uri: SkillUri) -> tuple[Node, ...] | None:
    """The direct children of a directory in the skills around it, in a fixed order; None when it is none (D1).

    The skills come innermost first, as for `find_file`: an enclosing skill may still be served in an older version.
    """
    depth = len(uri.key)
    found: dict[str, Node] = {}
    is_directory = False
    for listed in skills:
        entry = listed.entry
        records = entry.resources.files if isinstance(entry.resources, Manifest) else ()
        places: list[tuple[tuple[str, ...], FileRecord | None]] = [(record.uri.key, record) for record in records]
        places += [((*entry.root.child(path).key, ""), None) for path in listed.empty]
        for key, record in places:
            if len(key) > depth and key[:depth] == uri.key:
                is_directory = True
                name = key[depth]
                if record is not None and len(key) == depth + 1:
                    found.setdefault(name, Node(uri=record.uri, name=name, record=record))
                elif name:
                    found.setdefault(name, Node(uri=uri.child(name), name=name, record=None))
    return tuple(found[name] for name in sorted(found)) if is_directory else None


def page_of_children(nodes: Sequence[Node], uri: SkillUri, cursor: str | None, *, size: int) -> Page[Node]:
    """At most `size` children of a directory after the place a cursor of this directory names (D1)."""
    listing = "\0".join(("resources/directory/read", *uri.key))
    start = 0 if cursor is None else bisect_right(nodes, _read_cursor(cursor, listing), key=_name)
    items = nodes[start : start + size]
    more = start + size < len(nodes)
    return Page(items=items, next_cursor=_write_cursor(items[-1].name, listing) if more else None)


def name_findings(skills: Iterable[SkillUri]) -> Iterator[Finding]:
    """What an operator should know about the names in a listing of skills with these URIs (N3)."""
    by_name: dict[str, list[SkillUri]] = {}
    for uri in skills:
        by_name.setdefault(uri.segments[-2], []).append(uri)
        first = uri.partition("://")[2].partition("/")[0]
        if "%" in first or not first.isascii():
            yield Finding(
                rule="N3",
                level=Level.WARNING,
                kind="first-segment",
                message=f'The first segment "{shorten(uri.segments[0])}" of a path is not a plain URI name.',
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


def nesting_note(catalog: Catalog) -> str | None:
    """What an operator should know about skills that the indexes of the drafts before v1 may not list (I12)."""
    nested = len(catalog) - sum(1 for _ in catalog.outermost())
    what = "1 skill that lies in another one is" if nested == 1 else f"{nested:,} skills that lie in others are"
    return f"{what} not in skill://index.json, whose drafts forbid nesting; skills/list has all." if nested else None


def _root(uri: SkillUri) -> tuple[str, ...]:
    return uri.key[:-1]


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
    raise CursorError


_uri = attrgetter("uri")
_name = attrgetter("name")
