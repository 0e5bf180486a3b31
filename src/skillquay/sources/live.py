"""The skills that are published at this moment, from all sources, and the bytes behind them.

Refreshing happens in one thread at a time; `catalog` is swapped whole, so that whoever took it before sees one moment
throughout.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from skillquay.core.catalog import Catalog, Listed
from skillquay.core.entries import Manifest
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import visible
from skillquay.errors import EntryError
from skillquay.sources.collector import collector_paused
from skillquay.sources.index import Index
from skillquay.sources.spool import Spool
from skillquay.sources.tree import Difference, Remark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from skillquay.core.digests import Digest
    from skillquay.core.entries import FileRecord
    from skillquay.core.uris import SkillUri
    from skillquay.sources.index import Unit
    from skillquay.sources.spool import SpoolState
    from skillquay.sources.tree import DirectorySource, SourceState

__all__ = ["Change", "LiveCatalog", "LiveState"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What moved between two catalogs: the skills, and every file that was added, rewritten or removed."""

    skills: frozenset[SkillUri]
    files: frozenset[SkillUri]


class LiveState(NamedTuple):
    """What a live catalog has read, in plain values."""

    sources: list[SourceState]
    remembered: list[frozenset[str]]
    unusable: list[list[object]]
    spool: SpoolState
    is_spooling: bool


class LiveCatalog:
    """One catalog over several sources. A generated skill has its URI before them all, then the first that has it."""

    def __init__(self, sources: Sequence[DirectorySource], *, index_directory: str | None = None) -> None:
        self.sources = tuple(sources)
        self.catalog = Catalog()
        self._generated: dict[tuple[str, ...], Listed] = {}
        self._bytes = _Bytes(self.sources)
        self._index_directory = index_directory
        self._indexes = [_index(source, index_directory) for source in self.sources]
        self._remembered: list[frozenset[str]] = []
        self._twice: list[Remark] = []
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read every source, as far as the index does not know it."""
        with self._lock, collector_paused():
            for source, index in zip(self.sources, self._indexes, strict=True):
                known = index.load() if index else {}
                source.read(known, self._bytes)
                self._remembered.append(frozenset(known))
            self._rebuild()

    def prepare(self) -> bool:
        """Make it possible for a copy of this process to read in its stead. False when it is not."""
        return self._bytes.spool.open()

    def state(self) -> LiveState:
        """What `load` has read, for the process that asked for it."""
        sources = [source.state() for source in self.sources]
        unusable = [index.unusable if index else [] for index in self._indexes]
        return LiveState(sources, self._remembered, unusable, self._bytes.spool.state(), self._bytes.is_spooling)

    def restore(self, state: LiveState) -> None:
        """Take what a copy of this process has read, instead of reading it."""
        with self._lock, collector_paused():
            for source, read in zip(self.sources, state.sources, strict=True):
                source.restore(read)
            self._remembered = state.remembered
            for index, unusable in zip(self._indexes, state.unusable, strict=True):
                if index:
                    index.unusable = unusable
            self._bytes.spool.restore(state.spool)
            self._bytes.is_spooling = state.is_spooling
            self._rebuild()

    def save(self) -> None:
        """Write what the indexes do not know yet; called once the catalog is being served."""
        with self._lock:
            for source, index, known in zip(self.sources, self._indexes, self._remembered, strict=True):
                if index:
                    new = {location: unit for location, unit in source.units.items() if location not in source.claims}
                    index.save(new, gone=known - source.units.keys())

    def refresh(self, paths: Iterable[str]) -> Change | None:
        """Read again what changed on disk, and swap the catalog if that makes a difference."""
        changed = list(paths)
        with self._lock:
            return self._update(lambda source: source.refresh(changed, self._bytes))

    def refresh_file(self, uri: SkillUri) -> Change | None:
        """Read again the skill that this file belongs to, or belonged to."""
        return self.refresh([place for source in self.sources if (place := source.place(uri)) is not None])

    def relocate(self) -> Change | None:
        """Read sources anew whose path leads somewhere else by now."""
        with self._lock:
            return self._update(lambda source: source.relocate(self._bytes))

    def verify_some(self, count: int) -> tuple[bool, Change | None]:
        """Read units that were taken from the index; true while there are more, and a change where it was wrong."""
        with self._lock:
            source = next((each for each in self.sources if each.claims), None)
            if source is None:
                return False, None
            change = self._update(lambda each: each.read_claims(count if each is source else 0, self._bytes))
            more = any(each.claims for each in self.sources)
        if change is not None:
            _log.warning("The index was out of date for %d skills; they were read anew.", len(change.skills))
        return more, change

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
        return self._bytes.read(record)

    def is_at_hand(self, record: FileRecord) -> bool:
        """True when reading this file touches nothing but the spool."""
        return self._bytes.spool.has(record.digest)

    @property
    def remarks(self) -> list[Remark]:
        """What an operator should know, by location."""
        remarks = [each for source in self.sources for each in source.remarks]
        return sorted([*remarks, *self._twice], key=lambda remark: remark.location)

    def _update(self, read: Callable[[DirectorySource], Difference]) -> Change | None:
        """Have each source read something, remember what it found, and publish what that changes."""
        differences: list[Difference] = []
        for place, source in enumerate(self.sources):
            before, root = source.units, source.root
            differences.append(read(source))
            if source.root != root:  # its index is about another directory
                self._indexes[place] = _index(source, self._index_directory)
            if (index := self._indexes[place]) and source.units is not before:
                _save_moved(index, before, source)
        return self._apply(differences)

    def _rebuild(self) -> None:
        published: dict[tuple[str, ...], Listed] = dict(self._generated)
        self._twice = [
            _published_twice(location, listed)
            for source in self.sources
            for location, unit in source.units.items()
            for listed in unit.skills
            if published.setdefault(listed.uri.key, listed) is not listed
        ]
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
        if self._bytes.spool.has_slack:
            self._bytes.spool.shrink(self._digests())
        return _change(before, self.catalog, (listed.uri for listed in (*removed, *added)))

    def _digests(self) -> Iterator[Digest]:
        """Of every file that is published, or would be if another source did not publish the same skill."""
        for source in self.sources:
            for unit in source.units.values():
                for listed in unit.skills:
                    for record in _manifest(listed).files:
                        yield record.digest


class _Bytes:
    """The bytes of published files: from the spool, or else from the directories."""

    def __init__(self, sources: Sequence[DirectorySource]) -> None:
        self.spool = Spool()
        self._sources = sources
        self.is_spooling = True

    def keep(self, digest: Digest, data: bytes) -> None:
        if not self.is_spooling:
            return
        try:
            self.spool.keep(digest, data)
        except OSError as error:
            self.is_spooling = False
            _log.warning(
                "The temporary directory cannot be written (%s). Files are read from their directories instead, and a "
                "skill that breaks cannot be served in its last good version. Free some space, or set TMPDIR.",
                visible(error.strerror or "unknown error"),
            )

    def has(self, record: FileRecord) -> bool:
        return self.read(record) is not None

    def read(self, record: FileRecord) -> bytes | None:
        if (data := self.spool.read(record.digest)) is not None:
            return data
        for source in self._sources:
            if (data := source.read_file(record)) is not None:
                self.keep(record.digest, data)
                return data
        return None


class _Served:
    """What a catalog serves at a URI; each entry is read once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._manifests: dict[SkillUri, Manifest] = {}

    def manifest(self, listed: Listed) -> Manifest:
        if (manifest := self._manifests.get(listed.uri)) is None:
            manifest = self._manifests[listed.uri] = _manifest(listed)
        return manifest

    def digest(self, uri: SkillUri) -> Digest | None:
        for listed in self._catalog.around(uri):
            if record := self.manifest(listed).find(uri):
                return record.digest
        return None


def _change(before: Catalog, after: Catalog, touched: Iterable[SkillUri]) -> Change | None:
    """What moved between two catalogs that can only differ in some skills."""
    old_served, new_served = _Served(before), _Served(after)
    skills: set[SkillUri] = set()
    files: set[tuple[SkillUri, Digest]] = set()
    for uri in touched:
        old, new = before.skill(uri), after.skill(uri)
        if old != new and uri not in skills:
            skills.add(uri)
            old_files = {(file.uri, file.digest) for file in old_served.manifest(old).files} if old else set()
            new_files = {(file.uri, file.digest) for file in new_served.manifest(new).files} if new else set()
            files |= old_files ^ new_files
    if not skills:
        return None
    # A file may be served by an enclosing or a nested skill, too, and not have changed at all.
    moved = {uri for uri, _ in files if old_served.digest(uri) != new_served.digest(uri)}
    return Change(skills=frozenset(skills), files=frozenset(moved | skills))


def _manifest(listed: Listed) -> Manifest:
    resources = listed.entry.resources
    return resources if isinstance(resources, Manifest) else Manifest(())


def _save_moved(index: Index, before: Mapping[str, Unit], source: DirectorySource) -> None:
    moved = {
        location: unit
        for location, unit in source.units.items()
        if (old := before.get(location)) is not unit and old != unit
    }
    gone = before.keys() - source.units.keys()
    if moved or gone:
        index.save(moved, gone=gone)


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
    """One file for what was asked for, so that each new release does not leave one behind."""
    if directory is None:
        return None
    name = sha256(source.settings.encode()).hexdigest()[:32]
    return Index(os.path.join(directory, f"{name}.sqlite"), key=source.key)
