"""A directory of skills that is served for a long time: read once, and again only where something changed."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from skillquay.core.catalog import Listed
from skillquay.core.entries import Manifest
from skillquay.core.findings import Finding, Level
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import UriError
from skillquay.sources.directory import IGNORED, MAX_DEPTH, Reading, SkippedPath, publish_tree
from skillquay.sources.index import Unit
from skillquay.sources.reading import NotPublishedError, read_file
from skillquay.sources.stamps import stamp_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from skillquay.core.digests import Digest
    from skillquay.core.entries import FileRecord

__all__ = ["Difference", "DirectorySource", "Remark", "SourceState", "Store"]

_SEEN_FROM_ABOVE: Final = IGNORED | {SKILL_MD}  # names that say something of the directory they are in
_STILL_SERVED: Final = "Its last good version is still served."


class Store(Protocol):
    """Where the bytes of files go when they are read."""

    def keep(self, digest: Digest, data: bytes, /) -> None:
        """Keep these bytes."""
        ...

    def has(self, record: FileRecord, /) -> bool:
        """True when the bytes of this file can be given out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something an operator should know of a place: what is not published and why, or what readers stumble over."""

    location: str
    finding: Finding


class Difference(NamedTuple):
    """What a look at changed places came to: skills that are not published any more, and skills that now are."""

    removed: tuple[Listed, ...]
    added: tuple[Listed, ...]


class SourceState(NamedTuple):
    """What a source has read, in plain values."""

    units: dict[str, tuple[str | None, list[tuple[str, bytes, tuple[str, ...], tuple[str, ...]]]]]
    claims: list[str]
    remarks: dict[str, list[Remark]]


class _Found(NamedTuple):
    """One skill's directory, what it is published as, if it is, and whether there was anything to remark on."""

    location: str
    listed: Listed | None
    stamp: str | None
    is_clean: bool


@dataclass(slots=True)
class _Scan:
    """What one reading found, by location: units, skills that are refused, and directories that cannot be listed."""

    units: dict[str, Unit] = field(default_factory=dict)
    refused: dict[str, SkillUri] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)


class DirectorySource:
    """The skills below one directory, kept by units: an outermost skill's directory with all that is nested in it.

    `units` is what is published now, by location; no unit lies in another. `claims` are those of them that came from
    an index and were not read yet. What `prefix`, `scheme` and `is_part` mean is told at `read_tree`.

    A skill that was good and is broken now keeps its last good version, if that was ever read and its bytes are still
    to be had: somebody is in the middle of changing it. What lies in a directory that cannot be read any more is kept,
    and everything when the root itself is gone: it may come back as it was.

    One thread at a time may read; what it replaces is replaced whole, so that others may look at any time.
    """

    def __init__(
        self,
        root: str,
        *,
        prefix: Sequence[str] = (),
        scheme: str = "skill",
        is_part: bool = False,
        strict: bool = False,
    ) -> None:
        is_file = os.path.basename(root) == SKILL_MD and not os.path.isdir(root)
        self.path = os.path.abspath(os.path.dirname(root) if is_file else root)
        self.root = os.path.realpath(self.path)
        self.scheme, self.prefix = scheme, tuple(prefix)
        self.units: Mapping[str, Unit] = {}
        self.claims: dict[str, Unit] = {}
        self._remarks: Mapping[str, Sequence[Remark]] = {}
        self._is_part = is_part
        self._strict = strict

    @property
    def settings(self) -> str:
        """What was asked for."""
        return repr((self.path, self.scheme, self.prefix, self._is_part, self._strict))

    @property
    def key(self) -> str:
        """All that decides what is published of the files, but the files themselves."""
        return f"{self.settings} {self.root!r}"

    @property
    def remarks(self) -> list[Remark]:
        """What an operator should know."""
        return [remark for remarks in self._remarks.values() for remark in remarks]

    def read(self, known: Mapping[str, Unit], store: Store) -> None:
        """Read the whole directory; a unit that is known, and whose stamp still fits, is taken as it is."""
        self._look_at([self.root], known, store)
        self.claims = {location: unit for location, unit in self.units.items() if known.get(location) is unit}

    def state(self) -> SourceState:
        """What was read, in plain values that another process can be sent."""
        units = {
            location: (unit.stamp, [(str(each.uri), each.text, each.empty, each.executable) for each in unit.skills])
            for location, unit in self.units.items()
        }
        return SourceState(units, list(self.claims), {place: list(remarks) for place, remarks in self._remarks.items()})

    def restore(self, state: SourceState) -> None:
        """Take what another process has read."""
        self.units = {
            location: Unit(tuple(Listed(str.__new__(SkillUri, each[0]), *each[1:]) for each in skills), stamp)
            for location, (stamp, skills) in state.units.items()
        }
        self.claims = {location: self.units[location] for location in state.claims}
        self._remarks = state.remarks

    def refresh(self, paths: Iterable[str], store: Store) -> Difference:
        """Read again what these changed paths belong to."""
        affected = {self._affected(path) for path in paths if self._concerns(path)}
        return self._look_at(_outermost(affected), self.units, store) if affected else Difference((), ())

    def relocate(self, store: Store) -> Difference:
        """Read everything again if the path leads to another directory by now: a link to a release was swapped."""
        root = os.path.realpath(self.path)
        if root == self.root or not os.path.isdir(root):
            return Difference((), ())
        self.claims, self.units = (
            {os.path.join(root, *_parts(location, self.root)): unit for location, unit in units.items()}
            for units in (self.claims, self.units)
        )
        self.root, self._remarks = root, {}
        return self._look_at([root], {}, store)

    def read_claims(self, count: int, store: Store) -> Difference:
        """Read some of the units that are only claimed, from their files."""
        if not (todo := list(islice(self.claims, count))):
            return Difference((), ())
        affected = _outermost({self._affected(location) for location in todo})
        known: Mapping[str, Unit] = {}
        if not self.units.keys() >= set(affected):  # one of them is gone, and its neighbours are looked at, too
            known = {location: unit for location, unit in self.units.items() if location not in todo}
        difference = self._look_at(affected, known, store)
        for location in todo:
            self.claims.pop(location, None)
        return difference

    def read_file(self, record: FileRecord) -> bytes | None:
        """The bytes of a published file from the directory itself, if they are still the same."""
        if (place := self.place(record.uri)) is None:
            return None
        try:
            data = read_file(os.path.realpath(place), 0).data  # a link may be published as a file
        except NotPublishedError:
            return None
        return data if data is not None and type(record.digest).of(data) == record.digest else None

    def place(self, uri: SkillUri) -> str | None:
        """Where the file with this URI lies, if it is one of this source's."""
        return self._place(uri, self.units)

    def _place(self, uri: SkillUri, units: Collection[str]) -> str | None:
        is_skill = self.root in units and not self._is_part
        above = (self.scheme, *self.prefix, *([os.path.basename(self.path)] if is_skill else []))
        key = uri.key
        return os.path.join(self.root, *key[len(above) :]) if key[: len(above)] == above else None

    def _concerns(self, path: str) -> bool:
        """True for a path in this directory that is not hidden: nothing below a hidden one is ever published."""
        if not _is_within(path, self.root):
            return False
        parts = _parts(path, self.root)
        return IGNORED.isdisjoint(parts[:-1]) and not any(part.startswith(".") for part in parts)

    def _affected(self, path: str) -> str:
        """The directory to read again when this path changed: the unit around it, or the nearest one that is there."""
        directory = self.root
        for part in _parts(path, self.root)[:MAX_DEPTH]:
            below = os.path.join(directory, part)
            if directory in self.units or part in _SEEN_FROM_ABOVE or not _is_directory(below):
                break
            directory = below
        while not self._has_uri(directory):
            directory = os.path.dirname(directory)
        return directory

    def _has_uri(self, directory: str) -> bool:
        """True but for directories with names that cannot be published."""
        segments = (*self.prefix, *_parts(directory, self.root))
        try:
            return not segments or bool(SkillUri.build(segments))
        except UriError:
            return directory == self.root

    def _look_at(self, directories: Sequence[str], known: Mapping[str, Unit], store: Store) -> Difference:
        """Read directories, none in another, and put what they publish now in place of what they published."""
        before = {location: self.units[location] for location in self._places_in(directories, self.units)}
        old = {listed.uri.key: listed for unit in before.values() for listed in unit.skills}
        scan = _Scan()
        for directory in directories:
            self._scan(directory, known, store, scan)
        if scan.refused or scan.unread:
            is_read = self.root in directories and self.root not in scan.unread
            self._keep_last_good(scan, before, store, scan.units if is_read else self.units)
        self._replace(directories, before, scan)
        new = {listed.uri.key: listed for unit in scan.units.values() for listed in unit.skills}
        return Difference(
            removed=tuple(listed for key, listed in old.items() if new.get(key) != listed),
            added=tuple(listed for key, listed in new.items() if old.get(key) != listed),
        )

    def _scan(self, directory: str, known: Mapping[str, Unit], store: Store, scan: _Scan) -> None:
        parts = _parts(directory, self.root)

        def is_known(location: str, entries: Sequence[os.DirEntry[str]]) -> bool:
            unit = known.get(location)
            if unit is None or unit.stamp is None or stamp_directory(entries) != unit.stamp:
                return False
            scan.units[location] = unit
            return True

        def note_unread(location: str, error: OSError) -> None:
            if location == self.root or not isinstance(error, FileNotFoundError | NotADirectoryError):
                scan.unread.add(location)

        reading = Reading(
            name=os.path.basename(self.path),
            is_part=self._is_part or bool(parts),
            depth=len(parts),
            scheme=self.scheme,
            keep=store.keep,
            known=is_known,
            unread=note_unread,
        )
        found: list[_Found] = []
        for item in publish_tree(directory, prefix=(*self.prefix, *parts), strict=self._strict, reading=reading):
            if isinstance(item, SkippedPath):
                location, root, listed = item.location, item.root, None
                scan.remarks.append(Remark(location=location, finding=item.finding))
                if root is None:
                    continue
                found.append(_Found(location, None, None, is_clean=False))
            else:
                location, root = item.folder.location, item.folder.root
                listed = Listed.of(item.entry, item.folder.empty, item.folder.executable) if item.entry else None
                scan.remarks += [
                    Remark(location=location, finding=each) for each in item.findings if each.level is not Level.NOTE
                ]
                found.append(_Found(location, listed, item.folder.stamp, is_clean=not item.findings))
            if listed is None:
                scan.refused[location] = root.child(SKILL_MD)
        _group(found, scan)

    def _keep_last_good(self, scan: _Scan, before: Mapping[str, Unit], store: Store, units: Collection[str]) -> None:
        """Add to what was found what was published before, and is broken or out of sight now."""
        found = {listed.uri.key for unit in scan.units.values() for listed in unit.skills}
        broken = {uri.key: location for location, uri in scan.refused.items()}
        claimed = {
            listed.uri.key
            for location, unit in before.items()
            if self.claims.get(location) is unit
            for listed in unit.skills
        }
        old = [listed for unit in before.values() for listed in unit.skills if listed.uri.key not in found]
        for listed in sorted(old, key=attrgetter("uri.key")):
            key = listed.uri.key
            location = broken.get(key) or self._place(listed.uri.root, units)
            if key in broken:
                is_kept = key not in claimed and _has_all(store, listed)
            else:
                is_kept = location is not None and _around(location, scan.unread) is not None
            if location is None or not is_kept:
                continue
            place = _around(location, scan.units) or location
            skills = scan.units[place].skills if place in scan.units else ()
            scan.units[place] = Unit(tuple(sorted((*skills, listed), key=attrgetter("uri"))), None)
            scan.remarks.append(_still_served(location))

    def _replace(self, directories: Sequence[str], before: Mapping[str, Unit], scan: _Scan) -> None:
        remarks = dict(self._remarks)
        for location in self._places_in(directories, self._remarks):
            del remarks[location]
        for remark in scan.remarks:
            place = _around(remark.location, scan.units) or remark.location
            remarks[place] = (*remarks.get(place, ()), remark)
        self._remarks = remarks
        units = {**self.units}
        for location, unit in before.items():
            del units[location]
            if scan.units.get(location) is not unit:
                self.claims.pop(location, None)
        self.units = units | scan.units

    def _places_in(self, directories: Sequence[str], places: Collection[str]) -> list[str]:
        """Those of some units, or of some places with remarks, that lie in the directories."""
        if self.root in directories:
            return list(places)
        if self.units.keys() >= set(directories):  # all there is in a unit is kept under its own location
            return [each for each in directories if each in places]
        tops = set(directories)
        return [each for each in places if _around(each, tops) is not None]


def _group(found: Iterable[_Found], scan: _Scan) -> None:
    """Put skills together with those nested in them; an enclosing skill that is refused still is their unit."""
    units: dict[str, list[_Found]] = {}
    for each in sorted(found, key=lambda each: _split(each.location)):  # what encloses comes first
        units.setdefault(_around(each.location, units) or each.location, []).append(each)
    for location, members in units.items():
        skills = sorted((each.listed for each in members if each.listed), key=attrgetter("uri"))
        is_clean = all(each.is_clean for each in members)
        scan.units[location] = Unit(tuple(skills), members[0].stamp if is_clean else None)


def _has_all(store: Store, listed: Listed) -> bool:
    resources = listed.entry.resources
    return isinstance(resources, Manifest) and all(map(store.has, resources.files))


def _still_served(location: str) -> Remark:
    finding = Finding(rule="E3", level=Level.WARNING, kind="last-good", message=_STILL_SERVED, fix="Put it right.")
    return Remark(location=location, finding=finding)


def _outermost(directories: Iterable[str]) -> list[str]:
    """These directories, without those that lie in another of them."""
    kept: list[str] = []
    for directory in sorted(directories, key=_split):
        if not kept or not _is_within(directory, kept[-1]):
            kept.append(directory)
    return kept


def _around(path: str, among: Collection[str]) -> str | None:
    """The nearest of these directories that a path is or lies in."""
    while path not in among:
        above = os.path.dirname(path)
        if above == path:
            return None
        path = above
    return path


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _parts(path: str, root: str) -> list[str]:
    return [part for part in path[len(root) :].split(os.sep) if part]


def _split(path: str) -> list[str]:
    """What sorts a directory right before all that lies in it."""
    return path.split(os.sep)
