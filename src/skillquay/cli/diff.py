"""`skillquay diff`: a served skill as it was last answered, and as its server publishes it now (A2)."""

from __future__ import annotations

import difflib
import json
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.cli.hosting import Place, change_json, exact_time, find, run_host, short_time, waiting, write_json
from skillquay.cli.messages import fail, human_size
from skillquay.cli.output import Screen
from skillquay.core.approvals import Answer
from skillquay.core.entries import Manifest
from skillquay.core.hidden import find_hidden, shorten, visible
from skillquay.core.uris import SkillUri
from skillquay.errors import SkillquayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.changes import ManifestChange
    from skillquay.core.drafts import Archive
    from skillquay.core.entries import SkillEntry
    from skillquay.host.host import SkillHost
    from skillquay.host.people import Difference

__all__ = ["run"]

_LONGEST_VALUE = 2000
_MOST_LINES = 4000  # of a file: comparing takes time that grows with their square
_MOST_BYTES = 512 * 1024
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_WORDS = {Answer.ALLOW: "approved", Answer.DENY: "denied"}
_ABSENT = object()


def run(place: Place, name: str, *, content: bool) -> int:
    """Compare; 0 when nothing changed, 1 when something did, 2 when there is nothing to compare with."""
    return run_host(place, partial(_diff, place=place, name=name, content=content))


async def _diff(host: SkillHost, *, place: Place, name: str, content: bool) -> int:
    skill = find(host, name)
    if skill.entry is None:
        return fail(f'"{skill.name}" is on your own disk: it needs no answer, so there is nothing to compare it with.')
    with waiting("Comparing"):
        difference = await host.people.difference(skill.name)
    if difference is None:
        return fail(
            f'"{skill.name}" was never approved or denied, so there is nothing to compare it with. See it with '
            f'"skillquay show {skill.name}".'
        )
    contents: dict[str, list[str]] = {}
    if content and not difference.not_compared:
        with waiting("Reading"):
            for uri in (*difference.change.rewritten, *difference.change.added):
                contents[uri] = await _compared(host, difference, SkillUri(uri))
    if place.as_json:
        write_json(_document(skill.name, difference, contents if content else None))
    else:
        _show(Screen(), skill.name, difference, contents)
    return 1 if difference.is_changed else 0


def _show(screen: Screen, name: str, difference: Difference, contents: dict[str, list[str]]) -> None:
    then, now = difference.then, difference.now
    answered = f"{_WORDS[then.approval.answer]} {short_time(then.at)}"
    screen.line((visible(then.approval.skill.server.label), ""), ": ", (visible(now.uri), "bold"), f", {answered}")
    if not difference.is_changed:
        screen.line("  Nothing changed since.")
        return
    for sentence in _sentences(difference):
        screen.hanging(f"  {visible(sentence)}", 2)
    archives = _archives(difference)
    if difference.not_compared or not _has_moved(difference.change):
        packed = {"archive then": archives.get("old"), "archive now": archives.get("new")}
        screen.rows(
            (Text(word), Text(visible(archive.url)), Text(archive.digest or "without a digest"))
            for word, archive in packed.items()
            if archive is not None
        )
    if not difference.not_compared:
        _show_moved(screen, difference)
    _show_fields(screen, difference)
    for uri, lines in contents.items():
        screen.line("")
        screen.line((visible(_path(now, uri)), "bold"))
        for line in lines:
            screen.hanging(line, 2, _STYLES.get(line[:1], ""))
    if difference.then.ended is not None:
        screen.line(f'It is not loaded until you approve it again: "skillquay approve {name}".')


def _sentences(difference: Difference) -> Iterator[str]:
    """What is to be said of the whole, before its parts."""
    before, now = difference.before, difference.now
    if before is not None and before.dialect is not now.dialect:
        yield f"It was served as {before.dialect}, and is now served as {now.dialect}."
    if difference.change.became_dynamic and now.draft is None:
        yield "It has no list of files any more: its content is generated now, and nothing can verify it."
    elif difference.change.became_dynamic:
        yield f"It is not covered whole any more: {now.assurance}."
    if difference.not_compared:
        yield f"Which of its files changed cannot be told. {difference.not_compared}"
    elif _archives(difference) and not _has_moved(difference.change):
        yield "Every file is the same."


def _show_moved(screen: Screen, difference: Difference) -> None:
    change, now = difference.change, difference.now
    rows: list[tuple[Text, ...]] = []
    for word, style, uris in (
        ("added", "green", change.added),
        ("removed", "red", change.removed),
        ("rewritten", "yellow", change.rewritten),
    ):
        rows += [(Text(word, style), Text(visible(_path(now, uri))), Text(_sizes(difference, uri))) for uri in uris]
    screen.rows(rows)


def _show_fields(screen: Screen, difference: Difference) -> None:
    fields = _fields(difference)
    if difference.change.frontmatter_changed and fields is None:
        screen.line("  Its frontmatter is another; what it was cannot be read any more.")
    elif fields:
        screen.line("  What it says of itself:")
        for field, (old, new) in fields.items():
            screen.line(f"    {visible(field)}")
            screen.hanging("      - " + _value(old), 8, "red")
            screen.hanging("      + " + _value(new), 8, "green")


def _document(name: str, difference: Difference, contents: dict[str, list[str]] | None) -> dict[str, object]:
    then = difference.then
    fields = _fields(difference)
    document: dict[str, object] = {
        "name": name,
        "server": then.approval.skill.server.label,
        "uri": str(difference.now.uri),
        "answer": then.approval.answer.value,
        "answered": exact_time(then.at),
        "ended": exact_time(then.ended),
        "changed": difference.is_changed,
        "change": change_json(difference.change),
        "not_compared": difference.not_compared or None,
        "archives": {
            side: {"url": str(archive.url), "digest": archive.digest} for side, archive in _archives(difference).items()
        },
        "frontmatter": None
        if fields is None
        else {
            field: {side: value for side, value in (("old", old), ("new", new)) if value is not _ABSENT}
            for field, (old, new) in fields.items()
        },
    }
    return document if contents is None else {**document, "content": contents}


def _has_moved(change: ManifestChange) -> bool:
    return bool(change.added or change.removed or change.rewritten)


def _archives(difference: Difference) -> dict[str, Archive]:
    """The archives that the skill came in and comes in, where they are not the same."""
    sides = {"old": difference.before, "new": difference.now}
    found = {
        side: entry.draft.archive
        for side, entry in sides.items()
        if entry is not None and entry.draft is not None and entry.draft.archive is not None
    }
    return {} if found.get("old") == found.get("new") else found


def _fields(difference: Difference) -> dict[str, tuple[object, object]] | None:
    """The frontmatter fields that differ, each with the old value and the new; None when the old ones are lost."""
    if difference.before is None:
        return None
    old, new = difference.before.frontmatter, difference.now.frontmatter
    pairs = {field: (old.get(field, _ABSENT), new.get(field, _ABSENT)) for field in (*old, *new)}
    return {field: pair for field, pair in pairs.items() if _exact(pair[0]) != _exact(pair[1])}


def _exact(value: object) -> str:
    """A value as JSON writes it: there, 1 is not true."""
    return "" if value is _ABSENT else json.dumps(value, sort_keys=True)


def _value(value: object) -> str:
    return "(not there)" if value is _ABSENT else shorten(json.dumps(value, ensure_ascii=False), _LONGEST_VALUE)


def _path(entry: SkillEntry, uri: str) -> str:
    place = SkillUri(uri)
    return entry.root.relative(place) if entry.root.contains(place) else uri


def _sizes(difference: Difference, uri: str) -> str:
    """The size of a file before and after, as far as it was there."""
    entries = (difference.before, difference.now)
    records = [
        entry.resources.find(SkillUri(uri))
        for entry in entries
        if entry is not None and isinstance(entry.resources, Manifest)
    ]
    return " → ".join(human_size(record.size) for record in records if record is not None)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else [*lines, "(no line break at the end)"]


async def _compared(host: SkillHost, difference: Difference, uri: SkillUri) -> list[str]:
    """The lines of a unified diff, or a sentence that says why there is none. Every line is safe to print (B4)."""
    try:
        sides = await host.people.compared(difference, uri)
    except SkillquayError as error:
        return [f"  {visible(error.message)}"]
    if sides is None:
        return ["  What it was is not in the cache: it was never read, or was removed since."]
    old, new = sides
    if max(len(old), len(new)) > _MOST_BYTES or max(old.count(b"\n"), new.count(b"\n")) > _MOST_LINES:
        return ["  It is too large to be compared line by line."]
    try:
        before, after = old.decode("utf-8"), new.decode("utf-8")
    except UnicodeDecodeError:
        return ["  It is not text."]
    hidden = [f"  ! line {each.line} of the new file: {each.kind}" for each in find_hidden(after)]
    lines = difflib.unified_diff(_lines(before), _lines(after), "then", "now", lineterm="")
    return hidden + [visible(line.replace("\t", "→   ")) for line in lines]
