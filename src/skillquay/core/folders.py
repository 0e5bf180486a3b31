"""A skill's directory as a value, and the entry it is published as (F1-F3, U1, U2, E2-E4)."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.entries import LIMITS, FileRecord, Manifest, SkillEntry
from skillquay.core.fields import field_findings
from skillquay.core.findings import Finding, Level
from skillquay.core.frontmatter import Frontmatter, parse_frontmatter
from skillquay.core.hidden import shorten
from skillquay.core.uris import SkillUri
from skillquay.errors import FrontmatterError, UriError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.digests import Digest

__all__ = ["FolderFile", "Publication", "SkillFolder", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFile:
    """One file below a skill's directory; `path` is relative to it, with `/` between segments."""

    path: str
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    """What was read of one skill's directory: its place in the publication, its files, and what could not be read.

    `path` is the skill's path (`("acme", "billing", "refunds")`); its last segment is the directory's name. `files`
    holds every file that would be published, `SKILL.md` included; `findings` is what the reading itself came upon.
    Reading stops at the limits of E4, so `file_count` and `size` may say more than `files` shows.
    """

    path: tuple[str, ...]
    location: str
    skill_md: bytes
    files: tuple[FolderFile, ...]
    file_count: int
    size: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The outcome for one folder: an entry, or the errors that keep it from being published; warnings either way."""

    folder: SkillFolder
    entry: SkillEntry | None
    findings: tuple[Finding, ...]


def publish(folder: SkillFolder, *, strict: bool = False) -> Publication:
    """The entry of a skill that may be published; with `strict`, warnings about its fields keep it out too (F3)."""
    frontmatter, findings = _checked(folder, strict=strict)
    entry = None
    if frontmatter is not None and not any(finding.level is Level.ERROR for finding in findings):
        try:
            root = SkillUri.build(folder.path)
            records = [
                FileRecord(uri=root.child(file.path), digest=file.digest, size=file.size) for file in folder.files
            ]
        except UriError as error:
            findings.append(_unnameable(error))
        else:
            records.sort(key=_uri)
            entry = SkillEntry(
                uri=root.child("SKILL.md"),
                frontmatter=MappingProxyType(dict(frontmatter.fields)),
                resources=Manifest(records),
            )
    return Publication(folder=folder, entry=entry, findings=tuple(findings))


def _checked(folder: SkillFolder, *, strict: bool) -> tuple[Frontmatter | None, list[Finding]]:
    findings = list(folder.findings)
    if problem := LIMITS.problem(folder.file_count, folder.size):
        findings.append(
            Finding(
                rule="E4",
                level=Level.ERROR,
                kind="limits",
                message=f"{problem[0].upper()}{problem[1:]}.",
                file=".",
                fix="Split the skill, or move large files elsewhere.",
            )
        )
    try:
        frontmatter = parse_frontmatter(folder.skill_md)
    except FrontmatterError as error:
        findings.append(
            Finding(
                rule=error.rule,
                level=Level.ERROR,
                kind="frontmatter",
                message=error.message,
                line=error.line,
                fix=error.fix,
            )
        )
        return None, findings
    fields = field_findings(frontmatter.fields, frontmatter.lines)
    findings.extend(finding.at(Level.ERROR) if strict else finding for finding in fields)
    findings.extend(_directory_findings(folder, frontmatter))
    return frontmatter, findings


def _directory_findings(folder: SkillFolder, frontmatter: Frontmatter) -> Iterator[Finding]:
    directory = folder.path[-1]
    name = frontmatter.name
    if name and name != directory:
        yield Finding(
            rule="F2",
            level=Level.ERROR,
            kind="directory-name",
            message=f'The name "{shorten(name)}" is not the name of the directory, "{shorten(directory)}".',
            line=frontmatter.lines.get("name"),
            fix=f'Rename the directory to "{shorten(name)}", or set name: {shorten(directory)}',
        )


def _unnameable(error: UriError) -> Finding:
    return Finding(
        rule=error.rule,
        level=Level.ERROR,
        kind="file-name",
        message=f"A file cannot be given a URI: {error.message}",
        file=".",
        fix="Rename it.",
    )


def _uri(record: FileRecord) -> str:
    return str(record.uri)
