"""Keep the bytes of published files as they were when they were hashed, outside memory.

The spool is a nameless temporary file, private to this process, to which each different content is appended once. What
a catalog announced can be read from it for as long as the catalog is served, whatever happens to the directories.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from skillquay.core.entries import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.digests import Digest

__all__ = ["Spool", "SpoolState"]

_BUFFER: Final = 1 << 20
_SIZE_BITS: Final = LIMITS.size.bit_length()
_SIZE_MASK: Final = (1 << _SIZE_BITS) - 1
_SLACK: Final = 64 * 1024 * 1024  # bytes nobody needs that are not worth a copy


class SpoolState(NamedTuple):
    """How much was written, what still waits, and where everything is."""

    written: int
    waiting: bytes
    places: dict[bytes, int]


class _Store:
    """A file, and where in it each content begins and how long it is. It is closed when nobody reads it any more.

    Both numbers are kept as one, since there may be very many of them. The last bytes wait in memory, to be written
    together.
    """

    __slots__ = ("_fd", "_waiting", "_written", "end", "places")

    def __init__(self) -> None:
        self._fd = -1
        with tempfile.TemporaryFile() as file:
            self._fd = os.dup(file.fileno())
        self._waiting = bytearray()
        self._written = self.end = 0
        self.places: dict[bytes, int] = {}

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def append(self, key: bytes, data: bytes) -> None:
        self._waiting += data
        self.places[key] = self.end << _SIZE_BITS | len(data)
        self.end += len(data)
        if len(self._waiting) >= _BUFFER:
            self._write()

    def read(self, key: bytes, lock: threading.Lock) -> bytes:
        place = self.places[key]
        start, size = place >> _SIZE_BITS, place & _SIZE_MASK
        if start + size > self._written:
            with lock:
                if start + size > self._written:
                    return bytes(self._waiting[start - self._written : start - self._written + size])
        return os.pread(self._fd, size, start)

    def state(self) -> SpoolState:
        return SpoolState(self._written, bytes(self._waiting), self.places)

    def restore(self, state: SpoolState) -> None:
        self._written, waiting, self.places = state
        self._waiting = bytearray(waiting)
        self.end = self._written + len(waiting)

    def _write(self) -> None:
        """Write what waits. When the disk is full it goes on waiting, and can still be read."""
        waiting = bytes(self._waiting)
        done = 0
        while done < len(waiting):
            done += os.pwrite(self._fd, waiting[done:], self._written + done)
        self._written += done
        self._waiting.clear()


class Spool:
    """Contents by digest. One thread at a time adds to it, any thread may read.

    A process that was forked after `open` may fill it: `state` is what it then has to send, and `restore` takes it.
    """

    def __init__(self) -> None:
        self._store: _Store | None = None  # made when it is needed: there may be no room for it
        self._worth_shrinking = _SLACK
        self._lock = threading.Lock()

    def open(self) -> bool:
        """Make the file now. False when there is no room for it."""
        with self._lock, contextlib.suppress(OSError):
            self._store = self._store or _Store()
        return self._store is not None

    def keep(self, digest: Digest, data: bytes) -> None:
        """Keep these bytes, of which this is the digest. An `OSError` says that no more should be added."""
        key = _key(digest)
        with self._lock:
            if self._store is None:
                self._store = _Store()
            if key not in self._store.places:
                self._store.append(key, data)

    def read(self, digest: Digest) -> bytes | None:
        """The bytes with this digest; None when they were never kept."""
        store, key = self._store, _key(digest)
        return store.read(key, self._lock) if store is not None and key in store.places else None

    def has(self, digest: Digest) -> bool:
        """True when these bytes are kept."""
        return self._store is not None and _key(digest) in self._store.places

    def state(self) -> SpoolState:
        """What another process with the same file needs to read all that is kept here."""
        assert self._store is not None, "open() comes first"
        return self._store.state()

    def restore(self, state: SpoolState) -> None:
        """Go on where another process stopped."""
        assert self._store is not None, "open() comes first"
        with self._lock:
            self._store.restore(state)

    @property
    def has_slack(self) -> bool:
        """True when it grew so much that it is worth asking what of it is live."""
        return self._store is not None and self._store.end > self._worth_shrinking

    def shrink(self, live: Iterable[Digest]) -> None:
        """Let go of what is not live any more; with a full disk, everything stays."""
        if (old := self._store) is None:
            return
        self._worth_shrinking = 2 * old.end
        with contextlib.suppress(OSError):
            new = _Store()
            for key in map(_key, live):
                if key in old.places and key not in new.places:
                    new.append(key, old.read(key, self._lock))
            with self._lock:
                self._store = new
            self._worth_shrinking = 2 * new.end + _SLACK


def _key(digest: Digest) -> bytes:
    return bytes.fromhex(digest[7:])
