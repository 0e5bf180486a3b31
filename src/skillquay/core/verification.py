"""Bytes become content only here: listed, then size, then digest, then frontmatter (V1, V2, E6).

`VerifiedFile`, `VerifiedSkill`, `UnverifiedFile` and `UnverifiedSkill` cannot be made in any other way, so that whoever
holds one knows that every check was done, and whoever forgets a check has a type error.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Final, NoReturn, final

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS, Manifest, SkillEntry
from skillquay.core.frontmatter import cut, differences
from skillquay.core.hidden import shorten
from skillquay.errors import (
    DigestMismatchError,
    FrontmatterError,
    FrontmatterMismatchError,
    SizeMismatchError,
    UnlistedFileError,
    VerificationError,
)

if TYPE_CHECKING:
    from skillquay.core.uris import SkillUri

__all__ = [
    "UnverifiedFile",
    "UnverifiedSkill",
    "VerifiedFile",
    "VerifiedSkill",
    "accept_dynamic",
    "accept_dynamic_file",
    "verify_file",
    "verify_skill",
]

_CHECKED: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """Made only with the proof. It is not kept in the value, so no copy with other content can carry it on."""

    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        if proof is not _CHECKED:
            raise TypeError(f"{type(self).__name__} is made only by skillquay.core.verification.")

    def __setstate__(self, state: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} does not take a state: it would not have been checked.")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is not pickled: what is read back would not have been checked (K1).")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile(_Checked):
    """The bytes of one listed file, as the held entry describes them. Consistent is not the same as safe (V4)."""

    uri: SkillUri
    data: bytes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSkill(_Checked):
    """A `SKILL.md` whose bytes and frontmatter are those of its entry."""

    entry: SkillEntry
    body: str
    digest: Digest


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnverifiedFile(_Checked):
    """A file from a dynamic skill's own directory: nothing more is known of it (D4, E6)."""

    uri: SkillUri
    data: bytes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnverifiedSkill(_Checked):
    """A dynamic skill's `SKILL.md`: its frontmatter is that of its entry, its bytes are vouched for by nobody (E6)."""

    entry: SkillEntry
    body: str
    size: int


def verify_file(entry: SkillEntry, uri: SkillUri, data: bytes) -> VerifiedFile:
    """Check one file against the held entry: listed, then size, then digest (V1)."""
    data = bytes(data)  # a buffer could be rewritten after the check
    if not isinstance(entry.resources, Manifest):
        raise UnlistedFileError(f"{shorten(uri)} belongs to a dynamic skill; nothing can verify it.", uri=uri)
    record = entry.resources.find(uri)
    if record is None:
        raise UnlistedFileError(
            f"{shorten(uri)} is not a file of the approved skill {shorten(entry.uri)}. The skill has changed: "
            "get its entry again and have it approved.",
            uri=uri,
        )
    if len(data) != record.size:
        raise SizeMismatchError(
            f"{shorten(uri)} does not match the approved entry: expected {record.size:,} bytes, got {len(data):,}.",
            uri=uri,
        )
    found = Digest.of(data)
    if found != record.digest:
        raise DigestMismatchError(
            f"{shorten(uri)} does not match the approved entry: expected {record.digest[:19]}…, got {found[:19]}….",
            uri=uri,
        )
    return VerifiedFile(uri=record.uri, data=data, proof=_CHECKED)


def verify_skill(entry: SkillEntry, data: bytes) -> VerifiedSkill:
    """Check a `SKILL.md` against its entry: as a file, then its frontmatter field by field (V1, V2)."""
    checked = verify_file(entry, entry.uri, data).data
    return VerifiedSkill(entry=entry, body=_compared_body(entry, checked), digest=Digest.of(checked), proof=_CHECKED)


def accept_dynamic(entry: SkillEntry, data: bytes) -> UnverifiedSkill:
    """Take a dynamic skill's `SKILL.md`: only its size and its frontmatter can be checked (V2, E6)."""
    if isinstance(entry.resources, Manifest):
        raise VerificationError(f"{shorten(entry.uri)} has a manifest and must be verified.", uri=entry.uri, rule="V1")
    data = bytes(data)
    _check_total(entry, entry.uri, len(data))
    return UnverifiedSkill(entry=entry, body=_compared_body(entry, data), size=len(data), proof=_CHECKED)


def accept_dynamic_file(entry: SkillEntry, uri: SkillUri, data: bytes, *, before: int) -> UnverifiedFile:
    """Take a file of a dynamic skill: inside its directory (D4), within the limit of all its reads (E6).

    `before` is how many bytes of this skill were taken already, its `SKILL.md` included.
    """
    if isinstance(entry.resources, Manifest) or not entry.root.contains(uri):
        raise UnlistedFileError(
            f"{shorten(uri)} is not a file of a dynamic skill at {shorten(entry.root)}.", uri=uri, rule="D4"
        )
    data = bytes(data)
    _check_total(entry, uri, before + len(data))
    return UnverifiedFile(uri=uri, data=data, proof=_CHECKED)


def _check_total(entry: SkillEntry, uri: SkillUri, total: int) -> None:
    if total > LIMITS.size:
        raise SizeMismatchError(
            f"{shorten(entry.uri)} has sent {total:,} bytes; a skill has at most {LIMITS.size:,}.", uri=uri, rule="E6"
        )


def _compared_body(entry: SkillEntry, data: bytes) -> str:
    shown = shorten(entry.uri)
    try:
        differing = differences(entry.frontmatter, data)
        body_start = cut(data).body_start
    except FrontmatterError as error:
        raise FrontmatterMismatchError(
            f"The frontmatter of {shown} cannot be compared with its entry: line {error.line}: {error.message}",
            uri=entry.uri,
            rule="V2",
        ) from None
    if differing:
        first = differing[0]
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        raise FrontmatterMismatchError(
            f'{shown} is not what its entry says: "{first.field}" is {first.found} in the file and {first.expected} in '
            f"the entry{more}. The skill is not loaded.",
            uri=entry.uri,
            rule="V2",
        )
    return data[body_start:].decode("utf-8")
