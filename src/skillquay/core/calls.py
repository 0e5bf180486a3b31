"""A call of a tool as a person may see it: each argument on lines of its own, and none hides another (A5, B4, X1)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from skillquay.core.hidden import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["call_lines"]

# How many arguments are shown, how many characters of all of them, of a long one, and of any in any case.
_MOST_ARGUMENTS = 40
_MOST_CHARACTERS = 6000
_LONGEST_ARGUMENT = 2000
_LEAST_OF_AN_ARGUMENT = 160
_LONGEST_NAME = 120
_MOST_ROWS = 24
_BLANK = "[ \t\r\f\v\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]"
_BLANKS = re.compile(f"{_BLANK}{{8,}}|{_BLANK}{{0,7}}\n(?:{_BLANK}*+\n){{2,}}{_BLANK}*+")
_PLAIN_NAME = re.compile(r"[\w.\[\]-]+")


class _Object(tuple[tuple[str, object], ...]):
    """A JSON object with all that was written, also what came twice under one name."""

    __slots__ = ()


def call_lines(detail: str) -> Iterator[str]:
    """A call, each line safe to print.

    `detail` is the JSON text of `{"tool": name, "arguments": {…}}`. What is anything else is shown as the text it is.
    """
    return map(visible, _lines(detail))


def _lines(detail: str) -> Iterator[str]:
    call = _parsed(detail)
    if call is None:
        text, left_out = _excerpt(detail, _LONGEST_ARGUMENT)
        yield from _rows("  would run     ", text)
        yield from _warning(0, left_out)
        return
    tool, arguments = call
    leaves = list(_leaves(arguments))
    hidden = max(0, len(leaves) - _MOST_ARGUMENTS)
    if hidden:
        leaves[_MOST_ARGUMENTS * 3 // 4 : -_MOST_ARGUMENTS // 4] = []
    tool, left_out = _excerpt(tool, _LONGEST_NAME)
    count = len(leaves) + hidden
    yield f"  would run     {tool}, with {count:,} argument{'' if count == 1 else 's'}{':' if count else ''}"
    texts = [_folded(text) for _, _, text in leaves]
    limit = _share(map(len, texts))
    for index, ((name, of_name, _), text) in enumerate(zip(leaves, texts, strict=True)):
        if hidden and index == _MOST_ARGUMENTS * 3 // 4:
            yield f"    … {hidden:,} arguments left out …"
        shown, of_text = _cut(text, limit)
        left_out += of_name + of_text
        plain = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        yield from _rows(f"    {plain}: ", shown)
    yield from _warning(hidden, left_out)


def _warning(arguments: int, characters: int) -> Iterator[str]:
    if arguments or characters:
        what = [f"{arguments:,} arguments"] * bool(arguments) + [f"{characters:,} characters"] * bool(characters)
        yield f"  ! NOT ALL OF IT IS SHOWN: {' and '.join(what)} are left out. Do not agree to what you cannot see."


def _parsed(detail: str) -> tuple[str, _Object] | None:
    try:
        # Numbers stay the text they are: some are too long to be read.
        call = json.loads(detail, object_pairs_hook=_Object, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    match call:
        case _Object((("tool", str(tool)), ("arguments", _Object() as arguments))):
            return tool, arguments
        case _:
            return None


def _leaves(arguments: _Object) -> Iterator[tuple[str, int, str]]:
    """Every single value with the names that lead to it, how much of these is left out, and its text."""
    pending: list[tuple[str, int, object]] = [("", 0, arguments)]
    while pending:
        name, left_out, value = pending.pop()
        inner: Iterable[tuple[str, object]] = ()
        if isinstance(value, _Object):
            inner = ((f"{name}.{key}" if name else key, each) for key, each in value)
        elif isinstance(value, list):
            inner = ((f"{name}[{index}]", each) for index, each in enumerate(value))
        children = [(*_name(path, left_out), each) for path, each in inner]
        pending += reversed(children)
        if not children and value is not arguments:
            empty = "{}" if isinstance(value, _Object) else json.dumps(value)
            yield name, left_out, value if isinstance(value, str) else empty


def _name(path: str, left_out: int) -> tuple[str, int]:
    name, more = _excerpt(path, _LONGEST_NAME)
    return name, left_out + more


def _folded(text: str) -> str:
    """Runs of blanks, counted: nothing is pushed out of sight by them."""
    return _BLANKS.sub(lambda run: f"⟨{len(run[0]):,} blanks⟩" + ("\n" if "\n" in run[0] else ""), text)


def _cut(text: str, limit: int) -> tuple[str, int]:
    """The beginning and the end of a text, and how many characters between them are left out."""
    left_out = len(text) - limit
    if left_out <= 0:
        return text, 0
    end = limit // 3
    return f"{text[: limit - end]} ⟨… {left_out:,} characters left out …⟩ {text[-end:]}", left_out


def _excerpt(text: str, limit: int) -> tuple[str, int]:
    return _cut(_folded(text), limit)


def _share(lengths: Iterable[int]) -> int:
    """How many characters of each argument are shown: what short ones leave over goes to the long ones."""
    room, waiting = _MOST_CHARACTERS, sorted(lengths)
    for index, length in enumerate(waiting):
        share = room // (len(waiting) - index)
        if length > share:
            return min(max(share, _LEAST_OF_AN_ARGUMENT), _LONGEST_ARGUMENT)
        room -= length
    return _LONGEST_ARGUMENT


def _rows(label: str, text: str) -> Iterator[str]:
    """A text behind its label; one of several lines below it, each behind a mark, unless they are very many."""
    if not 0 < text.count("\n") < _MOST_ROWS:
        yield label + text
        return
    yield label.rstrip()
    for row in text.split("\n"):
        yield f"      | {row}"
