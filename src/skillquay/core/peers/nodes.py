"""YAML as it was written, for foretelling what other readers make of it: values with their style, place and tag.

Two parsers stand behind it, because two families of readers exist: libyaml (and Go's port of it), and PyYAML's own
(and ruamel, which grew out of it), which is stricter about tabs and slower. Nothing here types a scalar.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from yaml import MarkedYAMLError, YAMLError
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    ScalarEvent,
    StreamEndEvent,
)
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from skillquay.core.hidden import shorten
from skillquay.core.yaml_json import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Fields", "Node", "UnreadableError", "compose"]

_SLOW_FROM = 64 * 1024  # characters: one second of PyYAML's own parser; the differences are not worth more


class UnreadableError(Exception):
    """A reader stops here: `reason` is a sentence that says why and what to do, `line` counts from the file's first."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The frontmatter as one peer reads it, and the line that each field stands on."""

    values: dict[str, object]
    lines: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value as it stands in the text. A mapping's `children` are its keys and values by turns.

    An alias is a node of its own whose `target` is what it stands for: None where that is unknown or not yet complete.
    """

    kind: Literal["scalar", "list", "map", "alias"]
    line: int
    column: int
    text: str = ""
    tag: str | None = None
    is_plain: bool = False
    is_flow: bool = False
    anchor: str | None = None
    children: list[Node] = field(default_factory=list)
    target: Node | None = None

    @property
    def is_merge(self) -> bool:
        """True for the key `<<`, which stands for the fields of other mappings."""
        return self.is_plain and self.text == "<<" and self.tag is None

    @property
    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """A mapping's keys, each with its value."""
        return zip(self.children[::2], self.children[1::2], strict=True)


class _PythonParser(Reader, Scanner, Parser):
    """PyYAML's own parser, without the composer that deep nesting could crash."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def compose(text: str, *, libyaml: bool, first_line: int, whole: bool = True) -> Node | None:
    """The one document in this text; None when there is none.

    With `whole`, a second document is an `UnreadableError`; without, what follows the first is not looked at.
    """
    try:
        parser: Any = CParser(text) if libyaml or len(text) > _SLOW_FROM else _PythonParser(text)
        return _Composer(parser.get_event, first_line).compose(whole=whole)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _not_yaml(shorten(str(error.problem)), first_line + (mark.line if mark else 0)) from None
    except YAMLError as error:  # the reader's own: a character YAML does not allow
        position = getattr(error, "position", 0)
        raise _not_yaml("it holds a character that YAML forbids", first_line + text.count("\n", 0, position)) from None
    except (ValueError, OverflowError):  # an escape beyond Unicode, a tag that is not UTF-8: neither parser guards them
        raise _not_yaml("an escape in it stands for no character", first_line) from None


def _not_yaml(problem: str, line: int) -> UnreadableError:
    return UnreadableError(
        f"The frontmatter is not valid YAML to it: {problem}. Quote or rewrite the value there.", line
    )


class _Composer:
    """Events to nodes; the collections in progress are on a stack of our own."""

    def __init__(self, get_event: Callable[[], Any], first_line: int) -> None:
        self._next = get_event
        self._first_line = first_line
        self._anchors: dict[str, Node | None] = {}

    def compose(self, *, whole: bool) -> Node | None:
        self._next()  # the stream starts
        if isinstance(self._next(), StreamEndEvent):
            return None
        root = self._node()
        self._next()  # the document ends
        if whole and not isinstance(event := self._next(), StreamEndEvent):
            raise _not_yaml("a second document starts in it", self._line(event))
        return root

    def _node(self) -> Node:
        stack: list[tuple[Node, str | None]] = []
        while True:
            event = self._next()
            if isinstance(event, CollectionStartEvent):
                if len(stack) == MAX_DEPTH:
                    raise UnreadableError(
                        f"The frontmatter is nested more than {MAX_DEPTH} levels deep. Make it flatter.",
                        self._line(event),
                    )
                if event.anchor is not None:
                    self._anchors[event.anchor] = None
                stack.append((self._start(event), event.anchor))
                continue
            if isinstance(event, CollectionEndEvent):
                node, anchor = stack.pop()
            else:
                node, anchor = self._start(event), None if isinstance(event, AliasEvent) else event.anchor
            if anchor is not None:
                self._anchors[anchor] = node
            if not stack:
                return node
            stack[-1][0].children.append(node)

    def _start(self, event: Any) -> Node:
        line, column = self._line(event), event.start_mark.column
        if isinstance(event, AliasEvent):
            return Node(kind="alias", line=line, column=column, target=self._anchors.get(str(event.anchor)))
        decoration = {"tag": event.tag, "anchor": event.anchor}
        if isinstance(event, ScalarEvent):
            return Node(
                kind="scalar", line=line, column=column, text=event.value, is_plain=not event.style, **decoration
            )
        kind: Literal["map", "list"] = "map" if isinstance(event, MappingStartEvent) else "list"
        return Node(kind=kind, line=line, column=column, is_flow=bool(event.flow_style), **decoration)

    def _line(self, event: Any) -> int:
        return self._first_line + int(event.start_mark.line)
