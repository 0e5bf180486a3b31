"""Everything worth telling a skill's author: what keeps it from being published, and what readers will stumble over."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from skillquay.core.findings import Finding, Level
from skillquay.core.folders import publish
from skillquay.core.frontmatter import cut
from skillquay.core.hidden import find_hidden, shorten
from skillquay.core.paths import Paths, parse_path, split_nested
from skillquay.core.peers import peer_refusals
from skillquay.core.repair import repair
from skillquay.core.uris import SKILL_MD, reference_paths
from skillquay.errors import ArchiveError, FrontmatterError, UriError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillquay.core.entries import SkillEntry
    from skillquay.core.folders import SkillFolder

__all__ = ["MAX_LOCAL_SKILL_MD", "Linted", "lint"]

MAX_LOCAL_SKILL_MD = 64 * 1024

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\([ \t]*(?:<([^<>\n]+)>|([^()\s<>]+))")
_MOST_OF_A_BODY = 100
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|#|//|.*[{}$*]")
_EXPANSION = re.compile(r"(?:^|\s)!`[^`\n]+`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """What was found in one skill; `entry` is what it would be published as, when nothing keeps it out."""

    entry: SkillEntry | None
    findings: tuple[Finding, ...]


def lint(folder: SkillFolder, *, strict: bool = False, peers: bool = False) -> Linted:
    """All findings about one skill, in the order of their lines; with `peers`, also what known readers would refuse."""
    publication = publish(folder, strict=strict)
    findings = [
        *_with_fixes(publication.findings, folder.skill_md),
        *_content_findings(folder),
        *_path_findings(folder),
    ]
    if peers:
        findings.extend(_peer_findings(folder))
    findings.sort(key=_place)
    return Linted(entry=publication.entry, findings=tuple(findings))


def _path_findings(folder: SkillFolder) -> Iterator[Finding]:
    """Paths that would not be the same place everywhere: with one of them a skill is served, but not packed (I4)."""
    paths = Paths()
    for path in split_nested(folder.paths)[0]:
        try:
            paths.add_file(parse_path(path))
        except ArchiveError as error:
            message = f"{error.message} The skill is served, but cannot be packed."
            finding = _warning(error.rule, "not-packed", message, None)
            yield replace(finding, file=shorten(path, 200), fix="Rename it.")


def _peer_findings(folder: SkillFolder) -> Iterator[Finding]:
    """What known readers would refuse; those with the same reason are named together."""
    reasons: dict[tuple[int | None, str], list[str]] = {}
    for refusal in peer_refusals(folder):
        reasons.setdefault((refusal.line, refusal.reason), []).append(refusal.peer)
    for (line, reason), names in reasons.items():
        yield _warning("F3", "refused-by-peer", f"Refused by {', '.join(names)}: {reason}", line)


def _with_fixes(findings: Iterable[Finding], data: bytes) -> Iterator[Finding]:
    """The findings, each that `--fix` would mend saying so; what else it would mend is a note."""
    steps = list(repair(data).steps)
    for finding in findings:
        mends = finding.kind == "frontmatter" and finding.fix is None
        step = next((each for each in steps if mends and each[0] == finding.line), None)
        if step is not None:
            steps.remove(step)
            yield replace(finding, fix=f"--fix would {step[1]}.")
        else:
            yield finding
    for line, what in steps:
        yield _note("F5", "fixable", f"--fix would {what}.", line)


def _content_findings(folder: SkillFolder) -> Iterator[Finding]:
    data = folder.skill_md
    if len(data) > MAX_LOCAL_SKILL_MD:
        yield _warning(
            "P1", "large", f"SKILL.md has {len(data):,} bytes; many hosts read at most {MAX_LOCAL_SKILL_MD:,}.", None
        )
    text = data.decode("utf-8", "replace")
    places: dict[str, list[int]] = {}
    for hidden in find_hidden(text):
        places.setdefault(hidden.kind, []).append(hidden.line)
    for kind, lines in places.items():
        more = f" (and on {len(lines) - 1} more lines)" if len(lines) > 1 else ""
        tell = _note if kind == "an HTML comment" else _warning
        yield tell("B4", "hidden", f"There is content here that a person reading may not see: {kind}{more}.", lines[0])
    try:
        body_start = cut(data).body_start
    except FrontmatterError:
        return
    line = data.count(b"\n", 0, body_start) + 1
    yield from islice(_body_findings(folder, data[body_start:].decode("utf-8"), line), _MOST_OF_A_BODY)


def _body_findings(folder: SkillFolder, body: str, first_line: int) -> Iterator[Finding]:
    known = set(folder.paths)
    known |= {path[:end] for path in known for end, character in enumerate(path) if character == "/"}
    fence = ""
    for line, text in enumerate(body.split("\n"), first_line):
        if marker := _FENCE.match(text):
            fence = "" if fence and marker[1].startswith(fence) else fence or marker[1]
            continue
        if fence:
            continue
        if _EXPANSION.search(text):
            yield _warning("X4", "expansion", "A load-time command (!`…`) stays text when the skill is served.", line)
        for link in _LINK.finditer(_CODE.sub("", text)):
            target = link[1] or link[2]
            if not _ELSEWHERE.match(target) and (problem := _link_problem(target, known)):
                yield _warning("U5", "link-target", problem, line)


def _link_problem(target: str, known: set[str]) -> str | None:
    shown = shorten(target)
    try:
        paths = reference_paths(target.partition("?")[0])
    except UriError:
        return f'The link to "{shown}" leaves the skill, so no reader will follow it.'
    if not known.isdisjoint(paths):
        return None
    return f'The link to "{shown}" leads to no file of the skill.'


def _warning(rule: str, kind: str, message: str, line: int | None) -> Finding:
    return Finding(rule=rule, level=Level.WARNING, kind=kind, message=message, line=line)


def _note(rule: str, kind: str, message: str, line: int | None) -> Finding:
    return Finding(rule=rule, level=Level.NOTE, kind=kind, message=message, line=line)


def _place(finding: Finding) -> tuple[bool, str, int]:
    return (finding.file != SKILL_MD, finding.file, finding.line or 0)
