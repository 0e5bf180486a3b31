"""The archives of skills: packed when somebody asks for one, and kept while there is room (I3, I12)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from skillquay.archives.packing import PackedFile, pack
from skillquay.core.entries import Manifest
from skillquay.core.paths import split_nested

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillquay.archives.formats import ArchiveFormat
    from skillquay.core.catalog import Listed
    from skillquay.core.entries import FileRecord
    from skillquay.core.uris import SkillUri

__all__ = ["ArchiveShelf", "MissingFileError"]

_MOST_KEPT: Final = 16 * 1024 * 1024  # bytes of all archives on the shelf; the newest stays, however large it is


class MissingFileError(Exception):
    """The bytes of a file that a skill publishes cannot be had any more: it changed, and was never read before."""


class ArchiveShelf:
    """Packs skills from the bytes they were published with, so that an archive is always what its entry says.

    The same skill gives the same bytes, packed anew or not. Any thread may ask.
    """

    def __init__(self, read: Callable[[FileRecord], bytes | None]) -> None:
        self._read = read
        self._kept: OrderedDict[tuple[SkillUri, ArchiveFormat], tuple[Listed, bytes]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def archive(self, listed: Listed, archive_format: ArchiveFormat) -> bytes:
        """The archive of a skill; an `ArchiveError` says why not everybody could unpack it."""
        key = listed.uri, archive_format
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0] == listed:
                self._kept.move_to_end(key)
                return kept[1]
        data = pack(self._files(listed), archive_format)
        self._keep(key, listed, data)
        return data

    def _keep(self, key: tuple[SkillUri, ArchiveFormat], listed: Listed, data: bytes) -> None:
        with self._lock:
            if key in self._kept:
                self._size -= len(self._kept.pop(key)[1])
            self._kept[key] = listed, data
            self._size += len(data)
            while self._size > _MOST_KEPT and len(self._kept) > 1:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._size -= len(oldest)

    def _files(self, listed: Listed) -> dict[str, PackedFile]:
        """The files of a skill by their path, but not those of skills nested in it."""
        entry = listed.entry
        assert isinstance(entry.resources, Manifest), "a generated skill has no archive"
        root = entry.root
        records = {root.relative(record.uri): record for record in entry.resources.files}
        files: dict[str, PackedFile] = {}
        for path in split_nested(records)[0]:
            if (data := self._read(records[path])) is None:
                raise MissingFileError(records[path].uri)
            files[path] = PackedFile(data=data, is_executable=path in listed.executable)
        return files
