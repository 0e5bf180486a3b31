"""A listing as it comes in, page by page: each entry accepted or refused alone, what came is kept (E5, L3, L6)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillquay.core.listings import parse_each, reconcile
from skillquay.core.uris import SkillUri
from skillquay.errors import UriError
from skillquay.sources.collector import collector_paused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.entries import SkillEntry
    from skillquay.core.listings import Refused

__all__ = ["Listing", "Page", "Received", "expires_of"]

_LONGEST_TTL: Final = 24 * 60 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An entry, and until when (on the monotonic clock) it may be taken for current without asking again (L6)."""

    entry: SkillEntry
    expires: float


@dataclass(slots=True, kw_only=True)
class Page:
    """One page: `first` is the place of its first entry in the listing."""

    items: list[object]
    expires: float
    first: int
    parsed: list[SkillEntry | Refused] | None = None

    def parse(self) -> None:
        """Accept or refuse each entry on its own. This takes long enough to be done in a thread."""
        with collector_paused():
            self.parsed = parse_each(self.items, first=self.first)


@dataclass(slots=True, kw_only=True)
class Listing:
    """What came of a listing so far: a listing that breaks off keeps the pages it had."""

    received: tuple[Received, ...] = ()
    refused: tuple[Refused, ...] = ()
    refused_uris: tuple[SkillUri, ...] = ()
    remarks: tuple[str, ...] = ()
    pages: list[Page] = field(default_factory=list)

    @property
    def entries(self) -> tuple[SkillEntry, ...]:
        """The entries that were accepted."""
        return tuple(each.entry for each in self.received)

    def add(self, items: list[object], expires: float) -> Page:
        """A page arrived."""
        first = self.pages[-1].first + len(self.pages[-1].items) if self.pages else 0
        page = Page(items=items, expires=expires, first=first)
        self.pages.append(page)
        return page

    def take(self, entries: Iterable[SkillEntry], refused: Iterable[Refused], expires: float) -> None:
        """A listing that came in one piece, in the dialect of a draft."""
        self.received = tuple(Received(entry=entry, expires=expires) for entry in entries)
        self.refused = tuple(refused)
        known = {entry.identity.key for entry in self.entries}
        moved = (uri for entry in self.entries for uri in entry.other_identities)
        uris = (*(uri for each in self.refused for uri in each.identities), *moved)
        self.refused_uris = tuple(uri for uri in uris if uri is not None and uri.key not in known)

    def settle(self) -> None:
        """Let the entries of all pages stand beside each other; pages that were not parsed yet are parsed now."""
        if not self.pages:
            return
        parsed: list[SkillEntry | Refused] = []
        for page in self.pages:
            if page.parsed is None:
                page.parse()
            parsed += page.parsed or ()
        accepted, refused = reconcile(parsed)
        self.refused = tuple(refused)
        known = {entry.identity.key for entry in accepted}
        raw = [item for page in self.pages for item in page.items]
        uris = (_uri_of(raw[each.index]) for each in refused)
        self.refused_uris = tuple(uri for uri in uris if uri is not None and uri.key not in known)
        places = {each.index for each in refused}
        expiries = (page.expires for page in self.pages for _ in page.items)
        expires = (until for index, until in enumerate(expiries) if index not in places)
        self.received = tuple(
            Received(entry=entry, expires=until) for entry, until in zip(accepted, expires, strict=True)
        )


def expires_of(answer: Mapping[str, Any]) -> float:
    """When an answer ends, counted from now; one that names no time, or none that counts, ends at once (L6)."""
    ttl = answer.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0:
        return time.monotonic()
    return time.monotonic() + min(ttl, _LONGEST_TTL * 1000) / 1000


def _uri_of(item: object) -> SkillUri | None:
    try:
        return SkillUri(item["uri"]) if isinstance(item, Mapping) else None
    except (KeyError, UriError):
        return None
