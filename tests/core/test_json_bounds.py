"""What is longer or deeper than any frontmatter is refused before it costs anything; the rest is copied."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.frontmatter import MAX_FRONTMATTER, parse_frontmatter
from skillquay.core.json_bounds import check_json, copied_json
from skillquay.errors import EntryError
from tests.core.builders import skill_md

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
TOO_LONG: dict[str, Any] = {
    "text": "x" * MAX_FRONTMATTER,
    "numbers": [0] * (MAX_FRONTMATTER + 1),
    "texts": ["xx"] * (MAX_FRONTMATTER // 2),
    "keys": {"a" * (MAX_FRONTMATTER // 2): 1, "b" * (MAX_FRONTMATTER // 2): 2},
    "digits": [10**4000] * 400,
    "lists in lists": [[0] * 1000] * 1100,
}


@pytest.mark.rule("E4")
@pytest.mark.rule("B2")
@pytest.mark.parametrize("kind", TOO_LONG)
def test_frontmatter_longer_than_any_file_can_hold_is_refused(kind: str) -> None:
    with pytest.raises(EntryError, match="more than 1,048,576 characters") as caught:
        check_json({"x": TOO_LONG[kind]})
    assert (caught.value.field, caught.value.rule) == ("frontmatter", "E4")


@pytest.mark.rule("B2")
def test_what_is_far_too_long_is_not_looked_at_to_its_end() -> None:
    shared: list[Any] = [0] * 1000
    for _ in range(50):
        shared = [shared] * 1000
    started = time.process_time()
    with pytest.raises(EntryError, match="characters"):
        check_json({"x": shared})
    assert time.process_time() - started < 10


@pytest.mark.rule("E4")
@pytest.mark.parametrize(
    "line",
    [
        "x: [" + "0," * 100_000 + "0]",
        "x: {" + ",".join(map(str, "abcdefghijklmnopqrstuvwxyz")) + "}",
        "x: " + "é" * 100_000,
        "x: [" + "[]," * 50_000 + "]",
        f"x: {'9' * 300}",
        "x: 0x" + "f" * 200,
    ],
    ids=["numbers", "keys", "text", "lists", "digits", "hexadecimal"],
)
def test_nothing_counts_for_more_than_it_has_characters_in_a_file(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = skill_md("refunds", line)
    fields = parse_frontmatter(data).fields
    monkeypatch.setattr("skillquay.core.json_bounds.MAX_FRONTMATTER", len(data.decode()))
    check_json(fields)


def test_a_list_at_the_greatest_depth_may_only_be_empty() -> None:
    deepest: list[Any] = []
    for _ in range(63):
        deepest = [deepest]
    check_json({"x": deepest})
    with pytest.raises(EntryError, match="more than 64 levels"):
        check_json({"x": [deepest]})
    with pytest.raises(EntryError, match="more than 64 levels"):
        check_json({"x": [{"y": deepest}]})


@given(json_values)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(value: Any) -> None:
    copy = copied_json(value)
    assert copy == value
    pending = [(copy, value)]
    while pending:
        one, two = pending.pop()
        if isinstance(one, list | dict):
            assert one is not two
            pending += zip(one, two, strict=True) if isinstance(one, list) else [(one[key], two[key]) for key in one]
