"""Fields from outside as JSON: no longer and no deeper than a file's frontmatter can be, and copied whole (E1, E4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain

from skillquay.core.frontmatter import MAX_FRONTMATTER
from skillquay.core.yaml_json import MAX_DEPTH
from skillquay.errors import EntryError

__all__ = ["check_json", "copied_json"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTAINERS = (list, Mapping)
_SCALARS = frozenset({str, int, float, bool, type(None)})


def check_json(fields: Mapping[str, object]) -> None:
    """Refuse what no frontmatter in UTF-8, of our length and our depth, can equal; what follows may then recurse.

    Nothing counts for more here than it has characters in YAML, and what is too long is not looked at to its end.
    """
    size = 0
    pending: list[tuple[list[object] | Mapping[str, object], int]] = [(fields, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH and value:
            raise _refused(f"is nested more than {MAX_DEPTH} levels deep.")
        size += len(value)
        if size <= MAX_FRONTMATTER:
            for inner in chain(value, value.values()) if isinstance(value, Mapping) else value:
                if isinstance(inner, str):
                    size += len(inner)
                    if not inner.isascii() and _SURROGATE.search(inner):
                        raise _refused("has text that is not Unicode.")
                elif isinstance(inner, int):
                    size += inner.bit_length() // 4
                elif type(inner) not in _SCALARS and isinstance(inner, _CONTAINERS):
                    pending.append((inner, depth + 1))
        if size > MAX_FRONTMATTER:
            message = f"has more than {MAX_FRONTMATTER:,} characters; a skill with so much frontmatter is not used."
            raise _refused(message, rule="E4")


def copied_json(value: object) -> object:
    """The same value, which nobody else can change; it was checked before."""
    if isinstance(value, list):
        return [inner if type(inner) in _SCALARS else copied_json(inner) for inner in value]
    if isinstance(value, Mapping):
        return {key: inner if type(inner) in _SCALARS else copied_json(inner) for key, inner in value.items()}
    return value


def _refused(message: str, *, rule: str = "E1") -> EntryError:
    return EntryError(message, field="frontmatter", rule=rule)
