"""What moved between two manifests of one skill, for the person who is asked again (A2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ManifestChange", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChange:
    """The URIs that were added, removed or rewritten; `became_dynamic` when there is no list of files any more.

    `frontmatter_changed` when the entry shows another frontmatter than it did. `served_as` is the dialect its server
    spoke then, where that is another one now: an answer of one is none in another (I9).
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    became_dynamic: bool = False
    frontmatter_changed: bool = False
    served_as: str = ""

    def __bool__(self) -> bool:
        moved = self.added or self.removed or self.rewritten or self.became_dynamic
        return bool(moved or self.frontmatter_changed or self.served_as)


def compare(before: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]] | None) -> ManifestChange:
    """The change from the (uri, digest) pairs once approved to those published now, if there are any."""
    old = dict(before)
    if now is None:
        return ManifestChange(removed=tuple(sorted(old)), became_dynamic=True)
    new = dict(now)
    return ManifestChange(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        rewritten=tuple(sorted(uri for uri in old.keys() & new.keys() if old[uri] != new[uri])),
    )
