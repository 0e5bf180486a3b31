"""Notice changes on disk, wait until a skill is left alone, and have it read again."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from watchfiles._rust_notify import RustNotify

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillquay.sources.live import Change, LiveCatalog

__all__ = ["Watcher"]

_log = logging.getLogger(__name__)

_QUIET: Final = 0.15  # seconds without a change after which a skill counts as written
_PATIENCE: Final = 2.0  # seconds after which one that never rests is looked at all the same
_GLANCE: Final = 1.0  # seconds between looks at the roots themselves, which may be swapped or gone
_STEP: Final = 25  # milliseconds between looks for events
_VERIFIED_AT_ONCE: Final = 8


class Watcher(threading.Thread):
    """A thread that keeps a live catalog up to date, and tells of each change from this thread."""

    def __init__(self, live: LiveCatalog, announce: Callable[[Change], None], *, watch: bool) -> None:
        super().__init__(name="skillquay-watch", daemon=True)
        self._live = live
        self._announce = announce
        self._watches = watch
        self._stop_event = threading.Event()
        self._pending: dict[str, tuple[float, float]] = {}  # when each path changed first and last
        self._roots: dict[str, tuple[int, int] | None] = {}

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop_event.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Verify what came from the index, and watch."""
        self._live.save()
        notify = self._begin() if self._watches else None
        is_verifying = True
        glanced = time.monotonic()
        while not self._stop_event.is_set():
            if is_verifying:
                is_verifying, change = self._live.verify_some(_VERIFIED_AT_ONCE)
                self._tell(change)
            elif not self._watches:
                return
            wait = 0.005 if is_verifying else _QUIET / 2 if self._pending else _GLANCE
            self._wait(notify, wait)
            self._settle()
            if self._watches and time.monotonic() - glanced >= _GLANCE:
                glanced = time.monotonic()
                if self._look_at_roots():
                    self._tell(self._live.relocate())
                    notify = self._begin()

    def _begin(self) -> RustNotify | None:
        """Watch every root that is there. What changed between its reading and now is found by another look."""
        self._roots = {source.path: _identity(source.path) for source in self._live.sources}
        there = [source.root for source in self._live.sources if os.path.isdir(source.root)]
        try:
            notify = RustNotify(there, False, False, 300, True, True) if there else None
        except OSError as error:
            _log.warning("Changes cannot be watched, skills stay as they are until a restart: %s", error)
            return None
        self._pending |= dict.fromkeys(there, (0.0, 0.0))
        return notify

    def _wait(self, notify: RustNotify | None, seconds: float) -> None:
        if notify is None:
            self._stop_event.wait(seconds)
            return
        changes = notify.watch(_STEP, _STEP, max(1, round(seconds * 1000)), self._stop_event)
        if isinstance(changes, set):
            now = time.monotonic()
            for _, path in changes:
                first, _ = self._pending.get(path, (now, now))
                self._pending[path] = (first, now)

    def _settle(self) -> None:
        now = time.monotonic()
        ready = [
            path for path, (first, last) in self._pending.items() if now - last >= _QUIET or now - first >= _PATIENCE
        ]
        if ready:
            for path in ready:
                del self._pending[path]
            self._tell(self._live.refresh(ready))

    def _look_at_roots(self) -> bool:
        """True when a root is another directory than before, or there again. One that is gone is told once."""
        moved = False
        for path, before in self._roots.items():
            now = _identity(path)
            if now != before:
                self._roots[path] = now
                if now is None:
                    _log.warning("%s is gone. What it published is still served.", path)
                else:
                    moved = True
        return moved

    def _tell(self, change: Change | None) -> None:
        if change is not None:
            self._announce(change)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
