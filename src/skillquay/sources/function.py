"""Skills whose content is generated anew for each reading; their entries say `"dynamic"` (E6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from skillquay.core.catalog import Listed
from skillquay.core.digests import Digest
from skillquay.core.entries import DYNAMIC, LIMITS, FileRecord, Manifest
from skillquay.core.findings import Level
from skillquay.core.folders import SkillFolder, publish
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import GenerationError, UriError

__all__ = ["Content", "Generation", "check_generated"]

Content: TypeAlias = str | bytes | Mapping[str, str | bytes]
"""The text of a `SKILL.md`, or all files of a skill by their path, `SKILL.md` among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One content a function made: the entry it is announced with, and the files as they are now."""

    listed: Listed
    manifest: Manifest
    files: Mapping[SkillUri, bytes]

    @property
    def as_files(self) -> Listed:
        """The skill as if it were one of files, to find directories in."""
        return Listed.of(replace(self.listed.entry, resources=self.manifest))


def check_generated(root: SkillUri, content: object) -> Generation:
    """Refuse what may not be published, as for a skill on disk."""
    files: dict[SkillUri, bytes] = {}
    for path, data in _by_path(root, content).items():
        try:
            uri = root.child(path)
        except (UriError, TypeError) as error:
            raise GenerationError(f"{_named(root)} made a file with an unusable path: {error}", rule="U3") from None
        if not isinstance(data, str | bytes):
            raise GenerationError(f"{_named(root)} made {type(data).__name__} for {shorten(path)}.", rule="E6")
        try:
            files[uri] = data.encode() if isinstance(data, str) else data
        except UnicodeEncodeError:
            raise GenerationError(
                f"{_named(root)} made text for {shorten(path)} that is not UTF-8.", rule="E6"
            ) from None
    skill_md = files.get(root.child(SKILL_MD))
    if skill_md is None:
        raise GenerationError(f"{_named(root)} made no SKILL.md.", rule="F1")
    for outer, inner in pairwise(sorted(uri.key for uri in files)):  # what lies inside a file comes right after it
        if inner[: len(outer)] == outer:
            raise GenerationError(f"{_named(root)} made {shorten(outer[-1])} as a file and a directory.", rule="E2")
    if problem := LIMITS.problem(len(files), sum(map(len, files.values()))):
        raise GenerationError(f"{_named(root)} made too much: {problem}.", rule="E4")
    records = tuple(FileRecord(uri, Digest.of(files[uri]), len(files[uri])) for uri in sorted(files))
    folder = SkillFolder(
        root=root,
        location=str(root),
        skill_md=skill_md,
        files=records,
        file_count=len(files),
        size=sum(map(len, files.values())),
    )
    publication = publish(folder)
    if publication.entry is None:
        finding = next(each for each in publication.findings if each.level is Level.ERROR)
        raise GenerationError(f"{_named(root)} made no valid skill: {finding.message}", rule=finding.rule)
    listed = Listed.of(replace(publication.entry, resources=DYNAMIC))
    return Generation(listed=listed, manifest=Manifest(records), files=files)


def _by_path(root: SkillUri, content: object) -> Mapping[str, object]:
    if isinstance(content, Mapping):
        return content
    if isinstance(content, str) and "\n" not in content:
        raise GenerationError(
            f"{_named(root)} made one line of text. Return the text of a SKILL.md, or a pathlib.Path of a directory.",
            rule="F1",
        )
    return {SKILL_MD: content}


def _named(root: SkillUri) -> str:
    return f"The function of {shorten(root)}"
