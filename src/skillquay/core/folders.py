"""A skill's directory as a value, and the entry it is published as (F1-F3, U1, U2, E2-E4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillquay.core.entries import LIMITS, Manifest, SkillEntry
from skillquay.core.fields import directory_findings, field_findings, name_problem, naming_readers
from skillquay.core.findings import Finding, Level
from skillquay.core.frontmatter import Frontmatter, parse_frontmatter
from skillquay.core.uris import SKILL_MD
from skillquay.errors import FrontmatterError

if TYPE_CHECKING:
    from skillquay.core.entries import FileRecord
    from skillquay.core.uris import SkillUri

__all__ = ["Publication", "SkillFolder", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    """What was read of one skill's directory: its place in the publication, its files, and what could not be read.

    `root` is the directory's URI (`skill://acme/billing/refunds`). `files` holds every file that would be published,
    `SKILL.md` included, in the order of their URIs; `findings` is what the reading itself came upon. Reading stops at
    the limits of E4, so `file_count` and `size` may say more than `files` shows. `empty` are the paths of directories
    with nothing in them, `executable` those of files that can be run. `stamp` tells later, at a look, that nothing
    changed; only outermost skills have one.
    """

    root: SkillUri
    location: str
    skill_md: bytes
    files: tuple[FileRecord, ...]
    file_count: int
    size: int
    findings: tuple[Finding, ...] = ()
    empty: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()
    stamp: str | None = None

    @property
    def name(self) -> str:
        """The directory's name, which the skill's must equal (F2, U2)."""
        return self.root.name

    @property
    def paths(self) -> tuple[str, ...]:
        """The files' paths below the directory, with `/` between segments."""
        return tuple(self.root.relative(file.uri) for file in self.files)


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
        entry = SkillEntry(
            uri=folder.root.child(SKILL_MD), frontmatter=frontmatter.fields, resources=Manifest(folder.files)
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
    findings.extend(naming_readers(finding.at(Level.ERROR) if strict else finding) for finding in fields)
    misnamed = list(directory_findings(frontmatter.name, folder.name, frontmatter.lines.get("name")))
    if misnamed and name_problem(frontmatter.name) is None:  # otherwise the advice to rename would contradict itself
        findings += misnamed
    return frontmatter, findings
