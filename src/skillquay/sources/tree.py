"""A directory of skills that is served for a long time: read once, and again only where something changed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from skillquay.core.catalog import Listed
from skillquay.core.findings import Finding, Level
from skillquay.core.uris import SKILL_MD
from skillquay.sources.directory import IGNORED, SkippedPath, publish_tree
from skillquay.sources.index import Unit
from skillquay.sources.reading import NotPublishedError, read_file
from skillquay.sources.stamps import stamp_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillquay.core.entries import FileRecord
    from skillquay.core.folders import Publication
    from skillquay.core.uris import SkillUri
    from skillquay.sources.directory import Keep

__all__ = ["Difference", "DirectorySource", "Remark"]

_STILL_SERVED = "Its last good version is still served."


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something an operator should know of a place: what is not published and why, or what readers stumble over."""

    location: str
    finding: Finding


class Difference(NamedTuple):
    """What a look at changed places came to: skills that are not published any more, and skills that now are."""

    removed: tuple[Listed, ...]
    added: tuple[Listed, ...]


class _Found(NamedTuple):
    """One skill's directory, what it is published as, if it is, and whether there was anything to remark on."""

    location: str
    listed: Listed | None
    stamp: str | None
    is_clean: bool


@dataclass(slots=True)
class _Scan:
    """What one reading of a directory found, by location."""

    units: dict[str, Unit] = field(default_factory=dict)
    refused: dict[str, SkillUri] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


class DirectorySource:
    """The skills below one directory, kept by units: an outermost skill's directory with all that is nested in it.

    What `prefix` and `is_part` mean is told at `read_tree`. `units` is what is published now, by location. A skill that
    was good and is broken now keeps its last good version: somebody is in the middle of changing it. So does everything
    below a directory that cannot be read any more.
    """

    def __init__(self, root: str, *, prefix: Sequence[str] = (), is_part: bool = False, strict: bool = False) -> None:
        directory = os.path.dirname(root) or "." if os.path.basename(root) == SKILL_MD else root
        self.path = os.path.abspath(directory)
        self.root = os.path.realpath(directory)
        self.prefix = tuple(prefix)
        self.units: dict[str, Unit] = {}
        self.remarks: list[Remark] = []
        self._is_part = is_part
        self._strict = strict

    @property
    def key(self) -> str:
        """All that decides what is published of the files, but the files themselves."""
        return repr((self.root, self.prefix, self._is_part, self._strict))

    def read(self, known: Mapping[str, Unit], keep: Keep) -> None:
        """Read the whole directory; a unit that is known, and whose stamp still fits, is taken as it is."""
        self._look_at(self.root, known, keep)

    def refresh(self, paths: Iterable[str], keep: Keep) -> Difference:
        """Read again what these changed paths belong to."""
        done: list[str] = []
        removed: list[Listed] = []
        added: list[Listed] = []
        for directory in sorted({self._affected(path) for path in paths if self._concerns(path)}):
            if not any(_is_within(directory, other) for other in done):
                done.append(directory)
                difference = self._look_at(directory, self.units, keep)
                removed += difference.removed
                added += difference.added
        return Difference(tuple(removed), tuple(added))

    def relocate(self, keep: Keep) -> Difference:
        """Read everything again if the path leads to another directory by now: a link to a release was swapped."""
        root = os.path.realpath(self.path)
        if root == self.root or not os.path.isdir(root):
            return Difference((), ())
        before, self.root = self.units, root
        return self._look_at(root, {}, keep, before=before)

    def read_anew(self, location: str, keep: Keep) -> Difference:
        """Read a unit again from its files, whatever is known of it."""
        return self._look_at(location, {}, keep)

    def read_file(self, record: FileRecord) -> bytes | None:
        """The bytes of a published file from the directory itself, if they are still the same."""
        if (place := self.place(record.uri)) is None:
            return None
        try:
            data = read_file(place, 0).data
        except NotPublishedError:
            return None
        return data if data is not None and type(record.digest).of(data) == record.digest else None

    def place(self, uri: SkillUri) -> str | None:
        """Where the file with this URI lies, if it is one of this source's."""
        above = len(self.prefix) + (self.root in self.units and not self._is_part)
        segments = uri.segments
        is_ours = segments[: len(self.prefix)] == self.prefix
        return os.path.join(self.root, *segments[above:]) if is_ours else None

    def _concerns(self, path: str) -> bool:
        """True for a path in this directory that is not hidden: nothing below a hidden one is ever published."""
        if not _is_within(path, self.root):
            return False
        return not any(part[0] == "." or part in IGNORED for part in _parts(path, self.root))

    def _affected(self, path: str) -> str:
        """The directory to read again when this path changed: the unit around it, or the nearest one that is there."""
        directory, parts = self.root, _parts(path, self.root)
        for part in parts:
            if directory in self.units:
                return directory
            below = os.path.join(directory, part)
            if not os.path.isdir(below) and below not in self.units:
                return directory
            directory = below
        return directory

    def _look_at(
        self, directory: str, known: Mapping[str, Unit], keep: Keep, before: Mapping[str, Unit] | None = None
    ) -> Difference:
        """Read a directory, and put what it publishes now in place of what it published."""
        scan = self._scan(directory, known, keep)
        if before is None:
            before = {location: unit for location, unit in self.units.items() if _is_within(location, directory)}
        last_good = {listed.uri.key: listed for unit in before.values() for listed in unit.skills}
        if before:
            self._keep_last_good(scan, before, last_good)
        self.units = {each: unit for each, unit in self.units.items() if each not in before} | scan.units
        self.remarks = [each for each in self.remarks if not _is_within(each.location, directory)] + scan.remarks
        now = {listed.uri.key: listed for unit in scan.units.values() for listed in unit.skills}
        return Difference(
            removed=tuple(listed for key, listed in last_good.items() if now.get(key) != listed),
            added=tuple(listed for key, listed in now.items() if last_good.get(key) != listed),
        )

    def _scan(self, directory: str, known: Mapping[str, Unit], keep: Keep) -> _Scan:
        scan = _Scan()

        def is_known(location: str, entries: Sequence[os.DirEntry[str]]) -> bool:
            unit = known.get(location)
            if unit is None or unit.stamp is None or stamp_directory(entries) != unit.stamp:
                return False
            scan.units[location] = unit
            return True

        found: list[_Found] = []
        is_part = self._is_part or directory != self.root
        prefix = (*self.prefix, *_parts(directory, self.root))
        for item in publish_tree(
            directory, prefix=prefix, is_part=is_part, strict=self._strict, keep=keep, known=is_known
        ):
            if isinstance(item, SkippedPath):
                scan.skipped.append(item.location)
                scan.remarks.append(Remark(location=item.location, finding=item.finding))
                continue
            self._note(scan, item)
            listed = Listed.of(item.entry, item.folder.empty) if item.entry else None
            found.append(_Found(item.folder.location, listed, item.folder.stamp, is_clean=not item.findings))
        _group(found, scan, directory)
        return scan

    def _note(self, scan: _Scan, publication: Publication) -> None:
        location = publication.folder.location
        if publication.entry is None:
            scan.refused[location] = publication.folder.root.child(SKILL_MD)
        scan.remarks += [
            Remark(location=location, finding=finding)
            for finding in publication.findings
            if finding.level is not Level.NOTE
        ]

    def _keep_last_good(
        self, scan: _Scan, before: Mapping[str, Unit], last_good: Mapping[tuple[str, ...], Listed]
    ) -> None:
        for location, uri in scan.refused.items():
            if old := last_good.get(uri.key):
                outermost = next(each for each in scan.units if _is_within(location, each))
                scan.units[outermost] = Unit((*scan.units[outermost].skills, old), None)
                scan.remarks.append(_still_served(location))
        for location, unit in before.items():
            places = (location, os.path.join(location, SKILL_MD))
            if location not in scan.units and any(
                skipped in places or _is_within(location, skipped) for skipped in scan.skipped
            ):
                scan.units[location] = Unit(unit.skills, None)
                scan.remarks.append(_still_served(location))


def _group(found: Iterable[_Found], scan: _Scan, directory: str) -> None:
    """Put skills together with those nested in them; an enclosing skill that is refused still is their unit."""
    locations = {each.location for each in found}
    units: dict[str, list[_Found]] = {}
    for each in found:
        outermost = above = each.location
        while len(above) > len(directory):
            above = os.path.dirname(above)
            if above in locations:
                outermost = above
        units.setdefault(outermost, []).append(each)
    for location, members in units.items():
        stamp = next(each.stamp for each in members if each.location == location)
        listed = sorted((each.listed for each in members if each.listed), key=attrgetter("uri"))
        scan.units[location] = Unit(tuple(listed), stamp if all(each.is_clean for each in members) else None)


def _still_served(location: str) -> Remark:
    finding = Finding(rule="E3", level=Level.WARNING, kind="last-good", message=_STILL_SERVED, fix="Put it right.")
    return Remark(location=location, finding=finding)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _parts(path: str, root: str) -> list[str]:
    relative = path[len(root) :].strip(os.sep)
    return relative.split(os.sep) if relative else []
