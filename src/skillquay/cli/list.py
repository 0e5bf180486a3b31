"""`skillquay list`: the skills of a directory tree as they would be published, and those that would not be."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.cli.messages import fail, human_size, path_problem, plural
from skillquay.cli.output import Screen, counted
from skillquay.core.entries import Manifest
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import visible
from skillquay.sources.directory import SkippedPath, publish_tree

if TYPE_CHECKING:
    from skillquay.core.entries import SkillEntry

__all__ = ["run"]

_MOST_REFUSALS = 20


def run(path: str, *, strict: bool, as_json: bool) -> int:
    """List one tree."""
    if problem := path_problem(path):
        return fail(problem)
    entries: list[SkillEntry] = []
    refused: list[tuple[str, Finding]] = []
    with counted(publish_tree(path, strict=strict), "skills read") as items:
        for item in items:
            if isinstance(item, SkippedPath):
                refused.append((item.location, item.finding))
            elif item.entry is not None:
                entries.append(item.entry)
            else:
                errors = (finding for finding in item.findings if finding.level is Level.ERROR)
                refused.extend((item.folder.location, finding) for finding in errors)
    refused.sort(key=lambda refusal: refusal[0])
    entries.sort(key=lambda entry: entry.uri)
    if as_json:
        _write_json(entries, refused)
    else:
        _show(Screen(), path, entries, refused)
    return 0


def _write_json(entries: list[SkillEntry], refused: list[tuple[str, Finding]]) -> None:
    document = {
        "skills": [entry.to_json() for entry in entries],
        "refused": [
            {
                "location": location.encode("utf-8", "backslashreplace").decode(),
                "file": finding.file,
                "line": finding.line,
                "rule": finding.rule,
                "reason": finding.message,
            }
            for location, finding in refused
        ],
    }
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _show(screen: Screen, path: str, entries: list[SkillEntry], refused: list[tuple[str, Finding]]) -> None:
    if not entries and not refused:
        screen.line(f'No skills in "{visible(path)}". A skill is a directory with a file named SKILL.md.')
        return
    screen.rows((_row(entry) for entry in entries), indent=0, wrap=False)
    files = sum(len(entry.resources) for entry in entries if isinstance(entry.resources, Manifest))
    size = sum(entry.resources.size for entry in entries if isinstance(entry.resources, Manifest))
    screen.line(f"{plural(len(entries), 'skill')}, {plural(files, 'file')}, {human_size(size)}.")
    if refused:
        screen.line("")
        screen.line((f"Not published ({len({location for location, _ in refused}):,}):", "bold"))
        screen.rows(
            (Text(visible(location)), Text(finding.rule), Text(visible(finding.message)))
            for location, finding in refused[:_MOST_REFUSALS]
        )
        if len(refused) > _MOST_REFUSALS:
            screen.line(f"  … and {len(refused) - _MOST_REFUSALS:,} more reasons.")
        screen.line(f'See all findings with "skillquay lint {visible(path)}".')


def _row(entry: SkillEntry) -> tuple[Text, ...]:
    manifest = entry.resources
    files, size = (len(manifest), manifest.size) if isinstance(manifest, Manifest) else (0, 0)
    path = "/".join(entry.root.segments)
    return (
        Text(visible(path), "bold"),
        Text(plural(files, "file").rjust(9)),
        Text(human_size(size).rjust(8)),
        Text(visible(" ".join(entry.description.split()))),
    )
