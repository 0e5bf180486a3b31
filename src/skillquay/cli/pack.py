"""`skillquay pack` and `skillquay unpack`: a skill's directory as one file, and back (I3, I4, I12)."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.archives.budgets import BUDGET
from skillquay.archives.formats import ArchiveFormat, format_named
from skillquay.archives.packing import PackedFile, pack
from skillquay.archives.unpacking import unpack_into
from skillquay.cli.messages import fail, human_size, path_problem, plural
from skillquay.cli.output import Screen
from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS
from skillquay.core.findings import Finding, Level
from skillquay.core.frontmatter import parse_frontmatter
from skillquay.core.hidden import shorten, visible
from skillquay.core.paths import split_nested
from skillquay.core.uris import SKILL_MD
from skillquay.errors import ArchiveError, FrontmatterError
from skillquay.sources.directory import Reading, SkippedPath, publish_tree

if TYPE_CHECKING:
    from skillquay.core.folders import SkillFolder

__all__ = ["run_pack", "run_unpack"]

_SUFFIXES = " or ".join(each.suffix for each in ArchiveFormat)


def run_pack(path: str, output: str | None, *, as_json: bool) -> int:
    """Pack one skill; 1 when it cannot be published, or not be packed so that everybody could unpack it."""
    if problem := path_problem(path):
        return fail(problem)
    directory = os.path.normpath(os.path.dirname(path) if os.path.isfile(path) else path)
    if not os.path.isfile(os.path.join(directory, SKILL_MD)):
        return fail(f'there is no SKILL.md in "{path}". Give the directory of one skill.')
    read = _read_skill(directory)
    if read.folder is None:
        return _refuse(path, read.errors, as_json=as_json)
    output = output or read.folder.name + ArchiveFormat.TAR_GZ.suffix
    archive_format = format_named(output)
    if archive_format is None:
        return fail(f'"{output}" does not say which format is meant. Give a name that ends in {_SUFFIXES}.')
    if _is_inside(output, directory):
        return fail("the archive would lie in the skill, and so be part of it. Give another place with -o.")
    paths, nested = split_nested(read.folder.paths)
    files = read.files()
    try:
        data = pack({each: files[each] for each in paths}, archive_format)
        _write(output, data)
    except ArchiveError as error:
        message = f"{error.message} Rename it."
        refusal = Finding(rule=error.rule, level=Level.ERROR, kind="not-packed", message=message, file=".")
        return _refuse(path, [refusal], as_json=as_json)
    except FileExistsError as error:
        return fail(f'"{error.filename}" is in the way. Remove it, unless somebody is packing there at this moment.')
    except OSError as error:
        return fail(f'"{output}" cannot be written: {error.strerror}.')
    digest = Digest.of(data)
    left_out = dict.fromkeys(nested, "A skill of its own. Pack it by itself.") | _not_read(read.folder, nested)
    if as_json:
        told = [{"path": each, "reason": reason} for each, reason in left_out.items()]
        _write_json(
            file=output, format=archive_format, size=len(data), digest=digest, files=paths, left_out=told, errors=[]
        )
        return 0
    screen = Screen()
    screen.line(f"{visible(output)}: {plural(len(paths), 'file')}, {human_size(len(data))}, {digest}")
    for each, reason in left_out.items():
        screen.line(f"Left out: {visible(each)}: {visible(reason)}")
    return 0


def _not_read(folder: SkillFolder, nested: list[str]) -> dict[str, str]:
    """What an author may take for a part of the skill and is none, such as a link out of it; and why."""
    inner = tuple(f"{each}/" for each in nested)
    return {
        each.file: f"{each.message} {each.fix}"
        for each in folder.findings
        if each.level is Level.WARNING and not each.file.startswith(inner)
    }


@dataclass(slots=True, kw_only=True)
class _Read:
    """What was read of one skill's directory; no folder when errors keep it from being published."""

    folder: SkillFolder | None = None
    errors: list[Finding] = field(default_factory=list)
    data: dict[Digest, bytes] = field(default_factory=dict)
    size: int = 0

    def keep(self, digest: Digest, data: bytes) -> None:
        """Keep a file's bytes, as long as they could all be in one skill."""
        self.size += len(data)
        if self.size <= LIMITS.size:
            self.data[digest] = data

    def files(self) -> dict[str, PackedFile]:
        """All files of the skill by their paths."""
        assert self.folder is not None
        executable = set(self.folder.executable)
        return {
            path: PackedFile(self.data[record.digest], path in executable)
            for path, record in zip(self.folder.paths, self.folder.files, strict=True)
        }


def _read_skill(directory: str) -> _Read:
    """Read a skill as it would be served: the same files, the same limits."""
    read = _Read()
    for item in publish_tree(directory, reading=Reading(keep=read.keep)):
        if isinstance(item, SkippedPath):
            read.errors += [item.finding] if item.location == directory else []
        elif item.folder.location == directory:
            read.errors += [finding for finding in item.findings if finding.level is Level.ERROR]
            read.folder = item.folder if item.entry is not None else None
    return read


def _refuse(path: str, errors: list[Finding], *, as_json: bool) -> int:
    if as_json:
        told = [{"file": each.file, "line": each.line, "rule": each.rule, "reason": each.message} for each in errors]
        _write_json(file=None, format=None, size=None, digest=None, files=[], left_out=[], errors=told)
        return 1
    screen = Screen(stderr=True)
    screen.line(f'skillquay: "{visible(path)}" cannot be packed:')
    for each in errors:
        place = each.file + (f":{each.line}" if each.line else "")
        screen.line(f"  {visible(place)}  {each.rule}  {visible(each.message)}")
    screen.line(f'See all findings with "skillquay lint {visible(path)}".')
    return 1


def _is_inside(path: str, directory: str) -> bool:
    around = os.path.join(os.path.realpath(os.path.dirname(path)), "")
    return around.startswith(os.path.join(os.path.realpath(directory), ""))


def _write(path: str, data: bytes) -> None:
    """Put the archive in place at once."""
    place, name = os.path.split(os.path.realpath(path))
    temporary = os.path.join(place, f".skillquay-{os.getpid()}-{name}")
    file = open(temporary, "xb")  # noqa: SIM115 - what somebody else put there is not ours to remove
    try:
        with file:
            file.write(data)
        os.replace(temporary, os.path.join(place, name))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def run_unpack(path: str, directory: str | None, *, digest: str | None, as_json: bool) -> int:
    """Unpack a skill into a new directory; 1 when the archive is refused, or has another digest."""
    archive_format = format_named(path)
    if archive_format is None:
        return fail(f'"{path}" is not the name of an archive: it does not end in {_SUFFIXES}.')
    directory = directory or os.path.basename(path)[: -len(archive_format.suffix)]
    if not directory:
        return fail(f'"{path}" has no name that could be the directory\'s. Give one with -o.')
    try:
        expected = Digest(digest) if digest is not None else None
        with open(path, "rb") as file:
            data = file.read(BUDGET.packed_bytes + 1)
    except ValueError as error:
        return fail(f"{error}.")
    except OSError as error:
        return fail(f'"{path}" cannot be read: {error.strerror}.')
    found = Digest.of(data)
    try:
        if expected is not None and found != expected and len(data) <= BUDGET.packed_bytes:
            raise ArchiveError(f"It does not have the digest given: expected {expected}, got {found}.", rule="I13")
        paths = unpack_into(data, archive_format, directory)
    except ArchiveError as error:
        if as_json:
            errors = [{"rule": error.rule, "reason": error.message}]
            _write_json(directory=None, format=archive_format, digest=found, files=[], warnings=[], errors=errors)
        else:
            sys.stderr.write(f'skillquay: "{visible(path)}" is refused: {error.message} Nothing was unpacked.\n')
        return 1
    except FileExistsError:
        return fail(f'"{directory}" is there already. Give another directory with -o.')
    except OSError as error:
        return fail(f'"{directory}" cannot be written: {error.strerror}.')
    sizes = {each: os.path.getsize(os.path.join(directory, each)) for each in paths}
    warnings = [warning] if (warning := _name_warning(directory)) else []
    if as_json:
        files = [{"path": each, "size": size} for each, size in sizes.items()]
        _write_json(directory=directory, format=archive_format, digest=found, files=files, warnings=warnings, errors=[])
        return 0
    screen = Screen()
    screen.rows((Text(human_size(size).rjust(8)), Text(visible(each))) for each, size in sizes.items())
    screen.line(f"{visible(directory)}: {plural(len(sizes), 'file')}, {human_size(sum(sizes.values()))}, from {found}")
    for each in warnings:
        Screen(stderr=True).line(f"Warning: {visible(each)}")
    return 0


def _name_warning(directory: str) -> str | None:
    """Why hosts would not find the skill as it lies there, as far as its name goes (F2)."""
    named = os.path.basename(os.path.abspath(directory))
    try:
        with open(os.path.join(directory, SKILL_MD), "rb") as file:
            name = parse_frontmatter(file.read()).name
    except FrontmatterError as error:
        return f"Its SKILL.md cannot be read as a skill: {error.message}"
    if name == named:
        return None
    shown = shorten(name)
    return f'The directory is named "{shorten(named)}", the skill "{shown}". Hosts want one name: rename the directory.'


def _write_json(**members: object) -> None:
    sys.stdout.write(json.dumps(members, indent=2) + "\n")
