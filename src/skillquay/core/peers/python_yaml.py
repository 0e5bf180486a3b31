"""How each peer turns YAML nodes into values: what it types as what, and what it refuses to read.

FastMCP loads with PyYAML's SafeLoader, so PyYAML's own typing is used here; skills-ref loads with StrictYAML, which is
built on ruamel, a relative of PyYAML. All facts here are checked against the packages in tests/peers. Three ways in
which ruamel differs are not followed: it takes an entry that has no key at all, it ends comments and blocks, though not
lines, at U+0085 and U+2028, and it breaks on some comments that stand in the place of a value.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from datetime import date

from yaml import YAMLError
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from skillquay.core.hidden import shorten
from skillquay.core.peers.nodes import Fields, Node, UnreadableError, compose

__all__ = [
    "STANDARD_TAG",
    "FastMcpReading",
    "Reading",
    "StrictYamlReading",
    "check_merged",
    "not_a_key",
    "second_key",
    "unlike_json",
]

STANDARD_TAG = "tag:yaml.org,2002:"
_LONGEST_NUMBER = 10_000  # characters; the time to make an integer of more grows with their square


class Reading(ABC):
    """YAML to fields, by way of nodes. What is common is here; each peer overrides what it does in its own way."""

    FIRST_LINE = 2
    USES_LIBYAML = False
    READS_TO_THE_END = True

    def read(self, yaml: str) -> Fields:
        """The fields in this YAML; an `UnreadableError` is what the peer stops at."""
        return self.fields(self.compose(yaml))

    def compose(self, yaml: str) -> Node | None:
        """The document that the peer's parser finds."""
        return compose(yaml, libyaml=self.USES_LIBYAML, first_line=self.FIRST_LINE, whole=self.READS_TO_THE_END)

    def fields(self, root: Node | None) -> Fields:
        """The fields of a document that is a mapping."""
        if root is None or root.kind != "map":
            raise UnreadableError(
                "The frontmatter is not a mapping of fields to values. Write lines such as: name: git-workflow",
                root.line if root else 1,
            )
        self.check(root)
        return Fields(values=self.mapping(root, top=True), lines={key.text: key.line for key, _ in root.pairs})

    def value(self, node: Node) -> object:
        """What one node is to this peer."""
        self.check(node)
        if node.kind == "scalar":
            return self.scalar(node)
        return self.mapping(node) if node.kind == "map" else [self.value(child) for child in node.children]

    def mapping(self, node: Node, *, top: bool = False) -> dict[str, object]:  # noqa: ARG002 - for the one peer that asks
        """A mapping whose keys are strings, each there once."""
        result: dict[str, object] = {}
        for key_node, value_node in node.pairs:
            self.check(key_node)
            key = self.key(key_node) if key_node.kind == "scalar" else None
            if not isinstance(key, str):
                raise not_a_key(key_node)
            if key in result:
                raise second_key(key_node)
            result[key] = self.value(value_node)
        return result

    def check(self, node: Node) -> None:  # noqa: B027 - a peer need not refuse any
        """Refuse a node for how it is written, whatever its value."""

    @abstractmethod
    def scalar(self, node: Node) -> object:
        """What a scalar is to this peer."""

    def key(self, node: Node) -> object:
        """What a scalar is that stands as a key."""
        return self.scalar(node)


class StrictYamlReading(Reading):
    """skills-ref: every scalar is text, and much of YAML is not allowed."""

    FIRST_LINE = 1  # what it takes for YAML begins right after the opening ---

    def compose(self, yaml: str) -> Node | None:
        """Like PyYAML's, but what ends a line only in YAML 1.1 is a blank."""
        return super().compose(_YAML_1_1_BREAK.sub(" ", yaml))

    def check(self, node: Node) -> None:
        """No anchors, tags or flow style; the mappings inside one mapping are indented alike."""
        if node.kind == "alias" or node.anchor is not None:
            raise UnreadableError("It does not allow anchors and aliases. Write the value out.", node.line)
        if node.tag is not None:
            raise UnreadableError("It does not allow YAML tags. Write the value without its tag.", node.line)
        if node.is_flow:
            raise UnreadableError(
                "It does not allow values in [] or {}. Write each item on a line of its own.", node.line
            )
        inner = [child for child in node.children[1::2] if child.kind == "map"] if node.kind == "map" else []
        for child in inner:
            if child.column != inner[0].column:
                raise UnreadableError(
                    "This mapping is not indented like the ones before it. Indent them alike.", child.line
                )

    def scalar(self, node: Node) -> object:
        """Text. Only a plain = or << is nothing: each has a type of its own in YAML 1.1 that StrictYAML forgot."""
        return None if node.is_plain and node.text in {"=", "<<"} else node.text

    def key(self, node: Node) -> object:
        """Text."""
        return node.text

    def mapping(self, node: Node, *, top: bool = False) -> dict[str, object]:
        """What a merge key brings in is left out."""
        result = super().mapping(node, top=top)
        for key_node, _ in node.pairs:
            if key_node.is_merge:
                check_merged(key_node, result.pop("<<", {}))
        return result


_YAML_1_1_BREAK = re.compile("[\x85\u2028\u2029]")


class FastMcpReading(Reading):
    """FastMCP: YAML 1.1 as PyYAML types it, and then only what JSON can hold."""

    def __init__(self) -> None:
        self._anchors: set[str] = set()

    def check(self, node: Node) -> None:
        """No aliases, no anchor twice, and no collection with a tag of its own."""
        if node.kind == "alias":
            raise UnreadableError("It does not allow YAML aliases. Write the value out.", node.line)
        if node.anchor is not None:
            if node.anchor in self._anchors:
                raise UnreadableError("It does not allow an anchor to come twice. Write the value out.", node.line)
            self._anchors.add(node.anchor)
        plain_tags = {None, "!", f"{STANDARD_TAG}seq" if node.kind == "list" else f"{STANDARD_TAG}map"}
        if node.kind != "scalar" and node.tag not in plain_tags:
            raise _unknown_tag(node)

    def scalar(self, node: Node) -> object:
        """Typed by PyYAML itself; dates, infinities and other things that JSON has not are refused."""
        tag = node.tag
        if tag is None or tag == "!":
            is_plain = node.is_plain or tag == "!"
            tag = str(_RESOLVER.resolve(ScalarNode, node.text, (is_plain, not is_plain)))  # type: ignore[no-untyped-call]
        if tag == f"{STANDARD_TAG}str":
            return node.text
        if len(node.text) > _LONGEST_NUMBER:
            raise unlike_json(node, "a number that JSON cannot hold")
        try:
            value: object = SafeConstructor().construct_document(ScalarNode(tag, node.text))
        except (YAMLError, ValueError, LookupError, AttributeError, OverflowError):
            if node.tag is not None:
                raise _unknown_tag(node) from None
            raise unlike_json(node, _UNREAD.get(tag, "a part of YAML 1.1 that it does not know")) from None
        if isinstance(value, date):
            raise unlike_json(node, "a date, which JSON does not have")
        if isinstance(value, float) and not math.isfinite(value):
            raise unlike_json(node, "a number that JSON cannot hold")
        if not isinstance(value, bool | int | float | None):
            raise _unknown_tag(node)
        return value


_RESOLVER = Resolver()
_UNREAD = {
    f"{STANDARD_TAG}timestamp": "a date that does not exist",
    f"{STANDARD_TAG}int": "a number that it cannot hold",
}


def check_merged(key_node: Node, value: object) -> None:
    """Refuse a merge key whose value is not a mapping or a list of them."""
    if not all(isinstance(each, dict) for each in (value if isinstance(value, list) else [value])):
        raise UnreadableError("<< merges mappings, and this is none. Write the fields out.", key_node.line)


def not_a_key(node: Node) -> UnreadableError:
    """A key that is not a string."""
    return UnreadableError(f'The key "{shorten(node.text)}" is not a string to it. Quote the key.', node.line)


def second_key(node: Node) -> UnreadableError:
    """A key that was there before."""
    return UnreadableError(
        f'The key "{shorten(node.text)}" stands here a second time. Remove one of the two.', node.line
    )


def _unknown_tag(node: Node) -> UnreadableError:
    return UnreadableError("It does not read this YAML tag. Write the value without it, or quote it.", node.line)


def unlike_json(node: Node, what: str) -> UnreadableError:
    """A scalar that the peer takes for something else than text."""
    return UnreadableError(f'It reads "{shorten(node.text)}" as {what}. Quote it.', node.line)
