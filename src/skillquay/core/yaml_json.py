"""The one YAML→JSON rule, and the other standard readings of the same bytes (F4, V2).

`read_mapping` loops over libyaml's events itself: the composer behind PyYAML's loaders can be crashed by deep nesting,
types scalars the YAML 1.1 way, and cannot refuse anchors. The rule is recorded in docs/decisions/0001-yaml-to-json.md.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

from yaml import MarkedYAMLError, YAMLError
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from skillquay.core.hidden import shorten
from skillquay.errors import FrontmatterError, YamlSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["MAX_DEPTH", "JsonValue", "Mapped", "Moment", "as_text", "core_schema", "read_mapping", "yaml_1_1"]

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_DEPTH = 64
_MAX_DIGITS = 309  # what an IEEE double can hold at all; more is infinity to most readers of JSON
_STRING_TAG = "tag:yaml.org,2002:str"


class NotJson(ValueError):  # noqa: N818 - an outcome of typing a scalar, turned into a FrontmatterError below
    """A scalar whose value JSON cannot hold: an infinity, a NaN, a number beyond all readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A YAML 1.1 timestamp. JSON has none, so readers write it as text in one of two standard forms."""

    value: date | datetime

    def is_written_as_iso(self, text: str) -> bool:
        """True when `text` is this moment as Python and most 1.1 readers print it."""
        return text in {self.value.isoformat(), str(self.value), self.value.isoformat().replace("+00:00", "Z")}

    def is_written_as_rfc3339(self, text: str) -> bool:
        """True when `text` is this moment as an RFC 3339 date-time (Go and JavaScript readers print those)."""
        written = _RFC3339.fullmatch(text)
        if written is None or (written[1] or "")[6:].strip("0"):  # finer than a microsecond is another instant
            return False
        moment = self.value if isinstance(self.value, datetime) else datetime(*self.value.timetuple()[:3], tzinfo=UTC)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        try:
            return datetime.fromisoformat(text) == moment
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """A mapping read from YAML: its fields, the line each top-level one stands on, and what had to be repaired."""

    fields: dict[str, JsonValue]
    lines: dict[str, int] = field(default_factory=dict)
    repairs: list[tuple[int, str]] = field(default_factory=list)


# --- Typing of plain scalars, one function a reading. Quoted and block scalars are text in every reading. ---

_NUMBER_MAY_START = frozenset(("", *"+-.0123456789"))
_CORE_MAY_START = _NUMBER_MAY_START | frozenset("~nNtTfF")
_KEY_MAY_NEED_CARE = _NUMBER_MAY_START | {"<"}
_CORE_WORDS: dict[str, bool | None] = {
    "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_CORE_INT = re.compile(r"[-+]?[0-9]+")
_CORE_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_CORE_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def core_schema(text: str) -> JsonValue:
    """YAML 1.2 core schema: the reading skillquay publishes."""
    if not text:
        return None
    if text[0] not in _CORE_MAY_START:
        return text
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    if text[0] not in _NUMBER_MAY_START:
        return text
    if _CORE_INT.fullmatch(text):
        return _integer(text, text, 10)
    if _CORE_BASED.fullmatch(text):
        return _integer(text, text[2:], 8 if text[1] == "o" else 16)
    if _CORE_FLOAT.fullmatch(text):
        return _float(text, text)
    if _NOT_FINITE.fullmatch(text):
        raise NotJson(text)
    return text


def as_text(text: str) -> JsonValue:
    """Every scalar is the text the author wrote: the reading of StrictYAML and of hand-made parsers."""
    return text


_YAML_1_1_WORDS: dict[str, bool | None] = _CORE_WORDS | {
    "yes": True, "Yes": True, "YES": True, "on": True, "On": True, "ON": True,
    "no": False, "No": False, "NO": False, "off": False, "Off": False, "OFF": False,
}  # fmt: skip
_YAML_1_1_INT = re.compile(
    r"(?P<sign>[-+]?)(?:0b(?P<binary>[01_]+)|0x(?P<hex>[0-9a-fA-F_]+)|(?P<octal>0[0-7_]+)|(?P<decimal>0|[1-9][0-9_]*)"
    r"|(?P<sixty>[1-9][0-9_]*(?::[0-5]?[0-9])+))"
)
_YAML_1_1_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?")
_YAML_1_1_SIXTY = re.compile(r"(?P<sign>[-+]?)(?P<sixty>[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[Tt]|[ \t]+)([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]*))?"
    r"(?:[ \t]*(?:(Z)|([-+])([0-9]{1,2})(?::([0-9]{2}))?))?"
)
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]{1,9}))?(?:Z|[-+][0-9]{2}:[0-9]{2})"
)
_BASES = {"binary": 2, "hex": 16, "octal": 8, "decimal": 10}


def yaml_1_1(text: str) -> JsonValue | Moment:
    """YAML 1.1 as PyYAML and its relatives read it: `yes` is true, `012` is ten, dates are moments."""
    if not text:
        return None
    if text in _YAML_1_1_WORDS:
        return _YAML_1_1_WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if number := _YAML_1_1_INT.fullmatch(text):
        kind = str(number.lastgroup)
        digits = number[kind].replace("_", "")
        if kind == "sixty":
            return _sixty(text, number["sign"], map(int, digits.split(":")))
        return _integer(text, number["sign"] + digits, _BASES[kind]) if digits else text
    if _YAML_1_1_FLOAT.fullmatch(text):
        return _float(text, text.replace("_", ""))
    if number := _YAML_1_1_SIXTY.fullmatch(text):
        return _sixty(text, number["sign"], map(float, number["sixty"].replace("_", "").split(":")))
    if _NOT_FINITE.fullmatch(text):
        raise NotJson(text)
    return _moment(text) or text


def _integer(text: str, digits: str, base: int) -> int:
    if len(digits.lstrip("+-")) > _MAX_DIGITS:
        raise NotJson(text)
    value = int(digits, base)
    _float(text, str(value))
    return value


def _float(text: str, digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise NotJson(text)
    return value


def _sixty(text: str, sign: str, places: Iterable[float]) -> float:
    """Base sixty, added up from its end as PyYAML does, so that the rounding is the same."""
    if len(text) > _MAX_DIGITS:
        raise NotJson(text)
    value: float = 0
    for power, place in enumerate(reversed([*places])):
        value += place * 60**power
    _float(text, str(value))
    return -value if sign == "-" else value


def _moment(text: str) -> Moment | None:
    try:
        if found := _DATE.fullmatch(text):
            return Moment(value=date(*map(int, found.groups())))
        if found := _TIMESTAMP.fullmatch(text):
            year, month, day, hour, minute, second = (int(found[group]) for group in range(1, 7))
            micro = int((found[7] or "")[:6].ljust(6, "0"))
            zone = None
            if found[8]:
                zone = UTC
            elif found[9]:
                offset = timedelta(hours=int(found[10]), minutes=int(found[11] or 0))
                zone = timezone(-offset if found[9] == "-" else offset)
            return Moment(value=datetime(year, month, day, hour, minute, second, micro, tzinfo=zone))
    except ValueError:
        pass  # a date such as 2026-02-30 is text to every reader that does not refuse it
    return None


# --- Events to values ---

# No line of a mapping can begin with a percent sign: this is a directive, and libyaml's time grows with their square.
_DIRECTIVE = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])%")
_ESCAPED_TAG = re.compile(rb"![^\s!%]*%")


def read_mapping(
    data: bytes, resolve: Callable[[str], object] = core_schema, *, first_line: int = 1, lenient: bool = False
) -> Mapped:
    """The mapping that these YAML bytes are, under one reading of its plain scalars.

    Refused, in every reading: more than one document, directives, aliases and anchors, tags other than `!!str`,
    duplicate keys, keys that are not strings, numbers JSON cannot hold, nesting deeper than `MAX_DEPTH`. With
    `lenient`, the three that have an obvious meaning (a later duplicate wins; such keys and numbers are text) are
    repaired and reported.
    """
    if b"%" in data and (directive := _DIRECTIVE.search(data)):
        line = first_line + data.count(b"\n", 0, directive.end())
        raise FrontmatterError(
            "YAML directives are not read.", line=line, rule="F4", fix='Indent or remove the line that begins with "%".'
        )
    try:
        return _Reader(data, resolve, first_line, lenient=lenient).read()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark else 0)
        problem = ": ".join(part for part in (error.context, error.problem) if part)
        raise YamlSyntaxError(f"The frontmatter is not valid YAML: {problem}.", line=line, rule="F4") from None
    except YAMLError as error:  # the reader's own: a character YAML does not allow
        position = getattr(error, "position", 0)
        line = first_line + data.count(b"\n", 0, position)
        reason = getattr(error, "reason", "not readable")
        raise FrontmatterError(f"The frontmatter is not valid YAML: {reason}.", line=line, rule="F4") from None
    except UnicodeDecodeError:  # libyaml lets a tag escape what is not UTF-8, and PyYAML decodes it unguarded
        escaped = _ESCAPED_TAG.search(data)
        line = first_line + data.count(b"\n", 0, escaped.start() if escaped else 0)
        raise FrontmatterError("A YAML tag does not decode to UTF-8.", line=line, rule="F4") from None


class _Reader:
    """One pass over the events of one document; containers in progress are on a stack of our own."""

    def __init__(self, data: bytes, resolve: Callable[[str], object], first_line: int, *, lenient: bool) -> None:
        self._next = CParser(data).get_event
        self._resolve = resolve
        self._first_line = first_line
        self._lenient = lenient
        self._read = Mapped(fields={})

    def read(self) -> Mapped:
        get_event = self._next
        get_event()  # the stream starts
        if isinstance(get_event(), StreamEndEvent):
            return self._read
        event = get_event()
        is_empty = isinstance(event, ScalarEvent) and event.value == "" and event.implicit[0]
        if not is_empty and not isinstance(event, MappingStartEvent):
            raise self._error(event, "The frontmatter is not a mapping of fields to values.")
        self._refuse_decoration(event)
        if not is_empty:
            self._mapping(get_event)
        get_event()  # the document ends
        if not isinstance(event := get_event(), StreamEndEvent):
            raise self._error(event, "A second YAML document starts inside the frontmatter.")
        return self._read

    def _mapping(self, get_event: Callable[[], Any]) -> None:
        """The hot loop of a scan: what is usual is done here, what is not in a method of its own."""
        resolve, first_line, lines = self._resolve, self._first_line, self._read.lines
        container: Any = self._read.fields
        stack: list[Any] = []
        key: str | None = None
        while True:
            event = get_event()
            kind = type(event)
            if kind is ScalarEvent:
                if event.tag is not None or event.anchor is not None:
                    self._refuse_decoration(event)
                text = event.value
                if key is None and type(container) is dict:
                    if text in container or text in _CORE_WORDS or text[:1] in _KEY_MAY_NEED_CARE:
                        self._check_key(event, container)
                    key = text
                    if not stack:
                        lines[key] = first_line + event.start_mark.line
                    continue
                if event.implicit[0] and event.tag is None:
                    try:
                        text = resolve(text)
                    except NotJson:
                        self._check_number(event)
                if key is None:
                    container.append(text)
                else:
                    container[key] = text
                    key = None
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._refuse_decoration(event)
                if key is None and type(container) is dict:
                    raise self._error(event, "A key is a list or a mapping; keys are strings.")
                if len(stack) + 2 > MAX_DEPTH:
                    raise self._error(event, f"The frontmatter is nested more than {MAX_DEPTH} levels deep.")
                inner: Any = {} if kind is MappingStartEvent else []
                if key is None:
                    container.append(inner)
                else:
                    container[key] = inner
                stack.append(container)
                container, key = inner, None
            elif isinstance(event, CollectionEndEvent):
                if not stack:
                    return
                container, key = stack.pop(), None
            else:
                self._refuse_decoration(event)

    def _check_number(self, event: ScalarEvent) -> None:
        shown = shorten(event.value)
        if not self._lenient:
            raise self._error(event, f'"{shown}" is a number that JSON cannot hold.', fix=f'Quote it: "{shown}".')
        self._repaired(event, f'"{shown}" is a number that JSON cannot hold; it is read as text')

    def _check_key(self, event: ScalarEvent, container: dict[str, object]) -> None:
        shown = shorten(event.value)
        if event.implicit[0] and event.tag is None and event.value == "<<":
            if not self._lenient:
                raise self._error(event, "Some readers merge what follows a << key.", fix="Write the fields out.")
            self._repaired(event, "some readers merge what follows a << key; it is read as text")
        if event.implicit[0] and event.tag is None and not _is_text(event.value):
            if not self._lenient:
                raise self._error(event, f'The key "{shown}" is not a string.', fix=f'Quote it: "{shown}".')
            self._repaired(event, f'the key "{shown}" is not a string; it is read as text')
        if event.value in container:
            if not self._lenient:
                raise self._error(event, f'The key "{shown}" stands here a second time.', fix="Remove one of the two.")
            self._repaired(event, f'the key "{shown}" stands here a second time; the last one is used')

    def _refuse_decoration(self, event: object) -> None:
        """Anchors let a few bytes stand for many; tags say what only some readers understand."""
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._error(event, "YAML anchors and aliases are not read.", fix="Write the value out.")
        tag = getattr(event, "tag", None)
        if tag is not None and not (tag == _STRING_TAG and isinstance(event, ScalarEvent)):
            raise self._error(
                event, f'The YAML tag "{shorten(tag)}" is not read.', fix="Write the value without a tag, or quote it."
            )

    def _line(self, event: object) -> int:
        mark = getattr(event, "start_mark", None)
        return self._first_line + (mark.line if mark else 0)

    def _error(self, event: object, message: str, *, fix: str | None = None) -> FrontmatterError:
        return FrontmatterError(message, line=self._line(event), rule="F4", fix=fix)

    def _repaired(self, event: object, what: str) -> None:
        self._read.repairs.append((self._line(event), what))


def _is_text(key: str) -> bool:
    try:
        return isinstance(core_schema(key), str)
    except NotJson:
        return False
