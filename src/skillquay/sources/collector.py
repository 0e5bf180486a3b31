"""Let Python's collector of cycles rest while very many objects are made that stay."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collector_paused"]


class _Collector:
    """The collector rests as long as anyone in any thread wants it to, and was at work before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._was_enabled = False

    def pause(self) -> None:
        with self._lock:
            if not self._pauses:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1

    def go_on(self) -> None:
        with self._lock:
            self._pauses -= 1
            if not self._pauses and self._was_enabled:
                gc.enable()


_collector = _Collector()


@contextmanager
def collector_paused() -> Iterator[None]:
    """A scan makes no cycles, but so many objects that the collector would look at all of them again and again."""
    _collector.pause()
    try:
        yield
    finally:
        _collector.go_on()
