"""Frontmatter as the Go SDK's proposed `skills` package reads it, with yaml.v3: facts from reading their source.

yaml.v3 is a translation of libyaml, so libyaml parses for it here. Three differences are not followed: the escapes of
quotes and slashes, byte order marks inside the text, and what it sees of a second document when it peeks ahead.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from skillquay.core.peers.nodes import Node, UnreadableError, compose
from skillquay.core.peers.python_yaml import STANDARD_TAG, Reading, check_merged, not_a_key, second_key, unlike_json

__all__ = ["GoReading"]


class GoReading(Reading):
    """The Go SDK: yaml.v3 with its mixture of YAML 1.1 and 1.2; anchors, aliases and unknown tags are fine."""

    USES_LIBYAML = True  # yaml.v3 is a translation of it
    READS_TO_THE_END = False

    def __init__(self) -> None:
        # What an anchor stands for is read once: aliases of aliases would make a few bytes into gigabytes.
        self._anchored: dict[int, object] = {}

    def compose(self, yaml: str) -> Node | None:
        """Like libyaml's, but for `{a:}`, which yaml.v3 reads as PyYAML does."""
        try:
            return super().compose(yaml)
        except UnreadableError as error:
            if "found unexpected ':'" not in error.reason:
                raise
            return compose(yaml, libyaml=False, first_line=self.FIRST_LINE, whole=self.READS_TO_THE_END)

    def value(self, node: Node) -> object:
        """What one node is, or what it stands for."""
        if node.kind != "alias":
            result = super().value(node)
            if node.anchor is not None:
                self._anchored[id(node)] = result
            return result
        target = node.target
        if target is None:
            raise UnreadableError("It does not know what this alias stands for. Write the value out.", node.line)
        return self.scalar(target) if target.kind == "scalar" else self._anchored[id(target)]

    def mapping(self, node: Node, *, top: bool = False) -> dict[str, object]:
        """Keys are compared as they are spelled; at the top they may be anything. What `<<` merges is not looked at."""
        result: dict[str, object] = {}
        seen: set[str] = set()
        for key_node, value_node in node.pairs:
            spelled = key_node.target or key_node
            key = _typed(spelled) if spelled.kind == "scalar" else key_node
            if spelled.kind != "scalar" or not (isinstance(key, str) or top):
                raise not_a_key(key_node)
            if spelled.text in seen:
                raise second_key(key_node)
            seen.add(spelled.text)
            value = self.value(value_node)
            if spelled.is_merge:
                check_merged(key_node, value)
            elif key is not None:
                result[spelled.text] = value
        return result

    def scalar(self, node: Node) -> object:
        """Typed by yaml.v3; what JSON cannot hold is refused."""
        value = _typed(node)
        if isinstance(value, float) and not math.isfinite(value):
            raise unlike_json(node, "a number that JSON cannot hold")
        return value


def _typed(node: Node) -> object:
    """A standard tag must fit the value; under any other tag everything is text."""
    tag = (node.tag or "!").removeprefix(STANDARD_TAG)
    if tag == "!":
        return _typed_plain(node.text) if node.is_plain else node.text
    if tag not in _TAGS:
        return node.text
    value = _typed_plain(node.text)
    if type(value) not in _TAGS[tag]:
        raise unlike_json(node, "something else than its tag says")
    return value


_TAGS: dict[str, set[type]] = {
    "bool": {bool},
    "int": {int},
    "float": {int, float},
    "null": {type(None)},
    "timestamp": {datetime},
}
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + word: math.inf for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}
_INT = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|[0-9]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:[.,][0-9]+)?"
_TIME = re.compile(rf"[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}(?:[Tt]{_CLOCK}(?:Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_CLOCK})?")


def _typed_plain(text: str) -> bool | float | datetime | str | None:
    """What type a plain scalar has to yaml.v3; numbers are stood in for by a zero."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _TIME.fullmatch(text):
        year, *rest = map(int, re.findall("[0-9]+", text)[:6])
        try:
            return datetime(year or 2000, *rest)  # type: ignore[arg-type]  # noqa: DTZ001 - only that it is one counts
        except ValueError:
            pass  # 2026-02-30 is text to it
    digits = text if text[0] == "." else text.replace("_", "")
    if _INT.fullmatch(digits):
        return 0
    return 0.0 if _FLOAT.fullmatch(digits) and math.isfinite(float(digits)) else text
