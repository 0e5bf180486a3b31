"""The rules of the Agent Skills format for single frontmatter fields (F2, F3, F6)."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "MAX_COMPATIBILITY",
    "MAX_DESCRIPTION",
    "MAX_NAME",
    "RESERVED_METADATA",
    "directory_findings",
    "field_findings",
    "name_problem",
    "naming_readers",
]

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
RESERVED_METADATA = "io.modelcontextprotocol/"

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def name_problem(name: object) -> str | None:
    """Why this is not a skill's name (F2), as the end of a sentence that begins with the name; None when it is one."""
    if not isinstance(name, str):
        return "is not a string"
    if not name:
        return "is empty"
    if len(name) > MAX_NAME:
        return f"has {len(name)} characters; at most {MAX_NAME} are allowed"
    if _NAME.fullmatch(name):
        return None
    if name.startswith("-") or name.endswith("-"):
        return "begins or ends with a hyphen"
    if "--" in name:
        return "has two hyphens in a row"
    return "may have only the letters a-z, digits and hyphens"


def directory_findings(name: str, directory: str, line: int | None) -> Iterator[Finding]:
    """A skill's name equals that of its directory (F2)."""
    if name != directory:
        yield Finding(
            rule="F2",
            level=Level.ERROR,
            kind="directory-name",
            message=f'The name "{shorten(name)}" is not the name of the directory, "{shorten(directory)}".',
            line=line,
            fix=f'Rename the directory to "{shorten(name)}", or set name: {shorten(directory)}',
        )


def field_findings(fields: Mapping[str, object], lines: Mapping[str, int] | None = None) -> Iterator[Finding]:
    """What breaks the format in these fields: errors for `name` and `description`, warnings for the others (F3)."""
    for finding in _findings(fields):
        yield replace(finding, line=lines.get(finding.kind, 1)) if lines is not None else finding


def _findings(fields: Mapping[str, object]) -> Iterator[Finding]:
    yield from _name_findings(fields)
    yield from _description_findings(fields)
    if "compatibility" in fields:
        value = fields["compatibility"]
        if not isinstance(value, str):
            yield _not_a_string("compatibility", value)
        elif not 1 <= len(value) <= MAX_COMPATIBILITY:
            yield _warning(
                "compatibility",
                f"compatibility has {len(value):,} characters; 1 to {MAX_COMPATIBILITY} are allowed.",
                "Shorten it." if value else "Remove the field.",
            )
    for key in ("license", "allowed-tools"):
        if key in fields and not isinstance(fields[key], str):
            yield _not_a_string(key, fields[key])
    if "metadata" in fields:
        yield from _metadata_findings(fields["metadata"])


def _name_findings(fields: Mapping[str, object]) -> Iterator[Finding]:
    if "name" not in fields:
        yield _error("F1", "name", "The frontmatter has no name.", "Add a line such as: name: git-workflow")
    elif problem := name_problem(fields["name"]):
        value = fields["name"]
        shown = f' "{shorten(value)}"' if isinstance(value, str) and value else ""
        fix = None
        if isinstance(value, str) and (better := _better_name(value)):
            fix = f'Call it "{better}", and its directory too.'
        elif not isinstance(value, str):
            fix = "Quote it."
        yield _error("F2", "name", f"The name{shown} {problem}.", fix)


def _description_findings(fields: Mapping[str, object]) -> Iterator[Finding]:
    if "description" not in fields:
        yield _error(
            "F1", "description", "The frontmatter has no description.", "Say what the skill does and when to use it."
        )
        return
    value = fields["description"]
    if value is None or (isinstance(value, str) and not value.strip()):
        yield _error("F3", "description", "The description is empty.", "Say what the skill does and when to use it.")
    elif not isinstance(value, str):
        fix = "Write it as one sentence." if isinstance(value, list | dict) else "Quote it."
        yield _error("F3", "description", f"The description is {_kind(value)}, not a string.", fix)
    elif len(value) > MAX_DESCRIPTION:
        yield _error(
            "F3",
            "description",
            f"The description has {len(value):,} characters; at most {MAX_DESCRIPTION:,} are allowed.",
            "Move the details into the body.",
        )


def _metadata_findings(metadata: object) -> Iterator[Finding]:
    if not isinstance(metadata, dict):
        yield _warning("metadata", f"metadata is {_kind(metadata)}, not a map of strings.", "Write key: value lines.")
        return
    for key, value in metadata.items():
        if not isinstance(value, str):
            fix = "Quote the value." if not isinstance(value, list | dict) else "Write it as one string."
            yield _warning("metadata", f"metadata.{shorten(key)} is {_kind(value)}, not a string.", fix)
        if key.startswith(RESERVED_METADATA):
            yield Finding(
                rule="F6",
                level=Level.WARNING,
                kind="metadata",
                message=f'metadata.{shorten(key)} is under the reserved "{RESERVED_METADATA}"; readers ignore it.',
                fix="Use a prefix of your own.",
            )


def _better_name(name: str) -> str | None:
    letters = unicodedata.normalize("NFKD", name[: 4 * MAX_NAME].lower()).encode("ascii", "ignore").decode()
    better = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:MAX_NAME].strip("-")
    return better if better and better != name else None


def _not_a_string(key: str, value: object) -> Finding:
    fix = "Write it as one string, separated by spaces." if isinstance(value, list) else "Quote it."
    return _warning(key, f"{key} is {_kind(value)}, not a string.", fix)


def _error(rule: str, kind: str, message: str, fix: str | None) -> Finding:
    return Finding(rule=rule, level=Level.ERROR, kind=kind, message=message, fix=fix)


# Who refuses a skill over such a field. Checked against those packages in tests/peers; core/peers has the details.
_REFUSED_BY = {
    "compatibility": "FastMCP 4.1, the TypeScript SDK 2.4 and the Go SDK refuse",
    "license": "FastMCP 4.1 and the Go SDK refuse",
    "allowed-tools": "FastMCP 4.1 and the Go SDK refuse",
    "metadata": "FastMCP 4.1, the TypeScript SDK 2.4 and the Go SDK refuse",
}


def naming_readers(finding: Finding) -> Finding:
    """A warning about a field, with the readers that refuse a skill over it (F3)."""
    if finding.rule != "F3" or finding.kind not in _REFUSED_BY:
        return finding
    return replace(finding, message=f"{finding.message} {_REFUSED_BY[finding.kind]} the skill for it.")


def _warning(kind: str, message: str, fix: str) -> Finding:
    return Finding(rule="F3", level=Level.WARNING, kind=kind, message=message, fix=fix)


def _kind(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "a string"
