"""The lenient reading of skills on the user's own disk: load what can be loaded, and say what was repaired (F5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.fields import directory_findings, field_findings
from skillquay.core.findings import Finding, Level
from skillquay.core.frontmatter import Cut, Frontmatter, cut, refuse_disputed
from skillquay.core.repair import quote_broken_values
from skillquay.core.yaml_json import Mapped, as_text, read_mapping
from skillquay.errors import FrontmatterError

if TYPE_CHECKING:
    from skillquay.core.yaml_json import JsonValue

__all__ = ["LenientReading", "read_leniently"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LenientReading:
    """A local skill's frontmatter, and every repair and doubt as a finding the user can see."""

    frontmatter: Frontmatter
    findings: tuple[Finding, ...]


def read_leniently(data: bytes, directory: str) -> LenientReading:
    """Read a local `SKILL.md`. A `FrontmatterError` is the reason a skill is skipped: unreadable, or no description."""
    part = cut(data)
    refuse_disputed(part)
    findings: list[Finding] = []
    yaml = part.yaml
    try:
        read = read_mapping(yaml, first_line=Cut.FIRST_LINE, lenient=True)
    except FrontmatterError as original:
        yaml, lines = quote_broken_values(yaml)
        try:
            read = read_mapping(yaml, first_line=Cut.FIRST_LINE, lenient=True)
        except FrontmatterError:
            raise original from None
        findings += [_repaired(line, "a value with a colon in it is not quoted; it is read as text") for line in lines]
    findings += [_repaired(line, what) for line, what in read.repairs]
    fields = _with_required_text(read, yaml, directory, findings)
    lines_of = read.lines
    for finding in field_findings(fields, lines_of):
        if finding.kind == "description" and not _has_text(fields.get("description")):
            raise FrontmatterError(finding.message, line=finding.line or 1, rule="F5", fix=finding.fix)
        findings.append(replace(finding, level=Level.WARNING))
    named = directory_findings(str(fields["name"]), directory, lines_of.get("name"))
    findings.extend(replace(finding, rule="F5", level=Level.WARNING) for finding in named)
    frontmatter = Frontmatter(
        fields=MappingProxyType(fields), lines=MappingProxyType(lines_of), body_start=part.body_start
    )
    return LenientReading(frontmatter=frontmatter, findings=tuple(findings))


def _with_required_text(read: Mapped, yaml: bytes, directory: str, findings: list[Finding]) -> dict[str, JsonValue]:
    """The fields, with `name` and `description` as the author wrote them when YAML takes them for numbers or dates."""
    fields = dict(read.fields)
    for key in ("name", "description"):
        if isinstance(fields.get(key), bool | int | float):
            fields[key] = read_mapping(yaml, as_text, lenient=True).fields[key]
            findings.append(_repaired(read.lines.get(key, 1), f"the {key} is not quoted; it is read as text"))
    if not _has_text(fields.get("name")):
        fields["name"] = directory
        findings.append(_repaired(read.lines.get("name", 1), "there is no usable name; the directory's name is used"))
    return fields


def _repaired(line: int, what: str) -> Finding:
    message = f"{what[0].upper()}{what[1:]}."
    return Finding(rule="F5", level=Level.WARNING, kind="repaired", message=message, line=line)


def _has_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
