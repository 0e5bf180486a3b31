"""Entries of `skills/list` and `skills/get`: parsed one by one, refused one by one, unknown fields kept (E1-E7, U2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from skillquay.core.digests import Digest
from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.fields import field_findings
from skillquay.core.hidden import shorten
from skillquay.core.json_bounds import check_json, copied_json
from skillquay.core.uris import SkillUri
from skillquay.errors import EntryError, UriError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.drafts import Draft

__all__ = [
    "DYNAMIC",
    "LIMITS",
    "Dynamic",
    "FileRecord",
    "Limits",
    "Manifest",
    "SkillEntry",
    "parse_entry",
    "read_own_entry",
]

Dynamic: TypeAlias = Literal["dynamic"]
DYNAMIC: Final[Dynamic] = "dynamic"
_NOTHING: Mapping[str, object] = MappingProxyType({})
_ENTRY_FIELDS = frozenset({"uri", "frontmatter", "resources"})
_REQUIRED = ("name", "description")  # all other fields may break the format
_RECORD_FIELDS = frozenset({"uri", "digest", "size"})
_LARGEST_EXACT = 2**53  # beyond it a JSON number is not one whole number any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one skill may hold, `SKILL.md` included (E4)."""

    files: int
    size: int

    def problem(self, files: int, size: int) -> str | None:
        """Why a skill of so many files and bytes is over a limit; None when it is within both."""
        if files > self.files:
            return f"the skill has {files:,} files; at most {self.files:,} are allowed"
        if size > self.size:
            return f"the skill has {size:,} bytes; at most {self.size:,} are allowed"
        return None


LIMITS: Final = Limits(files=512, size=16 * 1024 * 1024)


class FileRecord(NamedTuple):
    """One file of a skill: where it is read, what its bytes hash to, how many they are.

    A named tuple, since a scan makes them by the ten thousand.
    """

    uri: SkillUri
    digest: Digest
    size: int
    extra: Mapping[str, object] = _NOTHING

    def to_json(self) -> dict[str, object]:
        """The record as it travels."""
        return {**self.extra, "uri": str(self.uri), "digest": str(self.digest), "size": self.size}


class Manifest:
    """Every file of a skill, each once, in listed order. Files are found by place, however a URI is spelled."""

    __slots__ = ("_by_key", "files", "size")

    def __init__(self, files: Iterable[FileRecord]) -> None:
        self.files = tuple(files)
        self.size = sum(file.size for file in self.files)
        self._by_key: dict[tuple[str, ...], FileRecord] | None = None

    def find(self, uri: SkillUri) -> FileRecord | None:
        """The record of the file at this URI, or None when it is not listed."""
        if self._by_key is None:
            self._by_key = {file.uri.key: file for file in self.files}
        return self._by_key.get(uri.key)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The (uri, digest) pairs that an approval binds to, in a fixed order (A1)."""
        return tuple(sorted((str(file.uri), str(file.digest)) for file in self.files))

    def __len__(self) -> int:
        return len(self.files)

    def __eq__(self, other: object) -> bool:
        return self.files == other.files if isinstance(other, Manifest) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Manifest({len(self.files)} files, {self.size} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEntry:
    """One skill as its server publishes it: `uri`, `frontmatter`, `resources`, and whatever else was there (E1).

    `draft` is there when the entry was translated from a dialect older than v1 (I9).
    """

    uri: SkillUri
    frontmatter: Mapping[str, object]
    resources: Manifest | Dynamic
    extra: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    draft: Draft | None = None
    _shown: str = field(default="", init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The skill's name: a label, never an identifier (N2)."""
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        """What the author says the skill is for."""
        return str(self.frontmatter["description"])

    @property
    def root(self) -> SkillUri:
        """The skill's directory."""
        return self.uri.root

    @property
    def identity(self) -> SkillUri:
        """What tells the skill from all others of its server: its URI, or that of its only archive (N1, I13)."""
        draft = self.draft
        return draft.archive.url if draft and draft.archive and draft.is_archive_only else self.uri

    @property
    def other_identities(self) -> tuple[SkillUri, ...]:
        """What else this skill was or could be told by: answers about those end when it is told by this one (A2)."""
        if self.draft is None:
            return ()
        identity = self.identity
        return tuple(uri for uri in (self.uri, *self.draft.archive_urls) if uri.key != identity.key)

    @property
    def dialect(self) -> Dialect:
        """What its server speaks."""
        return Dialect.CURRENT if self.draft is None else self.draft.dialect

    @property
    def assurance(self) -> Assurance:
        """How much of the skill the entry lets a host verify (I9)."""
        draft = self.draft
        if draft is not None and draft.archive is not None:
            return Assurance.WHOLE if draft.archive.digest else Assurance.NONE
        if isinstance(self.resources, Manifest):
            return Assurance.WHOLE
        return Assurance.SKILL_MD if draft is not None and draft.skill_md else Assurance.NONE

    @property
    def pairs(self) -> tuple[tuple[str, str], ...] | None:
        """The (uri, digest) pairs that an approval binds to; None where they would not cover the whole skill (A1, A3).

        The digest of an archive covers all that is in it, before and after it is unpacked.
        """
        if self.draft is not None and (archive := self.draft.archive) is not None:
            return None if archive.digest is None else ((str(archive.url), str(archive.digest)),)
        return self.resources.pairs if isinstance(self.resources, Manifest) else None

    @property
    def shown(self) -> str:
        """One value for all that the frontmatter says; what a person was shown when they approved (A1, A5).

        What a dialect shows is its own: an answer about a skill in one of them is none in another (I9).
        """
        if not self._shown:
            text = json.dumps(dict(self.frontmatter), sort_keys=True, separators=(",", ":"))
            if self.draft is not None:
                text = f"{self.draft.dialect.name} {text}"
            object.__setattr__(self, "_shown", sha256(text.encode()).hexdigest())  # nothing it is made of can change
        return self._shown

    @property
    def says(self) -> tuple[object, ...]:
        """All that an entry says of a skill, however it orders its files; equal exactly when it says the same."""
        if self.draft is not None and self.draft.archive is not None:
            return (self.identity.key, self.shown, self.draft.archive)
        files = self.resources.files if isinstance(self.resources, Manifest) else ()
        listed = frozenset((file.uri.key, file.digest, file.size) for file in files)
        return (self.uri.key, self.shown, listed, self.draft.skill_md if self.draft else None)

    def to_text(self) -> str:
        """The entry as it travels, written out. No character of a URI or a digest needs an escape in JSON."""
        if not isinstance(self.resources, Manifest) or any(file.extra for file in self.resources.files):
            return _compact(self.to_json())
        files = ",".join(
            [f'{{"uri":"{file.uri}","digest":"{file.digest}","size":{file.size}}}' for file in self.resources.files]
        )
        head = _compact({**self.extra, "uri": str(self.uri), "frontmatter": dict(self.frontmatter)})
        return f'{head[:-1]},"resources":[{files}]}}'

    def to_json(self) -> dict[str, object]:
        """The entry as it travels, unknown fields included."""
        resources: object = DYNAMIC
        if isinstance(self.resources, Manifest):
            resources = [file.to_json() for file in self.resources.files]
        return {
            **self.extra,
            "uri": str(self.uri),
            "frontmatter": dict(self.frontmatter),
            "resources": resources,
        }


def parse_entry(raw: object, *, limits: Limits = LIMITS) -> SkillEntry:
    """An entry from outside, checked whole: its URI, its frontmatter, its manifest and the limits."""
    if not isinstance(raw, Mapping):
        raise EntryError(f"an entry is an object, not {_kind(raw)}.", field="(entry)", rule="E1")
    uri = _uri(raw.get("uri"), "uri")
    if not uri.is_skill:
        raise EntryError(f'"{shorten(uri)}" does not end in /SKILL.md inside a directory.', field="uri", rule="U1")
    frontmatter = _frontmatter(raw.get("frontmatter"), uri)
    resources = raw.get("resources")
    if resources is None and "resources" not in raw:
        raise EntryError('is missing; it is an array of files or "dynamic".', field="resources", rule="E2")
    if resources != DYNAMIC and not isinstance(resources, list):
        raise EntryError(f'is {_kind(resources)}, not an array or "dynamic".', field="resources", rule="E2")
    return SkillEntry(
        uri=uri,
        frontmatter=frontmatter,
        resources=_manifest(resources, uri, limits) if isinstance(resources, list) else DYNAMIC,
        extra=_others(raw, _ENTRY_FIELDS),
    )


def read_own_entry(data: Mapping[str, Any]) -> SkillEntry:
    """An entry that this program wrote itself and nobody could have touched since: nothing is checked again."""
    resources = data["resources"]
    if isinstance(resources, list):
        resources = Manifest(
            FileRecord(
                str.__new__(SkillUri, file["uri"]),
                str.__new__(Digest, file["digest"]),
                file["size"],
                _others(file, _RECORD_FIELDS) if len(file) > len(_RECORD_FIELDS) else _NOTHING,
            )
            for file in resources
        )
    return SkillEntry(
        uri=str.__new__(SkillUri, data["uri"]),
        frontmatter=MappingProxyType(data["frontmatter"]),
        resources=resources,
        extra=_others(data, _ENTRY_FIELDS),
    )


def _frontmatter(raw: object, uri: SkillUri) -> Mapping[str, object]:
    if not isinstance(raw, Mapping):
        raise EntryError(f"is {_kind(raw)}, not an object.", field="frontmatter", rule="E1")
    check_json(raw)
    for finding in field_findings({key: raw[key] for key in _REQUIRED if key in raw}):
        raise EntryError(finding.message, field=f"frontmatter.{finding.kind}", rule=finding.rule)
    segment = uri.segments[-2]
    if segment != raw["name"]:
        raise EntryError(
            f'the name "{raw["name"]}" is not the last segment "{shorten(segment)}" of the skill\'s path.',
            field="frontmatter.name",
            rule="U2",
        )
    return MappingProxyType({key: value if type(value) is str else copied_json(value) for key, value in raw.items()})


def _manifest(raw: list[object], uri: SkillUri, limits: Limits) -> Manifest:
    if problem := limits.problem(len(raw), 0):
        raise EntryError(f"{problem}.", field="resources", rule="E4")
    root = uri.root
    inside = root.key
    records: dict[tuple[str, ...], FileRecord] = {}
    for index, item in enumerate(raw):
        place = f"resources[{index}]"
        record = _record(item, place)
        key = record.uri.key
        if key in records:
            raise EntryError(f'"{shorten(record.uri)}" is listed more than once.', field=f"{place}.uri", rule="E2")
        if len(key) <= len(inside) or key[: len(inside)] != inside:
            raise EntryError(f'"{shorten(record.uri)}" is outside "{shorten(root)}".', field=f"{place}.uri", rule="E2")
        records[key] = record
    if uri.key not in records:
        raise EntryError("the skill's own SKILL.md is not listed.", field="resources", rule="E2")
    # In sorted order, whatever lies inside a file comes right after it.
    for outer, inner in pairwise(sorted(records)):
        if inner[: len(outer)] == outer:
            shown = shorten(records[inner].uri)
            raise EntryError(f'"{shown}" lies inside something listed as a file.', field="resources", rule="E2")
    manifest = Manifest(records.values())
    if problem := limits.problem(len(manifest), manifest.size):
        raise EntryError(f"{problem}.", field="resources", rule="E4")
    return manifest


def _record(raw: object, place: str) -> FileRecord:
    if not isinstance(raw, Mapping):
        raise EntryError(f"is {_kind(raw)}, not an object.", field=place, rule="E2")
    try:
        digest = Digest(raw.get("digest"))  # type: ignore[arg-type]
    except ValueError as error:
        raise EntryError(f"{error}.", field=f"{place}.digest", rule="E3") from None
    size = raw.get("size")
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST_EXACT:
        raise EntryError("is not a whole number of bytes.", field=f"{place}.size", rule="E3")
    return FileRecord(
        uri=_uri(raw.get("uri"), f"{place}.uri"),
        digest=digest,
        size=size,
        extra=_others(raw, _RECORD_FIELDS),
    )


def _uri(raw: object, place: str) -> SkillUri:
    if not isinstance(raw, str):
        raise EntryError(f"is {_kind(raw)}, not a string.", field=place, rule="E1")
    try:
        return SkillUri(raw)
    except UriError as error:
        raise EntryError(error.message, field=place, rule=error.rule) from None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _others(raw: Mapping[str, object], known: frozenset[str]) -> Mapping[str, object]:
    """What else was there. It never loses an entry (E5): where nobody could write it down again, it is left out."""
    if raw.keys() <= known:
        return _NOTHING
    others = {key: value for key, value in raw.items() if key not in known}
    try:
        check_json(others)
    except EntryError:
        return _NOTHING
    return MappingProxyType(others)


def _kind(value: object) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
