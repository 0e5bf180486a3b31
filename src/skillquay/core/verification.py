"""Bytes become content only here: listed, then size, then digest, then frontmatter (V1, V2, E6).

`VerifiedFile`, `VerifiedSkill`, `UnverifiedFile` and `UnverifiedSkill` cannot be made in any other way, so that whoever
holds one knows that every check was done, and whoever forgets a check has a type error.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn, final

from skillquay.core.digests import Digest
from skillquay.core.drafts import Dialect
from skillquay.core.entries import LIMITS, FileRecord, Manifest, SkillEntry
from skillquay.core.frontmatter import cut, differences
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD
from skillquay.errors import (
    DigestMismatchError,
    FrontmatterError,
    FrontmatterMismatchError,
    SizeMismatchError,
    UnlistedFileError,
    UriError,
    VerificationError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillquay.core.uris import SkillUri

__all__ = [
    "UnverifiedFile",
    "UnverifiedSkill",
    "VerifiedFile",
    "VerifiedSkill",
    "accept_dynamic",
    "accept_dynamic_file",
    "accept_instructions",
    "open_archive",
    "verify_archive",
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

    entry: SkillEntry
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

    entry: SkillEntry
    uri: SkillUri
    data: bytes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnverifiedSkill(_Checked):
    """A dynamic skill's `SKILL.md`: its frontmatter is that of its entry, its bytes are vouched for by nobody (E6)."""

    entry: SkillEntry
    body: str
    data: bytes

    @property
    def size(self) -> int:
        """How many bytes it is."""
        return len(self.data)


def verify_file(entry: SkillEntry, uri: SkillUri, data: bytes) -> VerifiedFile:
    """Check one file against the held entry: listed, then size, then digest (V1)."""
    data = bytes(data)  # a buffer could be rewritten after the check
    if not isinstance(entry.resources, Manifest):
        raise UnlistedFileError(f"{shorten(uri)} belongs to a dynamic skill; nothing can verify it.", uri=uri)
    record = entry.resources.find(uri)
    if record is None:
        raise UnlistedFileError(
            f"{shorten(uri)} is not a file of {shorten(entry.uri)}, as its entry lists them. If the skill has changed, "
            "get its entry again and have it approved.",
            uri=uri,
        )
    if len(data) != record.size:
        raise SizeMismatchError(
            f"{shorten(uri)} does not match its entry: expected {record.size:,} bytes, got {len(data):,}.",
            uri=uri,
        )
    _check_digest(uri, data, record.digest)
    return VerifiedFile(entry=entry, uri=record.uri, data=data, proof=_CHECKED)


def verify_skill(entry: SkillEntry, data: bytes) -> VerifiedSkill:
    """Check a `SKILL.md` against its entry: as a file, then its frontmatter field by field (V1, V2)."""
    checked = verify_file(entry, entry.uri, data).data
    return VerifiedSkill(entry=entry, body=_compared_body(entry, checked), digest=Digest.of(checked), proof=_CHECKED)


def accept_dynamic(entry: SkillEntry, data: bytes) -> UnverifiedSkill:
    """Take a dynamic skill's `SKILL.md`: its size and its frontmatter can be checked (V2, E6).

    A draft may say what the digest of this one file is; then it is checked before anything else (I13).
    """
    if isinstance(entry.resources, Manifest):
        raise VerificationError(f"{shorten(entry.uri)} has a manifest and must be verified.", uri=entry.uri, rule="V1")
    data = bytes(data)
    _check_total(entry, entry.uri, len(data))
    _check_skill_md(entry, data)
    return UnverifiedSkill(entry=entry, body=_compared_body(entry, data), data=data, proof=_CHECKED)


def accept_instructions(entry: SkillEntry, body: str) -> UnverifiedSkill:
    """Take the instructions of a skill whose dialect has no `SKILL.md`: there is nothing to compare them with (I14)."""
    if entry.dialect is not Dialect.PRIMITIVE:
        raise VerificationError(f"{shorten(entry.uri)} has a SKILL.md.", uri=entry.uri, rule="V2")
    data = body.encode("utf-8", "surrogatepass")
    _check_total(entry, entry.uri, len(data))
    return UnverifiedSkill(entry=entry, body=body, data=data, proof=_CHECKED)


def verify_archive(entry: SkillEntry, data: bytes) -> None:
    """Check an archive before it is unpacked, where its entry has a digest for it (I13)."""
    archive = entry.draft.archive if entry.draft is not None else None
    if archive is not None and archive.digest is not None:
        _check_digest(archive.url, data, archive.digest)


def open_archive(entry: SkillEntry, files: Mapping[str, bytes]) -> SkillEntry:
    """The entry of a skill whose archive held these files, with a list of them; they are checked as any others (I13).

    The digests are those of the bytes that came out of the archive: they prove as much as the archive's own did. Where
    the entry has one for `SKILL.md`, it is checked here as well.
    """
    root = entry.root
    try:
        records = [FileRecord(root.child(path), Digest.of(data), len(data)) for path, data in files.items()]
    except UriError as error:
        message = f"The archive of {shorten(entry.uri)} has a file that no URI can name: {error.message}"
        raise VerificationError(message, uri=entry.uri, rule=error.rule) from None
    if SKILL_MD not in files:
        raise VerificationError(f"The archive of {shorten(entry.uri)} holds no SKILL.md.", uri=entry.uri, rule="I3")
    _check_skill_md(entry, files[SKILL_MD])
    return replace(entry, resources=Manifest(sorted(records)))


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
    if uri.key == entry.uri.key:
        _check_skill_md(entry, data)
    return UnverifiedFile(entry=entry, uri=uri, data=data, proof=_CHECKED)


def _check_skill_md(entry: SkillEntry, data: bytes) -> None:
    """A draft may have a digest of this one file, whatever is known of the others (I13)."""
    if entry.draft is not None and entry.draft.skill_md is not None:
        _check_digest(entry.uri, data, entry.draft.skill_md)


def _check_digest(uri: SkillUri, data: bytes, expected: Digest) -> None:
    found = Digest.of(data)
    if found != expected:
        raise DigestMismatchError(
            f"{shorten(uri)} does not match its entry: expected {expected[:19]}…, got {found[:19]}….",
            uri=uri,
        )


def _check_total(entry: SkillEntry, uri: SkillUri, total: int) -> None:
    if total > LIMITS.size:
        raise SizeMismatchError(
            f"{shorten(entry.uri)} has sent {total:,} bytes; a skill has at most {LIMITS.size:,}.", uri=uri, rule="E6"
        )


def _compared_body(entry: SkillEntry, data: bytes) -> str:
    shown = shorten(entry.uri)
    try:
        differing = differences(entry.frontmatter, data)
        if entry.draft is not None and entry.draft.claims is not None:
            differing = tuple(each for each in differing if each.field in entry.draft.claims)
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
