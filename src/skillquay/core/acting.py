"""The acting window: while a skill is in the model's context, its files are those of the held entry (W1, W2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.entries import LIMITS, Manifest
from skillquay.core.hidden import shorten
from skillquay.core.uris import SkillUri, reference_paths
from skillquay.core.verification import UnverifiedSkill, VerifiedSkill, verify_file
from skillquay.errors import SizeMismatchError, UnlistedFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel, SkillId
    from skillquay.core.verification import VerifiedFile

__all__ = ["ActingSkill", "Child", "Windows"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Child:
    """A direct child of a directory of the skill."""

    name: str
    is_directory: bool
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSkill:
    """A skill in use, with the entry it was loaded from. Opened only with a skill that went through verification."""

    skill: SkillId
    loaded: VerifiedSkill | UnverifiedSkill
    bytes_read: int = 0

    @property
    def entry(self) -> SkillEntry:
        """The held entry."""
        return self.loaded.entry

    def locate(self, reference: str) -> SkillUri:
        """The URI of the file a reference means, from this skill's own directory (U5); only a listed one (W2)."""
        root = self.entry.root
        resources = self.entry.resources
        paths = reference_paths(reference)
        if not isinstance(resources, Manifest):
            if paths:
                return root.child(paths[-1])
        else:
            for path in paths:
                if record := resources.find(root.child(path)):
                    return record.uri
        raise UnlistedFileError(
            f'"{shorten(reference)}" is not a file of {self.skill}. Ask for the list of its files.', uri=str(root)
        )

    def children(self, directory: str = "") -> tuple[Child, ...]:
        """What a directory of the skill holds, from the held entry alone: a live listing never extends it (D2)."""
        resources = self.entry.resources
        if not isinstance(resources, Manifest):
            raise UnlistedFileError(f"{self.skill} is dynamic: its files are found by reading.", uri=self.entry.uri)
        paths = reference_paths(directory) if directory not in {"", ".", "./"} else ("",)
        prefix = (*self.entry.root.key, *(paths[0].split("/") if paths[0] else ())) if paths else ()
        depth = len(prefix)
        found: dict[str, Child] = {}
        for record in resources.files:
            key = record.uri.key
            if len(key) > depth and key[:depth] == prefix:
                is_directory = len(key) > depth + 1
                size = None if is_directory else record.size
                found[key[depth]] = Child(name=key[depth], is_directory=is_directory, size=size)
        if not found:
            raise UnlistedFileError(f'"{shorten(directory)}" is not a directory of {self.skill}.', uri=self.entry.uri)
        return tuple(sorted(found.values()))

    def accept(self, uri: SkillUri, data: bytes) -> VerifiedFile:
        """Take the bytes of one file, verified against the held entry (V1)."""
        return verify_file(self.entry, uri, data)

    def accept_unverified(self, uri: SkillUri, data: bytes) -> ActingSkill:
        """Take a file of a dynamic skill: inside its directory (D4), within the limit of all its reads (E6)."""
        if isinstance(self.entry.resources, Manifest) or not self.entry.root.contains(uri):
            raise UnlistedFileError(
                f"{shorten(uri)} is not a file of the dynamic skill {self.skill}.", uri=uri, rule="D4"
            )
        total = self.bytes_read + len(data)
        if total > LIMITS.size:
            raise SizeMismatchError(
                f"{self.skill} has sent {total:,} bytes; a skill has at most {LIMITS.size:,}.", uri=uri, rule="E6"
            )
        return ActingSkill(skill=self.skill, loaded=self.loaded, bytes_read=total)


@dataclass(frozen=True, slots=True)
class Windows:
    """The skills in use. Windows overlap; each holds its own entry from when it opens until it is closed (W1)."""

    open_windows: Mapping[SkillId, ActingSkill] = field(default_factory=lambda: MappingProxyType({}))

    def open(self, acting: ActingSkill) -> Windows:
        """The skill entered the model's context."""
        return Windows(MappingProxyType({**self.open_windows, acting.skill: acting}))

    def close(self, skill: SkillId) -> Windows:
        """The skill left the model's context."""
        return Windows(MappingProxyType({key: value for key, value in self.open_windows.items() if key != skill}))

    def governing(self, server: ServerLabel, uri: SkillUri) -> tuple[ActingSkill, ...]:
        """The skills in use whose directory holds the URI: a read of it is a read of their files (W2)."""
        return tuple(
            acting
            for skill, acting in self.open_windows.items()
            if skill.server == server and (acting.entry.root.contains(uri) or acting.entry.root.key == uri.key)
        )

    def check_read(self, server: ServerLabel, uri: SkillUri) -> None:
        """Refuse a read inside a skill in use unless its held entry lists it, whichever tool asks (W2)."""
        for acting in self.governing(server, uri):
            resources = acting.entry.resources
            if isinstance(resources, Manifest) and resources.find(uri) is None:
                raise UnlistedFileError(
                    f"{shorten(uri)} is not a file of {acting.skill}, which is in use. "
                    "If the skill has changed, it needs approval again.",
                    uri=uri,
                    rule="W2",
                )
