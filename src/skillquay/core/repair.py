"""Repairs that do not change what an author meant: quotes round a value, a stray mark, spaces after `---` (F5).

The lenient reading applies the first of them in memory and says so; `lint --fix` writes all of them to the file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.events import CollectionEndEvent, CollectionStartEvent, MappingStartEvent, ScalarEvent

from skillquay.core.frontmatter import Cut, cut, parse_frontmatter
from skillquay.core.yaml_json import Mapped, as_text, core_schema, read_mapping, yaml_1_1
from skillquay.errors import FrontmatterError, YamlSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Repaired", "quote_broken_values", "rename", "repair"]

_BOM = b"\xef\xbb\xbf"
_STRING_FIELDS = frozenset({"name", "description", "license", "compatibility", "allowed-tools"})
_PROSE_FIELDS = frozenset({"description", "compatibility", "license"})

_FIELD = re.compile(r"(?P<head> *(?P<key>[A-Za-z0-9_][A-Za-z0-9_.-]*):[ \t]+)(?P<value>[^\s\"'\[{|>#].*)")
_NAME_LINE = re.compile(
    rb"(?m)^name:[ \t]+[^\s#|>&*!\"'][^\r\n#]*(?<![ \t\r])|^name:[ \t]+(?:\"[^\"\\\r\n]*\"|'[^'\r\n]*')"
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_COMMENT = re.compile(r"(?<![ \t])[ \t]+#[ \t].*")
_BREAKS = re.compile(r":(?:[ \t]|$)")
_CANNOT_START = "*&!%@`"
_MOST_REPAIRS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """Bytes after repair, and each step of it with its line: "quote a value that is meant as text"."""

    data: bytes
    steps: tuple[tuple[int, str], ...]


def repair(data: bytes) -> Repaired:
    """Every safe repair of a `SKILL.md`. What the fields say, read as text, is the same before and after."""
    steps: list[tuple[int, str]] = []
    if data.startswith(_BOM):
        while data.startswith(_BOM):
            data = data.removeprefix(_BOM)
        steps.append((1, "remove the byte order mark"))
    try:
        part = cut(data)
    except FrontmatterError:
        return Repaired(data=data, steps=tuple(steps))
    yaml, lines = quote_broken_values(part.yaml)
    steps.extend((line, "quote a value that YAML cannot read as it stands") for line in lines)
    if (said := _as_text(yaml)) is not None:
        quoted, lines = _quote_typed_values(yaml)
        if lines and _as_text(quoted) == said:
            yaml = quoted
            steps.extend((line, "quote a value that is meant as text") for line in lines)
    closing = data[part.yaml_start + len(part.yaml) : part.body_start]
    if (bare := re.sub(rb"[ \t]+", b"", closing)) != closing:
        line = Cut.FIRST_LINE + part.yaml.count(b"\n")
        steps.append((line, 'remove spaces after the closing "---"'))
        closing = bare
    return Repaired(data=data[: part.yaml_start] + yaml + closing + data[part.body_start :], steps=tuple(steps))


def quote_broken_values(yaml: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Quote the values that YAML cannot read: a colon in them, or a first character it reserves (F5).

    Only where libyaml itself stops, and only as often as `_MOST_REPAIRS`; when that does not make the whole readable,
    or when what is wrong is not the syntax, nothing is changed. A value that goes on over indented lines is quoted as
    a whole, since quoted lines fold as plain ones do. The lines given back are those of the file.
    """
    lines: list[str] = _LINE.findall(yaml.decode("utf-8"))
    repaired: list[int] = []
    current = yaml
    while (broken := _broken_line(current)) is not None:
        owner = _owner(lines, broken)
        if owner is None or owner in repaired or len(repaired) == _MOST_REPAIRS:
            return yaml, ()
        _quote(lines, owner)
        repaired.append(owner)
        current = "".join(lines).encode("utf-8")
    return current, tuple(Cut.FIRST_LINE + index for index in repaired)


def _broken_line(yaml: bytes) -> int | None:
    try:
        read_mapping(yaml, as_text, first_line=0, lenient=True)
    except YamlSyntaxError as error:
        return error.line
    except FrontmatterError:
        pass  # not a matter of syntax
    return None


def _owner(lines: list[str], broken: int) -> int | None:
    """The line of the key whose value quotes would make readable, if the line that broke belongs to one."""
    if broken >= len(lines):
        return None
    found = _FIELD.fullmatch(lines[broken].rstrip())
    if found and (found["value"][0] in _CANNOT_START or _BREAKS.search(_COMMENT.sub("", found["value"]))):
        return None if _has_comment(lines, broken) else broken
    # "metadata: x" over "  author: y" may mean anything; a sentence over several lines can only be a sentence.
    above = broken - 1
    while above >= 0 and (not lines[above].strip() or _indent(lines[above]) >= _indent(lines[broken])):
        above -= 1
    found = _FIELD.fullmatch(lines[above].rstrip()) if above >= 0 else None
    is_sentence = found is not None and found["key"] in _PROSE_FIELDS and not _has_comment(lines, above)
    return above if is_sentence else None


def _has_comment(lines: list[str], index: int) -> bool:
    """True when a comment has a line of its own within the value: as a part of the text it would be published."""
    return any(line.lstrip().startswith("#") for line in lines[index + 1 : _end_of_value(lines, index)])


def rename(data: bytes, name: str) -> bytes:
    """The same `SKILL.md` with this name; unchanged when that cannot be done in the one line the name stands on."""
    part = cut(data)
    end = part.yaml_start + len(part.yaml)
    renamed = _NAME_LINE.sub(lambda _: b"name: " + json.dumps(name, ensure_ascii=False).encode(), part.yaml)
    changed = data[: part.yaml_start] + renamed + data[end:]
    try:
        before, after = dict(parse_frontmatter(data).fields), dict(parse_frontmatter(changed).fields)
    except FrontmatterError:
        return data
    return changed if after == before | {"name": name} else data


def _end_of_value(lines: list[str], index: int) -> int:
    """The first line after the value that begins on this one: not blank, and not indented further than its key."""
    indent = _indent(lines[index])
    end = last = index + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
        if lines[end - 1].strip():
            last = end
    return last


def _quote(lines: list[str], start: int) -> None:
    end = _end_of_value(lines, start)
    found = _FIELD.fullmatch(lines[start].rstrip())
    assert found is not None
    comment = ""
    value = found["value"]
    if end == start + 1 and (commented := _COMMENT.search(value)):
        value, comment = value[: commented.start()], commented[0]
    ending = lines[start][len(lines[start].rstrip()) :]
    lines[start] = f"{found['head']}'{value.replace(chr(39), chr(39) * 2)}{comment and chr(39) + comment}{ending}"
    if comment:
        return
    for index in range(start + 1, end):
        lines[index] = lines[index].replace("'", "''")
    last = lines[end - 1]
    text = last.rstrip()
    lines[end - 1] = f"{text}'{last[len(text) :]}"


def _quote_typed_values(yaml: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Quote plain numbers, dates and booleans where the format wants text: string fields and metadata values (F3)."""
    text = yaml.decode("utf-8")
    pieces: list[str] = []
    lines: list[int] = []
    position = 0
    for event in _values_meant_as_text(yaml):
        if event.start_mark.line == event.end_mark.line and event.value:
            pieces += [text[position : event.start_mark.index], json.dumps(event.value, ensure_ascii=False)]
            position = event.end_mark.index
            lines.append(Cut.FIRST_LINE + event.start_mark.line)
    return ("".join(pieces) + text[position:]).encode("utf-8"), tuple(lines)


def _values_meant_as_text(yaml: bytes) -> Iterator[Any]:
    """The plain scalars that are values of string fields or metadata, and that some reader does not take for text."""
    get_event = CParser(yaml).get_event
    around: list[str | None] = []  # for each collection we are inside of: the key it is the value of
    keys: list[str | None] = []  # for each mapping among them: the key whose value comes next
    in_mapping: list[bool] = []
    while (event := get_event()) is not None:
        if isinstance(event, CollectionStartEvent):
            around.append(keys[-1] if keys else None)
            in_mapping.append(isinstance(event, MappingStartEvent))
            keys.append(None)
        elif isinstance(event, CollectionEndEvent):
            around.pop()
            in_mapping.pop()
            keys.pop()
            if keys:
                keys[-1] = None
        elif isinstance(event, ScalarEvent) and in_mapping and in_mapping[-1]:
            if keys[-1] is None:
                keys[-1] = event.value
                continue
            wanted = keys[-1] in _STRING_FIELDS if len(around) == 1 else around[1:] == ["metadata"]
            keys[-1] = None
            if wanted and event.implicit[0] and event.tag is None and not _reads_as_text(event.value):
                yield event


def _reads_as_text(value: str) -> bool:
    """True when every standard reading takes this plain scalar for text, or for nothing at all."""
    try:
        return core_schema(value) is None or (isinstance(core_schema(value), str) and isinstance(yaml_1_1(value), str))
    except ValueError:
        return False


def _as_text(yaml: bytes) -> Mapped | None:
    try:
        return read_mapping(yaml, as_text, lenient=True)
    except FrontmatterError:
        return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
