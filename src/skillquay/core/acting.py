"""The acting window: while a skill is in the model's context, its files are those of the held entry (W1, W2)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten
from skillquay.core.uris import SkillUri, reference_paths
from skillquay.core.verification import UnverifiedSkill, VerifiedSkill, accept_dynamic_file, verify_file
from skillquay.errors import UnlistedFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel, SkillId
    from skillquay.core.verification import UnverifiedFile, VerifiedFile

__all__ = ["ActingSkill", "Child", "Windows"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Child:
    """A direct child of a directory of the skill."""

    name: str
    is_directory: bool
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSkill:
    """A skill in use, with the entry it was loaded from. Opened only with a skill that went through verification.

    `bytes_read` is what a dynamic skill sent beyond its `SKILL.md`.
    """

    skill: SkillId
    loaded: VerifiedSkill | UnverifiedSkill
    bytes_read: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.loaded, VerifiedSkill | UnverifiedSkill) or self.loaded.entry.identity != self.skill.uri:
            raise TypeError("A window opens on a skill that went through verification, under its own identity.")

    @property
    def entry(self) -> SkillEntry:
        """The held entry."""
        return self.loaded.entry

    def locate(self, reference: str, *, appears_in: SkillUri | None = None) -> SkillUri:
        """The URI of the file a reference means, from this skill's own directory; only a listed one (W2).

        Where the reference stands in the `SKILL.md` of a nested skill, read as one of this skill's files, that file is
        `appears_in`, and its directory is where the reference leads from (U5).
        """
        resources = self.entry.resources
        root = self._root_of(appears_in) if appears_in is not None else self.entry.root
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
        root = self.entry.root
        paths = reference_paths(directory) if directory else ()
        for place in [root.child(path).key for path in paths] or [root.key]:
            if found := _children(resources, place):
                return found
        raise UnlistedFileError(f'"{shorten(directory)}" is not a directory of {self.skill}.', uri=self.entry.uri)

    def own_children(self, directory: SkillUri, listed: Iterable[SkillUri]) -> tuple[SkillUri, ...]:
        """Those of a live listing that are children of this directory of a dynamic skill; the rest is dropped (D4)."""
        root = self.entry.root
        if isinstance(self.entry.resources, Manifest) or not (root.key == directory.key or root.contains(directory)):
            raise UnlistedFileError(
                f"{shorten(directory)} is not a directory of the dynamic skill {self.skill}.", uri=directory, rule="D4"
            )
        depth = len(directory.key) + 1
        return tuple(uri for uri in listed if directory.contains(uri) and len(uri.key) == depth)

    def accept(self, uri: SkillUri, data: bytes) -> VerifiedFile:
        """Take the bytes of one file, verified against the held entry (V1)."""
        return verify_file(self.entry, uri, data)

    def accept_unverified(self, uri: SkillUri, data: bytes) -> tuple[ActingSkill, UnverifiedFile]:
        """Take a file of a dynamic skill (D4), and the window as it is after it: with more of its limit used (E6)."""
        begun = self.loaded.size if isinstance(self.loaded, UnverifiedSkill) else 0
        file = accept_dynamic_file(self.entry, uri, data, before=begun + self.bytes_read)
        return replace(self, bytes_read=self.bytes_read + len(file.data)), file

    def _root_of(self, skill_md: SkillUri) -> SkillUri:
        resources = self.entry.resources
        is_file = resources.find(skill_md) if isinstance(resources, Manifest) else self.entry.root.contains(skill_md)
        if not is_file:
            raise UnlistedFileError(f"{shorten(skill_md)} is not a file of {self.skill}.", uri=skill_md)
        return skill_md.root


def _children(manifest: Manifest, directory: tuple[str, ...]) -> tuple[Child, ...]:
    depth = len(directory)
    found: dict[str, Child] = {}
    for record in manifest.files:
        key = record.uri.key
        if len(key) > depth and key[:depth] == directory:
            is_directory = len(key) > depth + 1
            size = None if is_directory else record.size
            found[key[depth]] = Child(name=key[depth], is_directory=is_directory, size=size)
    return tuple(sorted(found.values()))


@dataclass(frozen=True, slots=True)
class Windows:
    """The skills in use. Windows overlap; each holds its own entry from when it opens until it is closed (W1)."""

    open_windows: Mapping[SkillId, ActingSkill] = field(default_factory=lambda: MappingProxyType({}))

    def open(self, acting: ActingSkill) -> Windows:
        """The skill entered the model's context."""
        others = {skill: window for skill, window in self.open_windows.items() if skill != acting.skill}
        return Windows(MappingProxyType({**others, acting.skill: acting}))  # under the spelling of now

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
