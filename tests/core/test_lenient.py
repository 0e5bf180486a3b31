"""Local skills are read leniently, and every repair is a finding (F5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.findings import Level
from skillquay.core.lenient import read_leniently
from skillquay.errors import FrontmatterError


def skill_md(frontmatter: str) -> bytes:
    return f"---\n{frontmatter}---\nBody\n".encode()


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("refunds", "billing"),
        ("n" * 65, "n" * 65),
        ("Refunds_2", "Refunds_2"),
        ("zurück", "zurück"),
        ("-a--b-", "-a--b-"),
    ],
)
def test_a_name_that_breaks_the_format_or_is_not_the_directorys_is_loaded_with_a_warning(
    name: str, directory: str
) -> None:
    reading = read_leniently(skill_md(f"name: {name}\ndescription: d\n"), directory)
    assert reading.frontmatter.name == name
    assert reading.findings
    assert {finding.level for finding in reading.findings} == {Level.WARNING}
    assert reading.findings[0].line == 2


@pytest.mark.rule("F5")
def test_an_unquoted_colon_is_repaired_and_the_repair_is_shown() -> None:
    reading = read_leniently(skill_md("name: a\ndescription: Use when: asked\n"), "a")
    assert reading.frontmatter.description == "Use when: asked"
    (finding,) = reading.findings
    assert (finding.rule, finding.kind, finding.line) == ("F5", "repaired", 3)


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    "frontmatter",
    [
        "name: a\n",
        "name: a\ndescription:\n",
        "name: a\ndescription: ''\n",
        "name: a\ndescription: [x]\n",
        "- a\n",
        "a: [\n",
    ],
)
def test_no_description_or_unreadable_yaml_skips_the_skill_with_a_reason(frontmatter: str) -> None:
    with pytest.raises(FrontmatterError) as caught:
        read_leniently(skill_md(frontmatter), "a")
    assert caught.value.message.endswith(".")
    assert caught.value.line >= 1


@pytest.mark.rule("F5")
def test_a_missing_name_is_taken_from_the_directory() -> None:
    for frontmatter in ("description: d\n", "name:\ndescription: d\n", "name: [x]\ndescription: d\n"):
        reading = read_leniently(skill_md(frontmatter), "refunds")
        assert reading.frontmatter.name == "refunds"
        assert [finding.kind for finding in reading.findings] == ["repaired"]


@pytest.mark.rule("F5")
def test_numbers_for_name_and_description_are_read_as_they_were_written() -> None:
    reading = read_leniently(skill_md("name: 1.10\ndescription: 007\n"), "1.10")
    assert (reading.frontmatter.name, reading.frontmatter.description) == ("1.10", "007")


@pytest.mark.rule("F5")
def test_duplicate_keys_other_keys_and_numbers_beyond_json_are_repaired_and_shown() -> None:
    reading = read_leniently(skill_md("name: a\nname: b\n1: x\nlimit: .inf\ndescription: d\n"), "b")
    assert dict(reading.frontmatter.fields) == {"name": "b", "1": "x", "limit": ".inf", "description": "d"}
    assert [finding.line for finding in reading.findings if finding.kind == "repaired"] == [3, 4, 5]


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029", "\ufeff"])
def test_characters_that_end_a_line_for_some_readers_skip_the_skill(character: str) -> None:
    with pytest.raises(FrontmatterError, match="understand differently"):
        read_leniently(skill_md(f"name: a\ndescription: d{character}e\n"), "a")


def test_a_good_skill_is_read_without_a_finding() -> None:
    reading = read_leniently(skill_md("name: a\ndescription: d\nmetadata:\n  version: '1'\n"), "a")
    assert reading.findings == ()
    assert (
        skill_md("name: a\ndescription: d\nmetadata:\n  version: '1'\n")[reading.frontmatter.body_start :] == b"Body\n"
    )


@given(st.binary(max_size=200) | st.text("ndesc: '\"#\n-|>*&@[]{}1", max_size=120).map(str.encode))
def test_any_bytes_are_read_or_skipped_with_a_reason(data: bytes) -> None:
    for content in (data, b"---\ndescription: x\n" + data + b"\n---\n"):
        try:
            reading = read_leniently(content, "a")
        except FrontmatterError as error:
            assert error.message
        else:
            assert reading.frontmatter.name
            assert reading.frontmatter.description
