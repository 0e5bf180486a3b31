"""What a function makes is published like any other skill, or refused with a reason that its author can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.catalog import find_children
from skillquay.core.digests import Digest
from skillquay.core.entries import DYNAMIC, LIMITS, parse_entry
from skillquay.core.uris import MAX_URI_LENGTH, SkillUri
from skillquay.errors import GenerationError
from skillquay.sources.function import check_generated
from tests.sources.builders import skill_text

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = SkillUri("skill://acme/today")
GOOD = skill_text("today")


@pytest.mark.rule("E6")
@pytest.mark.parametrize("content", [GOOD, GOOD.encode(), {"SKILL.md": GOOD}, {"SKILL.md": GOOD.encode()}])
def test_a_text_or_a_mapping_of_one_is_a_skill_that_says_it_is_dynamic(content: object) -> None:
    made = check_generated(ROOT, content)
    entry = made.listed.entry
    assert (entry.uri, entry.name, entry.resources) == ("skill://acme/today/SKILL.md", "today", DYNAMIC)
    assert parse_entry(made.listed.to_json()) == entry
    assert made.files == {entry.uri: GOOD.encode()}
    assert [record.digest for record in made.manifest.files] == [Digest.of(GOOD.encode())]


@pytest.mark.rule("U7")
def test_every_file_is_there_with_its_bytes_its_digest_and_its_directory() -> None:
    content = {"docs/näh.md": "ä\r\n", "SKILL.md": GOOD, "logo.png": b"\x89PNG\x00", "docs/deep/a.md": ""}
    made = check_generated(ROOT, content)
    assert {ROOT.relative(uri): data for uri, data in made.files.items()} == {
        "SKILL.md": GOOD.encode(),
        "docs/deep/a.md": b"",
        "docs/näh.md": "ä\r\n".encode(),
        "logo.png": b"\x89PNG\x00",
    }
    for record in made.manifest.files:
        assert (record.digest, record.size) == (Digest.of(made.files[record.uri]), len(made.files[record.uri]))
    nodes = find_children([made.as_files], ROOT.child("docs"))
    assert nodes is not None
    assert [(node.name, node.record is None) for node in nodes] == [("deep", True), ("näh.md", False)]


def with_file(path: object, data: object = "x") -> Mapping[object, object]:
    return {"SKILL.md": GOOD, path: data}


REFUSED: dict[str, tuple[object, str]] = {
    "nothing": (None, "E6"),
    "a number": (5, "E6"),
    "a list": ([GOOD], "E6"),
    "a path instead of a text": ("skills/today", "F1"),
    "an empty text": ("", "F1"),
    "empty bytes": (b"", "F1"),
    "a text without frontmatter": ("Hello,\nworld\n", "F1"),
    "another skill's text": (skill_text("tomorrow"), "F2"),
    "bytes that are no text": (b"\xff\xfe", "F1"),
    "a text that is no UTF-8": (GOOD + "\ud800", "E6"),
    "an empty mapping": ({}, "F1"),
    "no SKILL.md": ({"a.md": "a"}, "F1"),
    "a SKILL.md further down": ({"today/SKILL.md": GOOD}, "F1"),
    "a path that walks": (with_file("../x"), "U3"),
    "a path that stands still": (with_file("./x"), "U3"),
    "an absolute path": (with_file("/etc/x"), "U3"),
    "an empty path": (with_file(""), "U3"),
    "a path with an empty segment": (with_file("a//b"), "U3"),
    "a directory": (with_file("a/"), "U3"),
    "a path with a backslash": (with_file("a\\b"), "U3"),
    "a path with a line break": (with_file("a\nb"), "U3"),
    "a path that is no UTF-8": (with_file("a\ud800"), "U3"),
    "a path that is too long": (with_file("a" * MAX_URI_LENGTH), "U3"),
    "a number as path": (with_file(5), "U3"),
    "nothing as path": (with_file(None), "U3"),
    "bytes as path": (with_file(b"a"), "U3"),
    "a tuple as path": (with_file(("a", "b")), "U3"),
    "a number as content": (with_file("a", 5), "E6"),
    "nothing as content": (with_file("a", None), "E6"),
    "a mapping as content": (with_file("a", {"b": "c"}), "E6"),
    "a content that is no UTF-8": (with_file("a", "\udcff"), "E6"),
    "a file that is a directory too": ({**with_file("a/b"), "a": "x", "a b": "y"}, "E2"),
    "too many files": ({"SKILL.md": GOOD, **{f"{number}.md": "" for number in range(LIMITS.files)}}, "E4"),
    "too many bytes": (with_file("a", b"x" * LIMITS.size), "E4"),
}


@pytest.mark.rule("E6")
@pytest.mark.parametrize("what", REFUSED)
def test_a_function_is_told_which_one_it_is_and_what_is_wrong_with(what: str) -> None:
    content, rule = REFUSED[what]
    with pytest.raises(GenerationError) as failure:
        check_generated(ROOT, content)
    assert failure.value.rule == rule
    assert "skill://acme/today" in failure.value.message
    assert failure.value.message.isprintable()
    assert len(failure.value.message) < 400


@pytest.mark.rule("E4")
def test_as_much_as_a_skill_may_hold_can_be_generated() -> None:
    rest = LIMITS.size - len(GOOD.encode())
    assert check_generated(ROOT, with_file("a", b"x" * rest)).manifest.size == LIMITS.size
    many = {"SKILL.md": GOOD, **{f"{number}.md": "" for number in range(LIMITS.files - 1)}}
    assert len(check_generated(ROOT, many).manifest) == LIMITS.files


anything = st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.lists(st.text()), st.tuples(st.text()))


@given(st.dictionaries(st.one_of(st.text(), st.integers(), st.binary(), st.none()), anything) | anything)
@example({"a": "", "a/b": ""})
def test_whatever_a_function_makes_beside_a_good_skill_is_published_or_refused(content: object) -> None:
    if isinstance(content, dict):
        content = {**content, "SKILL.md": GOOD}
    try:
        made = check_generated(ROOT, content)
    except GenerationError:
        return
    assert parse_entry(made.as_files.to_json()).resources == made.manifest
