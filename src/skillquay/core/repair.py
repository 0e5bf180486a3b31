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

from skillquay.core.frontmatter import Cut, cut
from skillquay.core.yaml_json import as_text, core_schema, read_mapping, yaml_1_1
from skillquay.errors import FrontmatterError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Repaired", "quote_broken_values", "rename", "repair"]

STRING_FIELDS = frozenset({"name", "description", "license", "compatibility", "allowed-tools"})
_PROSE_FIELDS = frozenset({"description", "compatibility", "license"})

_FIELD = re.compile(r"(?P<head> *(?P<key>[A-Za-z0-9_][A-Za-z0-9_.-]*):[ \t]+)(?P<value>[^\s\"'\[{|>#].*)")
_BLOCK = re.compile(r" *(?:- +)*[A-Za-z0-9_][A-Za-z0-9_.-]*:[ \t]+[|>][-+0-9]*[ \t]*(?:#.*)?")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_COMMENT = re.compile(r"[ \t]+#[ \t].*")
_BREAKS = re.compile(r":(?:[ \t]|$)")
_CANNOT_START = "*&!%@`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """Bytes after repair, and each step of it with its line: "quote a value that is meant as text"."""

    data: bytes
    steps: tuple[tuple[int, str], ...]


def repair(data: bytes) -> Repaired:
    """Every safe repair of a `SKILL.md`. What the fields say, read as text, is the same before and after."""
    steps: list[tuple[int, str]] = []
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
        steps.append((1, "remove the byte order mark"))
    try:
        part = cut(data)
    except FrontmatterError:
        return Repaired(data=data, steps=tuple(steps))
    yaml = part.yaml
    is_readable = _is_readable(yaml)
    if not is_readable:
        quoted, lines = quote_broken_values(yaml)
        if is_readable := _is_readable(quoted):  # otherwise something else is wrong, and this may not be it
            yaml = quoted
            steps.extend((line, "quote a value that YAML cannot read as it stands") for line in lines)
    if is_readable:
        quoted, lines = _quote_typed_values(yaml)
        if lines and read_mapping(quoted, as_text, lenient=True) == read_mapping(yaml, as_text, lenient=True):
            yaml = quoted
            steps.extend((line, "quote a value that is meant as text") for line in lines)
    closing = data[part.yaml_start + len(part.yaml) : part.body_start]
    if (bare := re.sub(rb"[ \t]+", b"", closing)) != closing:
        line = Cut.FIRST_LINE + part.yaml.count(b"\n")
        steps.append((line, 'remove spaces after the closing "---"'))
        closing = bare
    return Repaired(data=data[: part.yaml_start] + yaml + closing + data[part.body_start :], steps=tuple(steps))


def quote_broken_values(yaml: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Quote values with a colon in them, or that begin with what YAML reserves; the lines are those of the file (F5).

    One pass over the lines. Text inside block scalars is left alone; a value that goes on over indented lines is quoted
    as a whole, since quoted lines fold as plain ones do.
    """
    lines = _LINE.findall(yaml.decode("utf-8"))
    repaired: list[int] = []
    index = 0
    while index < len(lines):
        if _BLOCK.fullmatch(lines[index].rstrip()):
            index = _end_of_value(lines, index)
            continue
        found = _FIELD.fullmatch(lines[index].rstrip())
        end = index + 1
        if found:
            end = _end_of_value(lines, index)
            if _needs_quotes(found, lines[index + 1 : end]):
                _quote(lines, index, end, found)
                repaired.append(Cut.FIRST_LINE + index)
        index = end
    return "".join(lines).encode("utf-8"), tuple(repaired)


def rename(data: bytes, name: str) -> bytes:
    """The same `SKILL.md` with this value in its `name` line; unchanged when the name does not stand on one line."""
    part = cut(data)
    renamed, count = re.subn(
        rb"(?m)^(name:[ \t]+)[^\s#|>&*!][^\r\n#]*?([ \t]*(?:#[^\r\n]*)?\r?)$",
        lambda match: match[1] + json.dumps(name, ensure_ascii=False).encode() + match[2],
        part.yaml,
    )
    end = part.yaml_start + len(part.yaml)
    return data[: part.yaml_start] + renamed + data[end:] if count == 1 else data


def _needs_quotes(found: re.Match[str], continuation: list[str]) -> bool:
    value = _COMMENT.sub("", found["value"])
    if value[0] in _CANNOT_START or _BREAKS.search(value):
        return True
    # "metadata: x" over "  author: y" may mean anything; a sentence over several lines can only be a sentence.
    return found["key"] in _PROSE_FIELDS and any(_BREAKS.search(line.rstrip()) for line in continuation)


def _end_of_value(lines: list[str], index: int) -> int:
    """The first line after the value that begins on this one: not blank, and not indented further than its key."""
    indent = _indent(lines[index])
    end = last = index + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
        if lines[end - 1].strip():
            last = end
    return last


def _quote(lines: list[str], start: int, end: int, found: re.Match[str]) -> None:
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
        elif isinstance(event, ScalarEvent) and in_mapping[-1]:
            if keys[-1] is None:
                keys[-1] = event.value
                continue
            wanted = keys[-1] in STRING_FIELDS if len(around) == 1 else around[1:] == ["metadata"]
            keys[-1] = None
            if wanted and event.implicit[0] and event.tag is None and not _reads_as_text(event.value):
                yield event


def _reads_as_text(value: str) -> bool:
    """True when every standard reading takes this plain scalar for text."""
    try:
        return isinstance(core_schema(value), str) and isinstance(yaml_1_1(value), str)
    except ValueError:
        return False


def _is_readable(yaml: bytes) -> bool:
    try:
        read_mapping(yaml, as_text, lenient=True)
    except FrontmatterError:
        return False
    return True


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
