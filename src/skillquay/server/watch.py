"""Notice changes on disk, wait until a skill is left alone, and have it read again."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from watchfiles import Change
from watchfiles._rust_notify import RustNotify

from skillquay.core.findings import Level
from skillquay.core.hidden import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillquay.sources.live import Change as CatalogChange
    from skillquay.sources.live import LiveCatalog
    from skillquay.sources.tree import Remark

__all__ = ["Watcher"]

_log = logging.getLogger(__name__)

_QUIET: Final = 0.15  # seconds without a change after which a skill counts as written
_PATIENCE: Final = 2.0  # seconds after which one that never rests is looked at all the same
_GLANCE: Final = 0.5  # seconds between looks at the roots themselves, which may be swapped or gone
_STEP: Final = 25  # milliseconds between looks for events
_LONGEST_PAUSE: Final = 60.0
_RETRY: Final = 10.0  # seconds until what could not be read is tried again
_PASSING: Final = frozenset({"changing", "unreadable"})
_CALM: Final = 1.0  # seconds for the first requests, before many skills are watched and looked at again
_FEW: Final = 1000  # skills that take no time
_VERIFIED_AT_ONCE: Final = 8


class Watcher(threading.Thread):
    """A thread that keeps a live catalog up to date, and tells of each change from this thread."""

    def __init__(self, live: LiveCatalog, announce: Callable[[CatalogChange], None], *, watch: bool) -> None:
        super().__init__(name="skillquay-watch", daemon=True)
        self._live = live
        self._announce = announce
        self._watches = watch
        self._stop_event = threading.Event()
        self._pending: dict[str, tuple[float, float]] = {}  # when each path changed first and last
        self._roots: dict[str, tuple[int, int] | None] = {}
        self._notify: RustNotify | None = None
        self._is_broken = False  # the operating system's notices ended, or never began
        self._begin_at, self._pause = 0.0, _GLANCE
        self._lost: set[str] = set()  # roots that were deleted while they were watched
        self._told: set[Remark] = set()
        self._is_verifying = True
        self._calm = time.monotonic() + (_CALM if len(live.catalog) > _FEW else 0)
        self._glanced = time.monotonic()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop_event.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Watch, and verify what came from the index."""
        self._told = set(self._live.remarks)  # an operator is told of these at the start
        if self._stop_event.wait(max(0.0, self._calm - time.monotonic())):
            return
        if self._watches:
            self._begin()
        self._live.save()
        while not self._stop_event.is_set() and (self._is_verifying or self._watches):
            try:
                self._step()
            except Exception:  # noqa: BLE001 - a thread that ends would leave everything as it is for good
                _log.exception("A change could not be looked at.")
                self._stop_event.wait(_GLANCE)

    def _step(self) -> None:
        if self._is_verifying:
            self._is_verifying, change = self._live.verify_some(_VERIFIED_AT_ONCE)
            self._tell(change)
        now = time.monotonic()
        is_settling = any(last <= now for _, last in self._pending.values())
        self._wait(0.005 if self._is_verifying else _QUIET / 2 if is_settling else _GLANCE)
        self._settle()
        if self._watches and time.monotonic() - self._glanced >= _GLANCE:
            self._glanced = time.monotonic()
            if self._look_at_roots():
                self._tell(self._live.relocate())
                self._begin()
            elif self._is_broken and self._glanced >= self._begin_at:
                self._begin()

    def _begin(self) -> None:
        """Watch every root that is there. What changed between its reading and now is found by another look."""
        self._roots = {source.path: _identity(source.path) for source in self._live.sources}
        there = [source.root for source in self._live.sources if os.path.isdir(source.root)]
        self._pending |= dict.fromkeys(there, (0.0, 0.0))
        self._lost.clear()
        self._is_broken = False
        try:
            self._notify = RustNotify(there, False, False, 300, True, True) if there else None
        except (OSError, RuntimeError) as error:  # the second is its own, for what it cannot explain
            self._break(error)

    def _break(self, error: Exception) -> None:
        """Go on without notices, and begin again after a while, with a look at everything; each time a longer while."""
        self._notify, self._is_broken = None, True
        self._begin_at = time.monotonic() + self._pause
        _log.warning("Changes cannot be watched, they are looked for again in %g s: %s", self._pause, error)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _wait(self, seconds: float) -> None:
        if self._notify is None:
            self._stop_event.wait(seconds)
            return
        try:
            changes = self._notify.watch(_STEP, _STEP, max(1, round(seconds * 1000)), self._stop_event)
        except (OSError, RuntimeError) as error:  # such as a name that is no text
            self._break(error)
            return
        if isinstance(changes, set):
            self._pause = _GLANCE
            now = time.monotonic()
            for kind, path in changes:
                if kind == Change.deleted and any(source.root == path for source in self._live.sources):
                    self._lost.add(path)
                first, _ = self._pending.get(path, (now, now))
                self._pending[path] = (first, now)

    def _settle(self) -> None:
        now = time.monotonic()
        ready = [
            path for path, (first, last) in self._pending.items() if now - last >= _QUIET or now - first >= _PATIENCE
        ]
        if ready:
            try:
                self._tell(self._live.refresh(ready))
            finally:
                for path in ready:
                    del self._pending[path]
            self._tell_operator()
            self._try_again_later()

    def _try_again_later(self) -> None:
        """What could not be read may be readable in a moment, without any notice of that."""
        later = time.monotonic() + _RETRY
        for remark in self._live.remarks:
            if remark.finding.kind in _PASSING:
                self._pending.setdefault(remark.location, (later, later))

    def _look_at_roots(self) -> bool:
        """True when a root is another directory than before, or there again. One that is gone is told once."""
        moved = any(map(os.path.isdir, self._lost))  # its successor may look the same, and is not watched
        for path, before in self._roots.items():
            now = _identity(path)
            if now != before:
                self._roots[path] = now
                if now is None:
                    _log.warning("%s is gone. What it published is still served.", path)
                else:
                    moved = True
        return moved

    def _tell(self, change: CatalogChange | None) -> None:
        if change is not None:
            self._announce(change)

    def _tell_operator(self) -> None:
        """Say what is not published any more, or not in its newest version, and why."""
        remarks = self._live.remarks
        for remark in remarks:
            if remark not in self._told and (remark.finding.level is Level.ERROR or remark.finding.kind == "last-good"):
                _log.warning("%s: %s", visible(remark.location), visible(remark.finding.message))
        self._told = set(remarks)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
