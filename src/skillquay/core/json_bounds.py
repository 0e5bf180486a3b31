"""Fields from outside as JSON: no longer and no deeper than a file's frontmatter can be, and copied whole (E1, E4)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillquay.core.frontmatter import MAX_FRONTMATTER
from skillquay.core.yaml_json import MAX_DEPTH
from skillquay.errors import EntryError

__all__ = ["check_json", "copied_json"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_SCALARS = frozenset({str, int, float, bool, type(None)})


def check_json(fields: Mapping[str, object]) -> None:
    """Refuse what no frontmatter in UTF-8, of our length and our depth, can equal; what follows may then recurse.

    Nothing counts for more here than it has characters in YAML, and what is too long is not looked at to its end.
    """
    size = 0
    pending: list[tuple[object, int]] = [(fields, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH + 1:
            raise _refused(f"is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, str):
            size += len(value)
            if not value.isascii() and _SURROGATE.search(value):
                raise _refused("has text that is not Unicode.")
        elif isinstance(value, int):
            size += value.bit_length() // 4
        elif isinstance(value, list | Mapping):
            size += len(value)
        if size > MAX_FRONTMATTER:
            message = f"has more than {MAX_FRONTMATTER:,} characters; a skill with so much frontmatter is not used."
            raise _refused(message, rule="E4")
        if isinstance(value, list):
            pending.extend((inner, depth + 1) for inner in value)
        elif isinstance(value, Mapping):
            pending.extend((inner, depth) for inner in value)
            pending.extend((inner, depth + 1) for inner in value.values())


def copied_json(value: object) -> object:
    """The same value, which nobody else can change; it was checked before."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        return {key: copied_json(inner) for key, inner in value.items()}
    return [copied_json(inner) for inner in value] if isinstance(value, list) else value


def _refused(message: str, *, rule: str = "E1") -> EntryError:
    return EntryError(message, field="frontmatter", rule=rule)
