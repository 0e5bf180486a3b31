"""`skillquay lint`: findings of every skill, grouped and summed up; mends what is safe when asked."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.cli.messages import fail, path_problem, plural
from skillquay.cli.output import LEVEL_STYLE, Screen, counted
from skillquay.core.catalog import name_findings
from skillquay.core.findings import Finding, Level
from skillquay.core.hidden import visible
from skillquay.core.lint import lint
from skillquay.sources.directory import SkippedPath, read_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillquay.core.entries import SkillEntry
    from skillquay.core.folders import SkillFolder

__all__ = ["run"]

# With more findings than this, only the first few of each kind are shown; the summary counts them all.
_PLENTY = 60
_FEW = {Level.ERROR: 10, Level.WARNING: 3, Level.NOTE: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A finding and the directory it was found in."""

    location: str
    finding: Finding


def run(paths: list[str], *, fix: bool, peers: bool, strict: bool, show_all: bool, as_json: bool) -> int:
    """Lint every skill below the paths; the exit status says whether there was an error."""
    for path in paths:
        if problem := path_problem(path):
            return fail(problem)
    paths = _apart(paths)
    screen = Screen()
    if fix:
        from skillquay.cli.fix import fix_trees

        fix_trees(paths, screen if not as_json else None)
    report = _Report()
    for path in paths:
        with counted(read_tree(path), "skills read") as items:
            places = list(_places(path, items, report, peers=peers, strict=strict))
        report.places += sorted(places, key=lambda place: place.location)
    if as_json:
        report.write_json()
    else:
        report.show(screen, paths, show_all=show_all)
    return 1 if report.count(Level.ERROR) else 0


def _apart(paths: list[str]) -> list[str]:
    """The paths without those that another one includes."""
    real = {path: os.path.join(os.path.realpath(path), "") for path in dict.fromkeys(paths)}
    return [
        path
        for index, path in enumerate(real)
        if not any(
            real[path].startswith(other) and (real[path] != other or place < index)
            for place, other in enumerate(real.values())
            if place != index
        )
    ]


def _places(
    path: str, items: Iterable[SkillFolder | SkippedPath], report: _Report, *, peers: bool, strict: bool
) -> Iterator[_Place]:
    entries: list[SkillEntry] = []
    for item in items:
        if isinstance(item, SkippedPath):
            yield _Place(location=item.location, finding=item.finding)
            continue
        linted = lint(item, strict=strict, peers=peers)
        report.skills += 1
        report.clean += not linted.findings
        if linted.entry is not None:
            entries.append(linted.entry)
        for finding in linted.findings:
            yield _Place(location=item.location, finding=finding)
    for finding in name_findings(entry.uri for entry in entries):
        yield _Place(location=path, finding=finding)


class _Report:
    """All findings of a run, and how they are shown."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.skills = 0
        self.clean = 0

    def count(self, level: Level) -> int:
        return sum(place.finding.level is level for place in self.places)

    def write_json(self) -> None:
        document = {
            "skills": self.skills,
            "clean": self.clean,
            "counts": {level.value: self.count(level) for level in Level},
            "findings": [
                {**asdict(place.finding), "file": _file(place), "level": place.finding.level.value}
                for place in self.places
            ],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")

    def show(self, screen: Screen, paths: list[str], *, show_all: bool) -> None:
        if not self.skills and not self.places:
            where = ", ".join(f'"{visible(path)}"' for path in paths)
            screen.line(f"No skills in {where}. A skill is a directory with a file named SKILL.md.")
            return
        chosen = self.places if show_all or len(self.places) <= _PLENTY else list(self._first_of_each_kind())
        self._show_groups(screen, chosen)
        self._show_summary(screen, len(chosen))

    def _first_of_each_kind(self) -> Iterator[_Place]:
        seen: Counter[tuple[str, str, Level]] = Counter()
        for place in self.places:
            kind = (place.finding.rule, place.finding.kind, place.finding.level)
            seen[kind] += 1
            if seen[kind] <= _FEW[place.finding.level]:
                yield place

    def _show_groups(self, screen: Screen, chosen: list[_Place]) -> None:
        groups: dict[str, list[Finding]] = {}
        for place in chosen:
            groups.setdefault(place.location, []).append(place.finding)
        for location, findings in groups.items():
            screen.line((visible(location), "bold"))
            screen.rows(_row(finding) for finding in findings)
            screen.line("")

    def _show_summary(self, screen: Screen, shown: int) -> None:
        counts = [(plural(self.count(level), level.value), LEVEL_STYLE[level]) for level in Level if self.count(level)]
        parts: list[tuple[str, str] | str] = [f"{plural(self.skills, 'skill')}: "]
        for index, (text, style) in enumerate(counts):
            parts += [", " if index else "", (text, style)]
        parts.append(f"; {self.clean:,} clean." if counts else "no findings.")
        screen.line(*parts)
        kinds = Counter((place.finding.level, place.finding.rule, place.finding.kind) for place in self.places)
        order = {level: index for index, level in enumerate(Level)}
        rows = sorted(kinds.items(), key=lambda item: (order[item[0][0]], -item[1], item[0][1:]))
        if len(self.places) > 1:
            screen.rows(
                (Text(rule), Text(level.value, LEVEL_STYLE[level]), Text(f"{count:,}".rjust(6)), Text(kind))
                for (level, rule, kind), count in rows
            )
        if shown < len(self.places):
            screen.line(f"Shown: {shown:,} of {len(self.places):,} findings. See every one with --all, or use --json.")


def _row(finding: Finding) -> tuple[Text, ...]:
    place = visible(finding.file) + (f":{finding.line}" if finding.line else "")
    message = Text(visible(finding.message))
    if finding.fix:
        message.append(f"  {visible(finding.fix)}", "green")
    return (Text(place), Text(finding.level.value, LEVEL_STYLE[finding.level]), Text(finding.rule), message)


def _file(place: _Place) -> str:
    """The file's path as text that JSON can hold: bytes of names that are not UTF-8 are shown, not passed on."""
    location = place.location if place.finding.file == "." else os.path.join(place.location, place.finding.file)
    return location.encode("utf-8", "backslashreplace").decode()
