"""Places that a forgiving server would take for each other, so that no spelling leads past a skill's window (W2)."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from skillquay.core.hidden import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.entries import SkillEntry
    from skillquay.core.uris import SkillUri

__all__ = ["Places", "looks_like"]

Looks: TypeAlias = tuple[str, ...]
_DEFAULT_PORT = re.compile(r":(?:80|443)$")


def looks_like(uri: SkillUri) -> Looks:
    """The segments as the most forgiving server would compare them: decoded to the end, cleaned, folded, resolved."""
    scheme, first, *rest = uri.key
    text = "/".join([_DEFAULT_PORT.sub("", first), *rest])
    for _ in range(4):
        if "%" not in text:
            break
        text = unquote(text)
    if not (text.isascii() and text.isprintable()):
        seen = "".join(character for character in text if visible(character) == character)
        text = unicodedata.normalize("NFKC", seen)
    segments = posixpath.normpath(text.casefold().replace("\\", "/")).split("/")
    return (scheme.removesuffix("s"), *(segment.partition(";")[0].rstrip(" .") for segment in segments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the skills of a server are: their directories and their archives, as a forgiving server compares them."""

    schemes: frozenset[str]
    roots: frozenset[Looks]
    archives: frozenset[Looks]

    @classmethod
    def of(cls, entries: Iterable[SkillEntry]) -> Places:
        """The places of these skills."""
        roots: list[SkillUri] = []
        archives: list[SkillUri] = []
        for entry in entries:
            roots.append(entry.root)
            archives += entry.draft.archive_urls if entry.draft is not None else ()
        return cls(
            schemes=frozenset(uri.scheme for uri in (*roots, *archives)),
            roots=frozenset(map(looks_like, roots)),
            archives=frozenset(map(looks_like, archives)),
        )

    def plus(self, entry: SkillEntry) -> Places:
        """With the places of one more skill."""
        more = Places.of([entry])
        return Places(
            schemes=self.schemes | more.schemes, roots=self.roots | more.roots, archives=self.archives | more.archives
        )

    def root_of(self, uri: SkillUri) -> Looks | None:
        """The directory of a skill that this place lies in, or is."""
        looks = looks_like(uri)
        return next((looks[:depth] for depth in range(1, len(looks) + 1) if looks[:depth] in self.roots), None)
