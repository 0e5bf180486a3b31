"""What servers spoke before v1, and how much of a skill each of those dialects lets a host verify (I9, I13)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.digests import Digest
from skillquay.core.uris import SkillUri

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["Archive", "Assurance", "Dialect", "Draft"]

_NO_PLACES: Mapping[tuple[str, ...], str] = MappingProxyType({})


class Dialect(StrEnum):
    """What a server speaks, in the words a person is shown."""

    CURRENT = "skills extension (SEP-2640)"
    JUNE = "skill://index.json (June draft)"
    MAY = "skill://index.json (April-May draft)"
    PRIMITIVE = "skills primitive (SEP-2076)"
    FASTMCP = "FastMCP manifests"
    BARE = "bare SKILL.md resources"


class Assurance(StrEnum):
    """How much of a skill can be checked against what was approved, in the words a person and a model are shown."""

    WHOLE = "a digest covers every file"
    SKILL_MD = "a digest covers SKILL.md alone"
    NONE = "no digest covers its files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """All files of a skill in one resource. Without a digest it can hold anything by the time it is read."""

    url: SkillUri
    media_type: str | None = None
    digest: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a dialect says of a skill beside the fields of an entry.

    `claims` are the fields of the frontmatter that the listing gave; None when it gave them all. `is_archive_only` when
    the skill has no address of its own: its identity is that of its archive. `archive_urls` are all that the listing
    names, also those that are not used. `places` are the URIs at which the server reads the files of a skill that
    SEP-2076 describes, by the URI this host gives them.
    """

    dialect: Dialect
    claims: frozenset[str] | None = None
    skill_md: Digest | None = None
    archive: Archive | None = None
    is_archive_only: bool = False
    archive_urls: tuple[SkillUri, ...] = ()
    places: Mapping[tuple[str, ...], str] = field(default_factory=lambda: _NO_PLACES)

    def to_json(self) -> dict[str, Any]:
        """As it is kept with an answer: that is about the archive in use, and never about places (A3)."""
        archive = self.archive
        return {
            "dialect": self.dialect.value,
            "claims": None if self.claims is None else sorted(self.claims),
            "skill_md": self.skill_md,
            "archive": None if archive is None else [archive.url, archive.media_type, archive.digest],
            "is_archive_only": self.is_archive_only,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Draft:
        """What `to_json` wrote; whatever it did not write raises an error."""
        archive = None
        if data["archive"] is not None:
            url, media_type, digest = data["archive"]
            archive = Archive(
                url=SkillUri(url), media_type=media_type, digest=None if digest is None else Digest(digest)
            )
        return cls(
            dialect=Dialect(data["dialect"]),
            claims=None if data["claims"] is None else frozenset(data["claims"]),
            skill_md=None if data["skill_md"] is None else Digest(data["skill_md"]),
            archive=archive,
            is_archive_only=data["is_archive_only"] is True,
        )
