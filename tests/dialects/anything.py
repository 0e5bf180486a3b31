"""Whatever JSON can be, with a preference for what the dialects are made of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["ANYTHING", "LEAF"]

_NO_DIGEST = f"sha256:{'0' * 64}"
_TYPES = ("skill-md", "archive", "mcp-resource-template", "application/zip", "dynamic", "refunds", _NO_DIGEST)
_URIS = ("skill://refunds/SKILL.md", "skill://refunds.zip", "skill://a.tar.gz", "file:///x", "skill://", "../x", "a/b")
_ODD = ("", " ", "a" * 5000, "\ud800", "\u202e", "x\ny", "\x00")
_OF_AN_INDEX = ("skills", "frontmatter", "url", "digest", "archives", "mimeType", "type", "name", "description")
_OF_OTHERS = ("files", "path", "hash", "size", "skill", "uri", "instructions", "arguments", "required", "title", "tags")

_KEYS = st.sampled_from((*_OF_AN_INDEX, *_OF_OTHERS, *_ODD))
LEAF: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=12)
    | st.sampled_from((*_TYPES, *_URIS, *_ODD))
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=25,
)
