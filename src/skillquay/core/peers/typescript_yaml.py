"""Frontmatter as the TypeScript SDK reads it: line by line, with a reader of its own that takes a part of YAML 1.2.

The part is block mappings and lists, plain and block scalars, comments, and what can stand within one line. The reader
also lets pass some text that is no YAML, such as control characters; so libyaml cannot tell what it reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from skillquay.core.peers.nodes import Fields
from skillquay.core.peers.typescript_inline import (
    BLANK,
    MAX_DEPTH,
    add_once,
    check_key,
    end_of_value,
    plain_part,
    read_flow,
    read_quoted,
    stop,
    typed,
    typed_key,
)

__all__ = ["read_lines"]

_ITEM = re.compile(r"-(?![^ \t])")
_ITEM_OR_KEY = re.compile(r"[-?](?![^ \t])")
_KEY_END = re.compile(r"[ \t]#|:(?![^ \t])")
_NO_KEY = frozenset("[]{}&*!|>%@`#,")
_BLOCK_HEADER = re.compile(r"([>|])([+-]?)(?:[ \t]+#[^\n\r\u2028\u2029]*)?[ \t]*")
_TABS = ("It does not read tabs as indentation", "Indent with spaces")
_NO_FIELD = ("It expects a field and its value here", "Write it as key: value")
_UNEVEN = ("This line is indented more than the one it goes with", "Indent them alike")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line: `indent` counts its leading spaces, `text` is what is left without leading blanks."""

    number: int
    indent: int
    text: str
    raw: str

    @property
    def is_item(self) -> bool:
        return _ITEM.match(self.text) is not None

    @property
    def is_tabbed(self) -> bool:
        return self.raw.startswith("\t", self.indent)


def read_lines(yaml: str, *, first_line: int = 2) -> Fields:
    """The fields in this YAML, whose lines all end with a newline; an `UnreadableError` is where the reader stops."""
    raws = yaml.removesuffix("\n").split("\n") if yaml else []
    lines = [
        _Line(number, len(raw) - len(raw.lstrip(" ")), raw.lstrip(BLANK), raw)
        for number, raw in enumerate(raws, first_line)
    ]
    return _LineReader(lines).read()


class _LineReader:
    """One pass over the lines, with a method for each production of that reader's grammar."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._at = 0
        self._field_lines: dict[str, int] = {}

    def read(self) -> Fields:
        first = self._peek()
        if first is None:
            return Fields(values={}, lines={})
        if first.text[0] == "\ufeff" or first.is_item:
            raise stop(first.number, *_NO_FIELD)
        fields = self._mapping(first.indent, 0)
        if extra := self._peek():
            raise stop(extra.number, *_NO_FIELD)
        return Fields(values=fields, lines=self._field_lines)

    def _peek(self) -> _Line | None:
        """The next line with something on it."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text and line.text[0] != "#":
                if line.is_tabbed:
                    raise stop(line.number, *_TABS)
                return line
            self._at += 1
        return None

    def _mapping(self, indent: int, depth: int) -> dict[str, object]:
        self._check_depth(depth)
        mapping: dict[str, object] = {}
        while (line := self._peek()) and line.indent >= indent and not (line.indent == indent and line.is_item):
            if line.indent > indent:
                raise stop(line.number, *_UNEVEN)
            found = _key(line.text, line.number)
            if found is None:
                raise stop(line.number, *_NO_FIELD)
            key, rest = found
            add_once(mapping, key, line.number)
            if depth == 0:
                self._field_lines[key] = line.number
            self._at += 1
            mapping[key] = self._value(rest, line.number, indent, depth + 1, in_mapping=True)
        return mapping

    def _list(self, indent: int, depth: int) -> list[object]:
        self._check_depth(depth)
        items: list[object] = []
        while (line := self._peek()) and line.indent >= indent and (line.indent > indent or line.is_item):
            if line.indent > indent:
                raise stop(line.number, *_UNEVEN)
            after = line.text[1:]
            rest = after.lstrip(BLANK)
            if rest and rest[0] != "#" and (_ITEM.match(rest) or _key(rest, line.number)):
                if "\t" in after[: len(after) - len(rest)]:
                    raise stop(line.number, *_TABS)
                # What follows "- " is a line of its own that begins further right.
                column = line.indent + 1 + len(after) - len(rest)
                self._lines[self._at] = replace(line, indent=column, text=rest)
                items.append((self._list if _ITEM.match(rest) else self._mapping)(column, depth + 1))
            else:
                self._at += 1
                items.append(self._value(rest, line.number, indent, depth + 1, in_mapping=False))
        return items

    def _value(self, rest: str, number: int, indent: int, depth: int, *, in_mapping: bool) -> object:
        """What stands after a key or a dash whose own line is indented by `indent`."""
        if not rest or rest[0] == "#":
            return self._value_below(indent, depth, in_mapping=in_mapping)
        if rest[0] in "|>":
            return self._block_scalar(rest, number, indent)
        if rest[0] in "\"'[{":
            is_quoted = rest[0] in "\"'"
            value, end = read_quoted(rest, 0, number) if is_quoted else read_flow(rest, 0, number, depth)
            end_of_value(rest, end, number)
            return value
        if rest[0] in "&*!":
            raise stop(number, "It does not read anchors, aliases and tags", "Write the value out, or quote it")
        if rest[0] in "%@`,]}" or _ITEM_OR_KEY.match(rest):
            raise stop(number, f'A value cannot begin with "{rest[0]}"', "Quote it")
        return self._plain(rest, number, indent)

    def _value_below(self, indent: int, depth: int, *, in_mapping: bool) -> object:
        line = self._peek()
        if line is None or line.indent < indent or (line.indent == indent and not (in_mapping and line.is_item)):
            return None
        if line.is_item:
            return self._list(line.indent, depth)
        if _key(line.text, line.number):
            return self._mapping(line.indent, depth)
        self._at += 1
        return self._value(line.text, line.number, indent, depth, in_mapping=False)

    def _plain(self, first: str, number: int, indent: int) -> object:
        part, is_commented = plain_part(first, number)
        parts = [part]
        blanks = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text:
                if line.indent <= indent or line.text[0] == "#":
                    break
                if line.is_tabbed:
                    raise stop(line.number, *_TABS)
                if is_commented:
                    raise stop(line.number, "The value goes on after a comment", "Quote it, or move the comment")
                part, is_commented = plain_part(line.text, line.number)
                parts += ["\n" * blanks or " ", part]
                blanks = 0
            else:
                blanks += 1
            self._at += 1
        return typed("".join(parts), number)

    def _block_scalar(self, text: str, number: int, indent: int) -> str:
        header = _BLOCK_HEADER.fullmatch(text)
        if header is None:
            if re.match("[>|][+-]?[0-9]", text):
                raise stop(number, "It does not read the indentation indicator of a block", f"Write {text[0]} alone")
            raise stop(number, f'A value cannot begin with "{text[0]}"', "Quote it")
        contents: list[str] = []
        inner = -1
        widest = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            is_spaces = line.indent == len(line.raw)
            if inner == -1 and not is_spaces and line.indent > indent:
                inner = line.indent
                if widest > inner:
                    raise stop(line.number, "An empty line before this one has more spaces than it", "Remove them")
            if inner != -1 and line.indent >= inner:
                contents.append(line.raw[inner:])
            elif is_spaces:
                widest = max(widest, line.indent)
                contents.append("")
            elif line.is_tabbed:
                raise stop(line.number, *_TABS)
            else:
                break
            self._at += 1
        return _joined(contents, is_folded=header[1] == ">", chomping=header[2])

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            number = self._lines[self._at].number
            raise stop(number, f"It reads at most {MAX_DEPTH} levels of nesting", "Make it flatter")


def _key(text: str, number: int) -> tuple[str, str] | None:
    """The key that a line begins with, and what stands after its colon."""
    if text[0] in "\"'":
        key, end = read_quoted(text, 0, number)
        if not text.startswith((": ", ":\t"), end) and text[end:] != ":":
            return None
        return check_key(key, number), text[end + 1 :].lstrip(BLANK)
    if text[0] == "?":
        raise stop(number, 'It does not read keys that begin with "?"', "Quote the key")
    found = None if text[0] in _NO_KEY else _KEY_END.search(text)
    if found is None or found[0] != ":" or found.start() == 0:
        return None
    key = typed_key(text[: found.start()].rstrip(BLANK), number)
    return key, text[found.end() :].lstrip(BLANK)


def _joined(contents: list[str], *, is_folded: bool, chomping: str) -> str:
    """The text of a block scalar. Lines that are indented more are never folded."""
    parts: list[str] = []
    blanks = 0
    was_deeper = False
    for content in contents:
        if not content:
            blanks += 1
            continue
        is_deeper = content[0] in BLANK
        if not parts:
            parts.append("\n" * blanks)
        elif is_folded and not is_deeper and not was_deeper:
            parts.append("\n" * blanks or " ")
        else:
            parts.append("\n" * (blanks + 1))
        parts.append(content)
        blanks, was_deeper = 0, is_deeper
    if chomping == "+":
        parts.append("\n" * (blanks + 1 if parts else blanks))
    elif not chomping and parts:
        parts.append("\n")
    return "".join(parts)
