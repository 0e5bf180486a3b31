"""`skillquay show`, `files` and `read`: let a person see all of a skill; it opens no window (A5, B4, R3)."""

from __future__ import annotations

import base64
import json
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from mcp_types import METHOD_NOT_FOUND

from skillquay.cli.hosting import Place, change_json, find_any, run_host, waiting, write_json
from skillquay.cli.messages import fail, human_size, plural
from skillquay.cli.output import Screen
from skillquay.cli.skills import skill_json
from skillquay.core.entries import DYNAMIC, Manifest
from skillquay.core.hidden import find_hidden, shorten, visible
from skillquay.core.questions import About
from skillquay.dialects.sep2076_entries import why_not_given
from skillquay.errors import UnavailableError, UnlistedFileError, UriError
from skillquay.host import local
from skillquay.host.directory import State
from skillquay.host.terminal import shown_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.host.directory import KnownSkill
    from skillquay.host.host import SkillHost
    from skillquay.host.local import LocalEntry

__all__ = ["run_files", "run_read", "run_show"]

_NEXT = {
    State.NEW: 'Read it with "skillquay read {name}", and approve it with "skillquay approve {name}".',
    State.CHANGED: 'See the change with "skillquay diff {name}", and approve it with "skillquay approve {name}".',
    State.DENIED: 'If you change your mind: "skillquay approve {name}".',
    State.DISABLED: 'Enable it with "skillquay enable {name}".',
}
_LONGEST_VALUE = 500


def run_show(place: Place, name: str) -> int:
    """Everything that is known of a skill without fetching it."""
    return run_host(place, partial(_show, place=place, name=name))


def run_files(place: Place, name: str) -> int:
    """The files of a skill."""
    return run_host(place, partial(_files, place=place, name=name))


def run_read(place: Place, name: str, path: str, *, raw: bool, margin: bool) -> int:
    """One file of a skill, verified where it is served; 1 when it is not what was listed."""
    if raw and place.as_json:
        return fail("--raw and --json exclude each other.")
    if raw and sys.stdout.isatty():
        return fail("--raw gives the bytes as they are, which could do anything to a terminal. Send them to a file.")
    return run_host(place, partial(_read, place=place, name=name, path=path, raw=raw, margin=margin))


async def _show(host: SkillHost, *, place: Place, name: str) -> int:
    skill = await find_any(host, name)
    if place.as_json:
        write_json(await _details(host, skill))
        return 0
    screen = Screen()
    if skill.local is not None:
        await _show_local(screen, skill, skill.local)
    else:
        # No answer is asked for, so none can be said not to grant the tools.
        for line in (await host.people.question(skill.name, About.TOOLS)).lines():
            screen.hanging(line, 16)
        screen.line(f"  state         {skill.state}")
    if skill.entry is not None and (reason := why_not_given(skill.entry)):
        screen.line(f"It cannot be loaded here. {reason}")
    elif skill.state in _NEXT:
        screen.line(_NEXT[skill.state].format(name=skill.name))
    return 0


async def _show_local(screen: Screen, skill: KnownSkill, entry: LocalEntry) -> None:
    screen.line(f"{visible(skill.name)} is a skill on your own disk.")
    screen.line(f"  from          {skill.origin}: {visible(entry.location)}")
    for field, value in entry.frontmatter.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        screen.hanging(f"  {visible(field):<12}  {shorten(shown, _LONGEST_VALUE)}", 16)
    screen.line(f"  state         {skill.state}")
    files = await to_thread.run_sync(local.list_files, entry)
    screen.line(f"  files         {len(files):,}")
    for path in files:
        screen.line(f"    {visible(path)}")


async def _details(host: SkillHost, skill: KnownSkill) -> dict[str, Any]:
    details = skill_json(skill)
    if skill.local is not None:
        paths = await to_thread.run_sync(local.list_files, skill.local)
        return {
            **details,
            "frontmatter": dict(skill.local.frontmatter),
            "files": [{"path": path, "size": None, "digest": None} for path in paths],
            "change": None,
        }
    question = await host.people.question(skill.name)
    entry = question.entry
    files: object = DYNAMIC
    if isinstance(entry.resources, Manifest):
        files = [
            {"path": entry.root.relative(file.uri), "size": file.size, "digest": str(file.digest)}
            for file in entry.resources.files
        ]
    return {
        **details,
        "configured_in": question.skill.server.scope,
        "frontmatter": dict(entry.frontmatter),
        "files": files,
        "change": None if question.change is None else change_json(question.change),
    }


async def _files(host: SkillHost, *, place: Place, name: str) -> int:
    skill = await find_any(host, name)
    try:
        with waiting("Asking for the files"):
            files = await host.people.files(skill.name)
    except UnavailableError as error:
        if error.rule != "C4" and error.code != METHOD_NOT_FOUND:
            raise
        return _tell_unlisted(skill, as_json=place.as_json)
    if place.as_json:
        write_json({"name": skill.name, "files": [{"path": path, "size": size} for path, size in files]})
        return 0
    screen = Screen()
    for path, size in files:
        screen.line("" if size is None else f"{human_size(size):>8}  ", visible(path))
    screen.line(f"{plural(len(files), 'file')}.")
    return 0


def _tell_unlisted(skill: KnownSkill, *, as_json: bool) -> int:
    """Nobody knows the files of such a skill but its instructions (D4)."""
    if as_json:
        write_json({"name": skill.name, "files": None})
    else:
        command = f'"skillquay read {visible(skill.name)} PATH"'
        Screen().line(f"Its server does not list its files. Read one that the instructions name with {command}.")
    return 0


async def _read(host: SkillHost, *, place: Place, name: str, path: str, raw: bool, margin: bool) -> int:
    skill = await find_any(host, name)
    data, note = b"", ""
    if skill.local is not None:
        if raw:
            return fail(f'the skill "{skill.name}" is on your own disk. Read its file in {skill.local.location}.')
        with _naming_files(skill, path):
            file = await to_thread.run_sync(local.read_file, skill.local, path)
        data = file.text.encode("utf-8", "surrogatepass")
        if file.shortened:
            note = f"Only the beginning of {file.size:,} bytes is shown."
    else:
        with waiting("Reading"), _naming_files(skill, path):
            data = await host.people.content(skill.name, path)
    if raw:
        sys.stdout.buffer.write(data)
    elif place.as_json:
        write_json({"name": skill.name, "path": path, "size": len(data), **_content(data)})
    else:
        text = data.decode("utf-8", "backslashreplace")
        with_margin = margin or sys.stdout.isatty()
        text = text.removesuffix("\n")
        lines = shown_content(text) if with_margin else (line[4:] for line in shown_content(text) if line[0] != "!")
        screen = Screen()
        for line in lines:
            screen.hanging(line, 4)
    if note:
        sys.stderr.write(f"skillquay: {note}\n")
    return 0


@contextmanager
def _naming_files(skill: KnownSkill, path: str) -> Iterator[None]:
    """Tell who asks for a file that the skill does not have how to see those it has."""
    try:
        yield
    except (UnlistedFileError, UriError) as error:
        if error.rule not in {"I14", "U5", "V1"}:
            raise
        raise UriError(
            f'"{shorten(path)}" is not a file of the skill "{skill.name}". See its files with "skillquay files '
            f'{skill.name}".',
            rule=error.rule,
        ) from None


def _content(data: bytes) -> dict[str, object]:
    """Text where the bytes are UTF-8, with what it hides; otherwise the bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
    return {"text": text, "hidden": [{"line": each.line, "kind": each.kind} for each in find_hidden(text)]}
