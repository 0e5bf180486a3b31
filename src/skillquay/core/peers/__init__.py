"""Which known readers of skills would refuse a skill, and why.

The facts about FastMCP, the TypeScript SDK and skills-ref are checked against those packages in tests/peers, in both
directions. Those about the Go SDK come from reading the source of its proposed `skills` package and of yaml.v3.

A `SkillFolder` does not tell everything. What lies in hidden files and build leftovers is not known, though FastMCP and
the Go SDK publish it; nor is where the tree begins, though FastMCP and the TypeScript SDK pass over a `SKILL.md` at its
root. Frontmatter nested deeper than skillquay reads is taken to be refused by all. In more than 64 KiB of frontmatter
the finer differences between parsers are not looked for, and more than skillquay reads is not judged at all.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

from skillquay.core.entries import LIMITS
from skillquay.core.fields import MAX_NAME, field_findings
from skillquay.core.frontmatter import MAX_FRONTMATTER, cut
from skillquay.core.hidden import shorten
from skillquay.core.peers.go_yaml import GoReading
from skillquay.core.peers.nodes import UnreadableError
from skillquay.core.peers.python_yaml import FastMcpReading, StrictYamlReading
from skillquay.core.peers.typescript_yaml import read_lines
from skillquay.errors import FrontmatterError

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from skillquay.core.folders import SkillFolder
    from skillquay.core.peers.nodes import Fields

__all__ = ["Peer", "PeerRefusal", "peer_refusals"]


class Peer(StrEnum):
    """A reader of skills whose rules are known, by the name people know it under."""

    FASTMCP = "FastMCP 4.1"
    TYPESCRIPT = "TypeScript SDK 2.4"
    GO = "Go SDK (proposed)"
    SKILLS_REF = "skills-ref 0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRefusal:
    """Why one peer would not publish or validate the skill, and what the author can do about it."""

    peer: Peer
    reason: str
    line: int | None = None


def peer_refusals(folder: SkillFolder) -> tuple[PeerRefusal, ...]:
    """The first reason of each peer that would refuse this skill; nothing for a peer that would take it."""
    refusals: list[PeerRefusal] = []
    for peer, check in _CHECKS.items():
        try:
            check(folder)
        except UnreadableError as error:
            better = _delimiter_problem(folder.skill_md, peer) if error.line is not None else None
            refusals.append(PeerRefusal(peer=peer, reason=(better or error).reason, line=(better or error).line))
    return tuple(refusals)


# --- Each peer's cut through the bytes, its reading of the YAML, its rules for the fields and for the files ---

_BOM = "\ufeff"
_FASTMCP_CUT = re.compile(r"---\r?\n(.*?)\r?\n---(?:\r?\n|\Z)", re.DOTALL)
# To JavaScript a line ends at these four.
_TYPESCRIPT_CUT = re.compile(r"---\n(.*?)(?<=[\n\r\u2028\u2029])---[\t ]*(?=[\n\r\u2028\u2029]|\Z)", re.DOTALL)
_GO_CUT = re.compile(r"---\n(?:(.*?)\n---\n|(.*)\n---\Z)", re.DOTALL)
_GO_HOST = re.compile(r"""[A-Za-z0-9._~!$&'()*+,;=<>"%\x80-\U0010ffff-]+:?""")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_DRIVE = re.compile(r"[A-Za-z]:")
_KNOWN_FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})


def _check_fastmcp(folder: SkillFolder) -> None:
    found = _FASTMCP_CUT.match(_decoded(folder).removeprefix(_BOM))
    if fields := _read(folder, found and found[1], FastMcpReading().read):
        _check_fields(fields, _KNOWN_FIELDS)
        _check_directory(folder, fields)
    _check_kinds(folder)
    _check_limits(folder)
    _check_fastmcp_paths(folder)


def _check_fastmcp_paths(folder: SkillFolder) -> None:
    paths = set(folder.paths)
    unnameable = {each.file for each in folder.findings if each.kind == "file-name"}
    for path in (*sorted(paths | unnameable), "/".join(folder.root.segments)):
        if "\\" in path or _DRIVE.match(path):
            raise UnreadableError(f'It takes "{shorten(path)}" for a path on Windows. Rename it.')
        directory, _, name = path.rpartition("/")
        if name == "_manifest" and f"{directory}/SKILL.md".lstrip("/") in paths:
            raise UnreadableError(
                f'It has a "_manifest" of its own, and leaves this skill out. Rename "{shorten(path)}".'
            )


def _check_typescript(folder: SkillFolder) -> None:
    found = _TYPESCRIPT_CUT.match(_decoded(folder).replace("\r\n", "\n").removeprefix(_BOM))
    if fields := _read(folder, found and found[1], read_lines):
        _check_fields(_tolerating_blanks(fields, "description"), _KNOWN_FIELDS - {"license", "allowed-tools"})
        _check_directory(folder, fields)
    _check_kinds(folder)


def _check_go(folder: SkillFolder) -> None:
    # It looks at the frontmatter only: what the body holds need not be UTF-8.
    text = folder.skill_md.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    found = _GO_CUT.match(text)
    yaml = found and (found[1] or found[2] or "")
    if yaml and _ESCAPED_BYTE.search(yaml):
        _decoded(folder)
    if fields := _read(folder, yaml, GoReading().read):
        _check_dates(fields)
        _check_fields(_tolerating_blanks(fields, "description"), _KNOWN_FIELDS - {"name"})
        _check_directory(folder, fields)
        if problem := _unicode_name_problem(folder.name):
            raise _refused(fields, "name", f'The name "{shorten(folder.name)}" {problem}. Rename the skill.')
    _check_kinds(folder)
    _check_limits(folder)
    first, *rest = folder.root.segments
    if rest and not _GO_HOST.fullmatch(first):
        raise UnreadableError(f'Its URIs cannot begin with "{shorten(first)}". Rename that directory.')


def _check_skills_ref(folder: SkillFolder) -> None:
    text = re.sub("\r\n?", "\n", _decoded(folder))
    opening, *rest = text.split("---", 2)
    yaml = rest[0] if len(rest) == 2 and not opening else None
    fields = _read(folder, yaml, StrictYamlReading().read)
    if fields is None:
        return
    if unknown := [field for field in fields.values if field not in _KNOWN_FIELDS]:
        reason = f'It does not know the field "{shorten(unknown[0])}". Move it below metadata, or remove it.'
        raise _refused(fields, unknown[0], reason)
    name = fields.values.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _refused(fields, "name", "The frontmatter has no name. Add a line such as: name: git-workflow")
    name, directory = (unicodedata.normalize("NFKC", each) for each in (name.strip(), folder.name))
    if problem := _unicode_name_problem(name):
        raise _refused(fields, "name", f'The name "{shorten(name)}" {problem}. Rename the skill.')
    if name != directory:
        raise _other_name(folder, fields, name)
    empty = {"compatibility"} if fields.values.get("compatibility") == "" else set()
    _check_fields(fields, {"description", "compatibility"} - empty)


_CHECKS: dict[Peer, Callable[[SkillFolder], None]] = {
    Peer.FASTMCP: _check_fastmcp,
    Peer.TYPESCRIPT: _check_typescript,
    Peer.GO: _check_go,
    Peer.SKILLS_REF: _check_skills_ref,
}


def _decoded(folder: SkillFolder) -> str:
    try:
        return folder.skill_md.decode("utf-8")
    except UnicodeDecodeError as error:
        line = folder.skill_md.count(b"\n", 0, error.start) + 1
        raise UnreadableError("SKILL.md is not UTF-8 text. Save the file as UTF-8.", line) from None


def _read(folder: SkillFolder, yaml: str | None, read: Callable[[str], Fields]) -> Fields | None:
    """The fields as a peer reads them; None when they are too much to be read here."""
    if yaml is not None:
        return read(yaml) if len(yaml) <= MAX_FRONTMATTER else None
    try:
        cut(folder.skill_md)
    except FrontmatterError as error:
        raise UnreadableError(f"{error.message} {error.fix}", error.line) from None
    raise UnreadableError("It finds no fields in the frontmatter. Add name and description.", 1)


def _delimiter_problem(data: bytes, peer: Peer) -> UnreadableError | None:
    """What is wrong with the lines around the frontmatter: the reason behind what came of reading the wrong part."""
    try:
        part = cut(data)
    except FrontmatterError:
        return None
    opening, closing = data[: part.yaml_start], data[part.yaml_start + len(part.yaml) : part.body_start]
    if opening[:1] != b"-" and peer in {Peer.GO, Peer.SKILLS_REF}:
        return UnreadableError("SKILL.md begins with a byte order mark. Save the file without one.", 1)
    if peer is Peer.SKILLS_REF:
        if (at := part.yaml.find(b"---")) >= 0:
            line = part.FIRST_LINE + part.yaml.count(b"\n", 0, at)
            return UnreadableError("It takes this --- for the end of the frontmatter. Use another dash.", line)
    elif not opening.endswith((b"---\n", b"---\r\n")):
        return UnreadableError("There are spaces after the opening ---. Remove them.", 1)
    elif peer is not Peer.TYPESCRIPT and closing.rstrip(b"\r\n") != b"---":
        line = part.FIRST_LINE + part.yaml.count(b"\n")
        return UnreadableError("There are spaces after the closing ---. Remove them.", line)
    return None


def _refused(fields: Fields, field: str, reason: str) -> UnreadableError:
    return UnreadableError(reason, fields.lines.get(field, 1))


def _check_fields(fields: Fields, which: Set[str]) -> None:
    for finding in field_findings(fields.values, fields.lines):
        if finding.kind in which and finding.rule != "F6":
            raise UnreadableError(f"{finding.message} {finding.fix or 'Rename the skill.'}", finding.line)


def _tolerating_blanks(fields: Fields, field: str) -> Fields:
    """The fields for a peer to which blanks are a text like others."""
    value = fields.values.get(field)
    stand_in = {field: "x" * len(value)} if isinstance(value, str) else {}
    return replace(fields, values=fields.values | stand_in)


def _check_dates(fields: Fields) -> None:
    metadata = fields.values.get("metadata")
    inner = metadata.values() if isinstance(metadata, dict) else ()
    for field, value in (*fields.values.items(), *(("metadata", each) for each in inner)):
        if field in _KNOWN_FIELDS and isinstance(value, date):
            raise _refused(fields, field, f"It reads the date in {field} as a date, not as text. Quote it.")


def _check_directory(folder: SkillFolder, fields: Fields) -> None:
    name = fields.values.get("name")
    if not isinstance(name, str):
        _check_fields(fields, {"name"})
    if name != folder.name:
        raise _other_name(folder, fields, str(name))


def _other_name(folder: SkillFolder, fields: Fields, name: str) -> UnreadableError:
    shown = f'The name "{shorten(name)}" is not the name of the directory, "{shorten(folder.name)}"'
    return _refused(fields, "name", f"{shown}. Rename one of the two.")


def _unicode_name_problem(name: str) -> str | None:
    """Why a peer that takes letters of all scripts would not take this name, as the end of a sentence."""
    if not 1 <= len(name) <= MAX_NAME:
        return f"does not have 1 to {MAX_NAME} characters"
    if name != name.lower():
        return "is not in lowercase"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        return "has a hyphen at an end, or two in a row"
    if not all(each.isalnum() or each == "-" for each in name):
        return "has something else in it than letters, digits and hyphens"
    return None


def _check_kinds(folder: SkillFolder) -> None:
    for finding in folder.findings:
        if finding.kind == "link":
            raise UnreadableError(f'It publishes no skill with a link in it: "{finding.file}". Put a copy there.')
        if finding.kind == "special-file":
            raise UnreadableError(f'It publishes no skill with a FIFO or a device in it: "{finding.file}". Remove it.')


def _check_limits(folder: SkillFolder) -> None:
    hidden = sum(each.kind == "left-out" and not each.file.endswith("/") for each in folder.findings)
    if problem := LIMITS.problem(folder.file_count + hidden, folder.size):
        raise UnreadableError(f"{problem[0].upper()}{problem[1:]}. Split the skill, or move large files elsewhere.")
