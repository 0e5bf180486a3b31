"""Values within one line as the TypeScript SDK reads them: plain and quoted scalars, and [] and {} that close there."""

from __future__ import annotations

import re

from skillquay.core.hidden import shorten
from skillquay.core.peers.nodes import UnreadableError
from skillquay.core.yaml_json import NotJson, core_schema

__all__ = [
    "BLANK",
    "MAX_DEPTH",
    "add_once",
    "check_key",
    "end_of_value",
    "plain_part",
    "read_flow",
    "read_quoted",
    "stop",
    "typed",
    "typed_key",
]

BLANK = " \t"
MAX_DEPTH = 32

_SINGLE = re.compile(r"'((?:[^']|'')*+)'")
_HEX = "[0-9A-Fa-f]"
_ESCAPE = rf'\\(?:[0abt\tnvfre "/\\N_LP]|x{_HEX}{{2}}|u{_HEX}{{4}}|U00(?:0{_HEX}|10){_HEX}{{4}})'
_DOUBLE = re.compile(rf'"((?:[^"\\]|{_ESCAPE})*+)"')
_DOUBLE_AT_ALL = re.compile(r'"(?:[^"\\]|\\.)*+"')
_ESCAPES = re.compile(_ESCAPE)
_ESCAPED = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))
_COMMENT = re.compile(r"[ \t]#")
_COLON = re.compile(r":(?![^ \t])")
_FLOW_PLAIN = re.compile(r"(?:[^,\[\]{}#:]|(?<![ \t])#|:(?=[^ \t,\[\]{}]))*")
_FLOW_NO_START = re.compile(r"[&*!|>%@`#]|[-?:](?![^ \t,\[\]{}])")


def stop(number: int, what: str, fix: str) -> UnreadableError:
    """The reader stops in line `number`; both texts are sentences without their full stop."""
    return UnreadableError(f"{what}. {fix}.", number)


def typed(text: str, number: int) -> object:
    """A plain scalar by YAML 1.2 core; numbers that JSON cannot hold are refused."""
    try:
        return core_schema(text)
    except NotJson:
        raise stop(number, f'"{shorten(text)}" is a number that JSON cannot hold', "Quote it") from None


def typed_key(key: str, number: int) -> str:
    """A plain key that is a string."""
    if not isinstance(typed(key, number), str):
        raise stop(number, f'The key "{shorten(key)}" is not a string', "Quote the key")
    return check_key(key, number)


def check_key(key: str, number: int) -> str:
    """A key that no JavaScript object takes for something else."""
    if key == "__proto__":
        raise stop(number, 'It does not read the key "__proto__"', "Give it another name")
    return key


def add_once(mapping: dict[str, object], key: str, number: int) -> None:
    """Make room for a key's value; a key comes once."""
    if key in mapping:
        raise stop(number, f'The key "{shorten(key)}" stands here a second time', "Remove one of the two")
    mapping[key] = None


def plain_part(text: str, number: int) -> tuple[str, bool]:
    """One line of a plain scalar without its comment, and whether it had one."""
    comment = _COMMENT.search(text)
    part = (text[: comment.start()] if comment else text).rstrip(BLANK)
    if _COLON.search(part):
        raise stop(number, "The value has a colon and a space in it", "Quote it")
    return part, comment is not None


def end_of_value(text: str, end: int, number: int) -> None:
    """Refuse what stands after a value, unless it is a comment."""
    rest = text[end:].lstrip(BLANK)
    if rest and (rest[0] != "#" or text[end] == "#"):
        raise stop(number, "There is more text after the value", "Quote the whole value")


def read_quoted(text: str, start: int, number: int) -> tuple[str, int]:
    """The quoted scalar that begins at `start`, and where it ends."""
    if text[start] == "'":
        if found := _SINGLE.match(text, start):
            return found[1].replace("''", "'"), found.end()
    elif found := _DOUBLE.match(text, start):
        return _ESCAPES.sub(_unescaped, found[1]), found.end()
    elif _DOUBLE_AT_ALL.match(text, start):
        raise stop(number, "There is an unknown escape in the quoted value", r"Write \\ for a backslash")
    raise stop(
        number, "It reads quoted values only when they close on their line", "Put it on one line, or use > for a block"
    )


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[0][1:]
    return chr(int(code[1:], 16)) if code[1:] else _ESCAPED[code]


def read_flow(text: str, start: int, number: int, depth: int) -> tuple[object, int]:
    """The flow collection that begins at `start`, and where it ends."""
    if depth > MAX_DEPTH:
        raise stop(number, f"It reads at most {MAX_DEPTH} levels of nesting", "Make it flatter")
    items: list[object] = []
    mapping: dict[str, object] = {}
    close = "]" if text[start] == "[" else "}"
    at = _skip(text, start + 1)
    while not text.startswith(close, at):
        if close == "]":
            value, at = _flow_value(text, at, number, depth)
            items.append(value)
        else:
            key, at = _flow_key(text, at, number)
            add_once(mapping, key, number)
            mapping[key], at = _flow_value(text, at, number, depth)
        at = _skip(text, at)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith(close, at):
            raise _unclosed(number) if at == len(text) else _not_read(number)
    return (items if close == "]" else mapping), at + 1


def _flow_key(text: str, at: int, number: int) -> tuple[str, int]:
    """A key, and where its value may begin."""
    if at == len(text):
        raise _unclosed(number)
    if text[at] in "\"'":
        key, end = read_quoted(text, at, number)
        end = _skip(text, end)
        if not text.startswith(":", end):
            raise _not_read(number)
        return check_key(key, number), end + 1
    end = _flow_plain_end(text, at, number)
    key = text[at:end].rstrip(BLANK)
    if not key or not text.startswith((": ", ":\t"), end):
        raise _not_read(number)
    return typed_key(key, number), end + 1


def _flow_value(text: str, start: int, number: int, depth: int) -> tuple[object, int]:
    at = _skip(text, start)
    if at == len(text):
        raise _unclosed(number)
    if text[at] in "[{":
        return read_flow(text, at, number, depth + 1)
    if text[at] in "\"'":
        return read_quoted(text, at, number)
    end = _flow_plain_end(text, at, number)
    value = text[at:end].rstrip(BLANK)
    if not value or text.startswith(":", end):
        raise _not_read(number)
    return typed(value, number), end


def _flow_plain_end(text: str, start: int, number: int) -> int:
    if _FLOW_NO_START.match(text, start):
        raise _not_read(number)
    found = _FLOW_PLAIN.match(text, start)
    return found.end() if found else start


def _skip(text: str, at: int) -> int:
    while text.startswith((" ", "\t"), at):
        at += 1
    return at


def _unclosed(number: int) -> UnreadableError:
    return stop(number, "It reads [] and {} only when they close on their line", "Write each item on a line of its own")


def _not_read(number: int) -> UnreadableError:
    return stop(number, "It reads only simple values in [] and {}", "Write each item on a line of its own, or quote it")
