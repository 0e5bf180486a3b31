"""`SKILL.md` bytes to frontmatter: the exact cut, the strict reading, and the comparison of readings (F1, F4, V2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.hidden import shorten
from skillquay.core.yaml_json import Moment, as_text, read_mapping, yaml_1_1
from skillquay.errors import FrontmatterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skillquay.core.yaml_json import JsonValue

__all__ = [
    "MAX_FRONTMATTER",
    "Cut",
    "Difference",
    "Frontmatter",
    "cut",
    "differences",
    "parse_frontmatter",
    "refuse_disputed",
]

MAX_FRONTMATTER = 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_OPEN = re.compile(rb"---[ \t]*\r?\n")
_CLOSE = re.compile(rb"---[ \t]*(?:\r?\n|\r?\Z)")
# YAML 1.1 ends a line at the first three, YAML 1.2 does not; a byte order mark is nothing to some readers, and a column
# to libyaml. One file, two meanings.
_DISPUTED = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where the YAML and the body lie in the bytes of a `SKILL.md`. The newline before the closing line is YAML's."""

    yaml: bytes
    yaml_start: int
    body_start: int

    FIRST_LINE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontmatter:
    """Every field the author wrote, under the one YAML→JSON rule, with the line each stands on."""

    fields: Mapping[str, JsonValue]
    lines: Mapping[str, int]
    body_start: int

    @property
    def name(self) -> str:
        """The `name` field; empty where it is missing or not a string."""
        name = self.fields.get("name")
        return name if isinstance(name, str) else ""

    @property
    def description(self) -> str:
        """The `description` field; empty where it is missing or not a string."""
        description = self.fields.get("description")
        return description if isinstance(description, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field whose value in `SKILL.md` is not the one in the entry, each shown as short text."""

    field: str
    expected: str
    found: str


def cut(data: bytes) -> Cut:
    """Find the frontmatter: from a first line `---` to the next line `---`. One byte order mark may come before."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FrontmatterError(
            f"SKILL.md is not UTF-8 text: byte 0x{data[error.start]:02x}.", line=line, fix="Save the file as UTF-8."
        ) from None
    opening = _OPEN.match(data, len(_BOM) if data.startswith(_BOM) else 0)
    if opening is None:
        raise FrontmatterError(
            "SKILL.md does not begin with YAML frontmatter.",
            line=1,
            fix='Begin the file with a line "---", the fields name and description, and another line "---".',
        )
    closing = None
    line_end = data.find(b"\n---", opening.end() - 1)
    while line_end >= 0 and not (closing := _CLOSE.match(data, line_end + 1)):
        line_end = data.find(b"\n---", line_end + 1)
    if closing is None:
        raise FrontmatterError(
            'The frontmatter has no closing line "---".', line=1, fix='Put a line "---" after the last field.'
        )
    yaml = data[opening.end() : closing.start()]
    if len(yaml) > MAX_FRONTMATTER:
        raise FrontmatterError(
            f"The frontmatter has {len(yaml):,} bytes; at most {MAX_FRONTMATTER:,} are read.",
            line=1,
            rule="F4",
            fix="Move text from the frontmatter into the body or another file.",
        )
    return Cut(yaml=yaml, yaml_start=opening.end(), body_start=closing.end())


def parse_frontmatter(data: bytes) -> Frontmatter:
    """The frontmatter of a `SKILL.md`, read strictly: what skillquay publishes and what it verifies against."""
    part = cut(data)
    refuse_disputed(part)
    read = read_mapping(part.yaml, first_line=Cut.FIRST_LINE)
    return Frontmatter(
        fields=MappingProxyType(read.fields), lines=MappingProxyType(read.lines), body_start=part.body_start
    )


def refuse_disputed(part: Cut) -> None:
    """Refuse what some readers take for a line's end or for nothing at all: the file would have two meanings."""
    if not part.yaml.isascii() and (disputed := _DISPUTED.search(part.yaml)):
        code = ord(disputed[0].decode("utf-8"))
        raise FrontmatterError(
            f"The frontmatter holds U+{code:04X}, which readers understand differently.",
            line=Cut.FIRST_LINE + part.yaml.count(b"\n", 0, disputed.start()),
            rule="F4",
            fix=f'Remove it, or write it as "\\u{code:04x}" in a double-quoted value.',
        )


def differences(expected: Mapping[str, object], data: bytes) -> tuple[Difference, ...]:
    """Where the frontmatter in these bytes differs from an entry's `frontmatter` (V2); empty when it does not.

    Servers in other languages type YAML scalars differently. An entry that as a whole equals one standard reading of
    these very bytes is no difference: YAML 1.2 core, YAML 1.1 with ISO or with RFC 3339 dates, all strings. A mixture
    of readings is one. The reasons are in docs/decisions/0002-frontmatter-comparison.md.
    """
    part = cut(data)
    refuse_disputed(part)
    against_core: tuple[Difference, ...] | FrontmatterError
    try:
        core = read_mapping(part.yaml, first_line=Cut.FIRST_LINE).fields
    except FrontmatterError as error:
        against_core = error
    else:
        against_core = tuple(_compare(expected, core, Moment.is_written_as_iso))
    if against_core == ():
        return ()
    for resolve, spellings in _OTHER_READINGS:
        try:
            reading = read_mapping(part.yaml, resolve).fields
        except FrontmatterError:
            continue  # this reading cannot put these bytes into JSON, so no server published it
        if any(next(_compare(expected, reading, written), None) is None for written in spellings):
            return ()
    if isinstance(against_core, FrontmatterError):
        raise against_core
    return against_core


_OTHER_READINGS: tuple[tuple[Callable[[str], object], tuple[Callable[[Moment, str], bool], ...]], ...] = (
    (yaml_1_1, (Moment.is_written_as_iso, Moment.is_written_as_rfc3339)),
    (as_text, (Moment.is_written_as_iso,)),
)


def _compare(
    expected: object, found: object, written: Callable[[Moment, str], bool], path: str = ""
) -> Iterator[Difference]:
    """Depth is bounded by the YAML side: below a scalar or beyond its nesting there is nothing left to compare."""
    if isinstance(expected, _MAPPINGS) and isinstance(found, _MAPPINGS):
        for key in dict.fromkeys((*expected, *found)):
            place = _below(path, f".{key}" if path else key)
            yield from _compare(expected.get(key, _ABSENT), found.get(key, _ABSENT), written, place)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, two) in enumerate(zip(expected, found, strict=True)):
            yield from _compare(one, two, written, _below(path, f"[{index}]"))
    elif not _same_scalar(expected, found, written):
        yield Difference(field=shorten(path), expected=_show(expected), found=_show(found))


_MAPPINGS = (dict, MappingProxyType)
_ABSENT = object()
_LONGEST_PATH = 100


def _below(path: str, step: str) -> str:
    """No more of a path than is ever shown: a key of megabytes must not be copied for each thing below it."""
    return path + step[:_LONGEST_PATH] if len(path) < _LONGEST_PATH else path


def _same_scalar(left: object, right: object, written: Callable[[Moment, str], bool]) -> bool:
    if isinstance(right, Moment):
        return isinstance(left, str) and written(right, left)
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or _as_double(left) == _as_double(right)
    return isinstance(left, str) and isinstance(right, str) and left == right


def _as_double(number: float) -> float | None:
    """JSON numbers travel as IEEE doubles through many languages; two that become one double are one number."""
    try:
        return float(number)
    except OverflowError:
        return None


_LARGEST_SHOWN = 1024  # bits; Python refuses to print integers of more than 4,300 digits


def _show(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, Moment):
        return value.value.isoformat()
    if isinstance(value, str):
        return f'"{shorten(value)}"'
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > _LARGEST_SHOWN:
        return "an integer beyond all doubles"
    return f"a mapping of {len(value)}" if isinstance(value, _MAPPINGS) else shorten(repr(value))
