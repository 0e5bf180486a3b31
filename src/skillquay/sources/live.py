"""The skills that are published at this moment, from all sources, and the bytes behind them.

Reading and refreshing happen in one thread at a time; `catalog` is swapped whole, so that whoever took it before sees
one moment throughout.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from skillquay.core.catalog import Catalog, Listed
from skillquay.core.entries import Manifest
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import visible
from skillquay.errors import EntryError
from skillquay.sources.index import Index
from skillquay.sources.spool import Spool
from skillquay.sources.tree import Difference, Remark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skillquay.core.digests import Digest
    from skillquay.core.entries import FileRecord
    from skillquay.core.uris import SkillUri
    from skillquay.sources.tree import DirectorySource

__all__ = ["Change", "LiveCatalog"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What moved between two catalogs: the skills, and every file that was added, rewritten or removed."""

    skills: frozenset[SkillUri]
    files: frozenset[SkillUri]


class LiveCatalog:
    """One catalog over several sources; the first source that has a URI keeps it."""

    def __init__(self, sources: Sequence[DirectorySource], *, index_directory: str | None = None) -> None:
        self.sources = tuple(sources)
        self.catalog = Catalog()
        self._generated: dict[tuple[str, ...], Listed] = {}
        self._spool = Spool()
        self._is_spooling = True
        self._indexes = [_index(source, index_directory) for source in self.sources]
        self._remembered: list[frozenset[str]] = []
        self._unverified: list[tuple[DirectorySource, str]] = []
        self._twice: dict[SkillUri, Remark] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read every source, as far as the index does not know it."""
        with self._lock:
            for source, index in zip(self.sources, self._indexes, strict=True):
                known = index.load() if index else {}
                source.read(known, self._keep)
                taken = [each for each, unit in source.units.items() if known.get(each) is unit]
                self._unverified += [(source, location) for location in taken]
                self._remembered.append(frozenset(known))
            self._rebuild()

    def save(self) -> None:
        """Write what the indexes do not know yet; called once the catalog is being served."""
        with self._lock:
            for source, index, known in zip(self.sources, self._indexes, self._remembered, strict=True):
                taken = {location for owner, location in self._unverified if owner is source}
                if index:
                    new = {location: unit for location, unit in source.units.items() if location not in taken}
                    index.save(new, gone=known - source.units.keys())

    def refresh(self, paths: Iterable[str]) -> Change | None:
        """Read again what changed on disk, and swap the catalog if that makes a difference."""
        changed = list(paths)
        with self._lock:
            differences: list[Difference] = []
            for source, index in zip(self.sources, self._indexes, strict=True):
                before = dict(source.units)
                differences.append(source.refresh(changed, self._keep))
                if index and source.units != before:
                    moved = {each: unit for each, unit in source.units.items() if before.get(each) is not unit}
                    index.save(moved, gone=before.keys() - source.units.keys())
            return self._apply(differences)

    def refresh_file(self, uri: SkillUri) -> Change | None:
        """Read again the skill that this file belongs to, or belonged to."""
        return self.refresh([place for source in self.sources if (place := source.place(uri)) is not None])

    def relocate(self) -> Change | None:
        """Read sources anew whose path leads somewhere else by now."""
        with self._lock:
            return self._apply([source.relocate(self._keep) for source in self.sources])

    def verify_some(self, count: int) -> tuple[bool, Change | None]:
        """Read units that were taken from the index; true while there are more, and a change where it was wrong."""
        with self._lock:
            todo, self._unverified = self._unverified[:count], self._unverified[count:]
            differences = [
                source.read_anew(location, self._keep) for source, location in todo if location in source.units
            ]
            change = self._apply(differences)
        if change is not None:
            _log.warning("The index was out of date for %d skills; they were read anew.", len(change.skills))
        return bool(self._unverified), change

    def generate(self, listed: Listed) -> Change | None:
        """Publish what a function now makes; a change only when its entry became another."""
        with self._lock:
            key = listed.uri.key
            old = self._generated.get(key)
            if old == listed:
                return None
            self._generated[key] = listed
            return self._apply([Difference((old,) if old else (), (listed,))])

    def read(self, record: FileRecord) -> bytes | None:
        """The bytes of a published file, as they were when they were hashed."""
        if (data := self._spool.read(record.digest)) is not None:
            return data
        for source in self.sources:
            if (data := source.read_file(record)) is not None:
                self._keep(record.digest, data)
                return data
        return None

    def is_at_hand(self, record: FileRecord) -> bool:
        """True when reading this file touches nothing but the spool."""
        return self._spool.size(record.digest) is not None

    @property
    def remarks(self) -> list[Remark]:
        """What an operator should know, by location."""
        remarks = [each for source in self.sources for each in source.remarks]
        return sorted([*remarks, *self._twice.values()], key=lambda remark: remark.location)

    def _keep(self, digest: Digest, data: bytes) -> None:
        if not self._is_spooling:
            return
        try:
            self._spool.keep(digest, data)
        except OSError as error:
            self._is_spooling = False
            _log.warning(
                "The temporary directory cannot be written (%s). Files are read from their directories instead, and a "
                "skill that breaks cannot be served in its last good version. Free some space, or set TMPDIR.",
                visible(error.strerror or "unknown error"),
            )

    def _rebuild(self) -> None:
        self._twice = {}
        published: dict[tuple[str, ...], Listed] = dict(self._generated)
        for source in self.sources:
            for location, unit in source.units.items():
                for listed in unit.skills:
                    if published.setdefault(listed.uri.key, listed) is not listed:
                        self._twice[listed.uri] = _published_twice(location, listed)
        self.catalog = Catalog(published.values())

    def _apply(self, differences: Sequence[Difference]) -> Change | None:
        removed = [listed for difference in differences for listed in difference.removed]
        added = [listed for difference in differences for listed in difference.added]
        if not removed and not added:
            return None
        before = self.catalog
        try:
            if self._twice:
                raise EntryError("two sources have the same skill.", field="uri", rule="G1")
            self.catalog = before.changed(removed=[each.uri for each in removed], added=added)
        except (EntryError, KeyError):
            self._rebuild()
        if self._spool.has_slack:
            self._spool.shrink(_digests(self.catalog))
        return _change(removed, added)


def _change(removed: Iterable[Listed], added: Iterable[Listed]) -> Change:
    old = {record for listed in removed for record in _records(listed)}
    new = {record for listed in added for record in _records(listed)}
    skills = {listed.uri for listed in (*removed, *added)}
    return Change(skills=frozenset(skills), files=frozenset(record.uri for record in old ^ new) | skills)


def _records(listed: Listed) -> tuple[FileRecord, ...]:
    resources = listed.entry.resources
    return resources.files if isinstance(resources, Manifest) else ()


def _digests(catalog: Catalog) -> Iterator[Digest]:
    for listed in catalog.listed:
        for record in _records(listed):
            yield record.digest


def _published_twice(location: str, listed: Listed) -> Remark:
    finding = Finding(
        rule="G1",
        level=Level.ERROR,
        kind="published-twice",
        message=f"Another directory already publishes {visible(listed.uri)}.",
        fix="Give one of them a prefix, or leave it out.",
    )
    return Remark(location=location, finding=finding)


def _index(source: DirectorySource, directory: str | None) -> Index | None:
    if directory is None:
        return None
    name = sha256(source.key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return Index(os.path.join(directory, f"{name}.sqlite"), key=source.key)
