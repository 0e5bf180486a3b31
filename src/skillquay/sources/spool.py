"""Keep the bytes of published files as they were when they were hashed, outside memory.

The spool is a nameless temporary file, private to this process, to which each different content is appended once. What
a catalog announced can be read from it for as long as the catalog is served, whatever happens to the directories.
"""

from __future__ import annotations

import os
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.digests import Digest

__all__ = ["Spool"]

_SLACK: Final = 64 * 1024 * 1024  # bytes nobody needs that are not worth a copy


class _Store(NamedTuple):
    """A file, and where in it each content begins and ends. The file is closed when the last reader let go of it."""

    file: IO[bytes]
    places: dict[bytes, tuple[int, int]]


def _new_store() -> _Store:
    return _Store(tempfile.TemporaryFile(buffering=0), {})


class Spool:
    """Contents by digest. One thread at a time adds to it, any thread may read."""

    def __init__(self) -> None:
        self._store = _new_store()
        self._end = 0
        self._worth_shrinking = _SLACK
        self._lock = threading.Lock()

    def keep(self, digest: Digest, data: bytes) -> None:
        """Keep these bytes, of which this is the digest. A full disk is an `OSError`, and nothing is half kept."""
        key = _key(digest)
        with self._lock:
            if key in self._store.places:
                return
            self._write(self._store, key, data)

    def read(self, digest: Digest) -> bytes | None:
        """The bytes with this digest; None when they were never kept."""
        store = self._store
        if (place := store.places.get(_key(digest))) is None:
            return None
        offset, size = place
        return os.pread(store.file.fileno(), size, offset)

    def size(self, digest: Digest) -> int | None:
        """How many bytes are kept under this digest."""
        place = self._store.places.get(_key(digest))
        return None if place is None else place[1]

    @property
    def has_slack(self) -> bool:
        """True when it grew so much that it is worth asking what of it is live."""
        return self._end > self._worth_shrinking

    def shrink(self, live: Iterable[Digest]) -> None:
        """Let go of what is not live any more."""
        with self._lock:
            old = self._store
            new = _new_store()
            self._end = 0
            for key in map(_key, live):
                if key in old.places and key not in new.places:
                    offset, size = old.places[key]
                    self._write(new, key, os.pread(old.file.fileno(), size, offset))
            self._store = new
            self._worth_shrinking = 2 * self._end + _SLACK

    def _write(self, store: _Store, key: bytes, data: bytes) -> None:
        start, written = self._end, 0
        while written < len(data):
            written += os.pwrite(store.file.fileno(), data[written:], start + written)
        self._end = start + written
        store.places[key] = (start, written)


def _key(digest: Digest) -> bytes:
    return bytes.fromhex(digest[7:])
