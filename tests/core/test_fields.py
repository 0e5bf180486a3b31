"""The format of single fields: what refuses a skill, what only upsets readers, and what to do about it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.fields import field_findings, name_problem, naming_readers
from skillquay.core.findings import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOD: dict[str, Any] = {"name": "git-workflow", "description": "Follow the conventions."}


def findings(lines: Mapping[str, int] | None = None, **changed: object) -> list[Finding]:
    fields = GOOD | {key.replace("_", "-"): value for key, value in changed.items()}
    return list(field_findings(fields, lines))


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1
    return found[0]


# --- name ---


@pytest.mark.rule("F2")
@pytest.mark.parametrize("name", ["a", "0", "a-b", "pdf-processing", "a1-2b-3", "x" * 64, "-".join("a" * 32), "123"])
def test_lowercase_letters_digits_and_single_hyphens_are_a_name(name: str) -> None:
    assert name_problem(name) is None
    assert findings(name=name) == []


@pytest.mark.rule("F2")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("x" * 65, "has 65 characters; at most 64 are allowed"),
        ("-a", "begins or ends with a hyphen"),
        ("a-", "begins or ends with a hyphen"),
        ("-", "begins or ends with a hyphen"),
        ("a--b", "has two hyphens in a row"),
        ("A", "may have only"),
        ("aB", "may have only"),
        ("a_b", "may have only"),
        ("a b", "may have only"),
        ("a.b", "may have only"),
        ("a/b", "may have only"),
        ("..", "may have only"),
        ("é", "may have only"),
        ("ß", "may have only"),
        ("а", "may have only"),  # Cyrillic
        ("a\u0301", "may have only"),
        ("٣", "may have only"),
        ("²", "may have only"),
        ("a\n", "may have only"),
        ("\na", "may have only"),
        (" a", "may have only"),
        ("a\x00", "may have only"),
        ("a‐b", "may have only"),  # U+2010
    ],
)
def test_any_other_text_is_no_name_and_the_reason_is_given(name: str, problem: str) -> None:
    assert problem in str(name_problem(name))
    finding = only(findings(name=name))
    assert (finding.rule, finding.level, finding.kind) == ("F2", Level.ERROR, "name")
    assert problem in finding.message


@pytest.mark.rule("F2")
@given(st.one_of(st.text("ab09-A_ .é", max_size=70), st.text(st.characters())))
def test_a_name_is_exactly_what_the_format_says(name: str) -> None:
    good = (
        1 <= len(name) <= 64
        and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        and not name.startswith("-")
        and not name.endswith("-")
        and "--" not in name
    )
    assert (name_problem(name) is None) == good


@pytest.mark.rule("F2")
@pytest.mark.parametrize("name", [None, 12, 1.5, True, ["a"], {"a": "b"}])
def test_a_name_that_is_not_a_string_is_an_error(name: object) -> None:
    assert name_problem(name) == "is not a string"
    finding = only(findings(name=name))
    assert (finding.rule, finding.level, finding.fix) == ("F2", Level.ERROR, "Quote it.")


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("Git Workflow", "git-workflow"),
        ("PDF_Processing", "pdf-processing"),
        ("--a--b--", "a-b"),
        ("x" * 65, "x" * 64),
        ("x" * 63 + "-yz", "x" * 63),
        ("a.b/c", "a-b-c"),
    ],
)
def test_a_bad_name_comes_with_a_better_one(name: str, better: str) -> None:
    assert only(findings(name=name)).fix == f'Call it "{better}", and its directory too.'


@pytest.mark.parametrize("name", ["", "-", "東京", "..."])
def test_no_better_name_is_made_up_from_nothing(name: str) -> None:
    assert only(findings(name=name)).fix is None


@given(st.text(st.characters()))
@example("x" * 63 + "--y")
def test_a_better_name_is_always_a_name(name: str) -> None:
    for finding in findings(name=name):
        if finding.fix is not None:
            suggested = re.fullmatch(r'Call it "(.+)", and its directory too\.', finding.fix)
            assert suggested is not None
            assert name_problem(suggested[1]) is None


# --- description ---


@pytest.mark.rule("F3")
@pytest.mark.parametrize("description", ["a", "x" * 1024, "é" * 1024, "😀" * 1024, "a\nb\n"])
def test_a_description_of_1_to_1024_characters_is_accepted(description: str) -> None:
    assert findings(description=description) == []


@pytest.mark.rule("F3")
@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("", "The description is empty."),
        (" \n\t", "The description is empty."),
        ("x" * 1025, "The description has 1,025 characters; at most 1,024 are allowed."),
        (None, "The description is empty."),
        (12, "The description is a number, not a string."),
        (1.5, "The description is a number, not a string."),
        (True, "The description is a boolean, not a string."),
        (["a"], "The description is a list, not a string."),
        ({"a": "b"}, "The description is a mapping, not a string."),
    ],
)
def test_any_other_description_is_an_error(description: object, message: str) -> None:
    finding = only(findings(description=description))
    assert (finding.rule, finding.level, finding.message) == ("F3", Level.ERROR, message)
    assert finding.fix


@pytest.mark.rule("F1")
@pytest.mark.parametrize("key", ["name", "description"])
def test_a_missing_name_or_description_is_an_error(key: str) -> None:
    fields = {other: value for other, value in GOOD.items() if other != key}
    finding = only(list(field_findings(fields)))
    assert (finding.rule, finding.level, finding.kind) == ("F1", Level.ERROR, key)
    assert finding.message == f"The frontmatter has no {key}."
    assert [each.kind for each in field_findings({})] == ["name", "description"]


# --- the other fields ---


@pytest.mark.rule("F3")
@pytest.mark.parametrize(
    "fields",
    [
        {"compatibility": "a"},
        {"compatibility": "x" * 500},
        {"license": "MIT"},
        {"license": ""},
        {"allowed-tools": "Bash(git:*) Read"},
        {"metadata": {}},
        {"metadata": {"author": "a", "version": "1.0"}},
        {"hooks": {"pre": ["x"]}, "x-unknown": 5, "version": 1.1, "": None},
    ],
)
def test_fields_in_format_and_unknown_fields_pass_without_a_word(fields: dict[str, object]) -> None:
    assert list(field_findings(GOOD | fields)) == []


@pytest.mark.rule("F3")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("compatibility", "", "compatibility has 0 characters; 1 to 500 are allowed."),
        ("compatibility", "x" * 501, "compatibility has 501 characters; 1 to 500 are allowed."),
        ("compatibility", "x" * 5001, "compatibility has 5,001 characters; 1 to 500 are allowed."),
        ("compatibility", None, "compatibility is empty, not a string."),
        ("compatibility", ["a"], "compatibility is a list, not a string."),
        ("license", None, "license is empty, not a string."),
        ("license", 2, "license is a number, not a string."),
        ("license", {"a": "b"}, "license is a mapping, not a string."),
        ("allowed-tools", ["Read"], "allowed-tools is a list, not a string."),
        ("allowed-tools", False, "allowed-tools is a boolean, not a string."),
        ("metadata", None, "metadata is empty, not a map of strings."),
        ("metadata", "a: b", "metadata is a string, not a map of strings."),
        ("metadata", ["a"], "metadata is a list, not a map of strings."),
        ("metadata", 1.5, "metadata is a number, not a map of strings."),
        ("metadata", {"version": 1.1}, "metadata.version is a number, not a string."),
        ("metadata", {"tags": ["a"]}, "metadata.tags is a list, not a string."),
        ("metadata", {"a": {"b": "c"}}, "metadata.a is a mapping, not a string."),
        ("metadata", {"a": None}, "metadata.a is empty, not a string."),
        ("metadata", {"a": True}, "metadata.a is a boolean, not a string."),
    ],
)
def test_any_other_field_out_of_format_is_a_warning_that_names_it_and_the_readers_it_upsets(
    key: str, value: object, message: str
) -> None:
    finding = only(list(field_findings(GOOD | {key: value})))
    assert (finding.rule, finding.level, finding.kind, finding.message) == ("F3", Level.WARNING, key, message)
    assert finding.fix
    named = naming_readers(finding).message
    assert named.startswith(f"{message} FastMCP 4.1")
    assert named.endswith("refuse the skill for it.")


def test_only_warnings_about_fields_name_readers() -> None:
    for finding in field_findings({"metadata": {"io.modelcontextprotocol/x": "y"}, "description": "d"}):
        assert naming_readers(finding) == finding


@pytest.mark.parametrize(
    ("fields", "fix"),
    [
        ({"allowed-tools": ["a", "b"]}, "Write it as one string, separated by spaces."),
        ({"license": 2}, "Quote it."),
        ({"metadata": {"version": 1.1}}, "Quote the value."),
        ({"metadata": {"tags": ["a"]}}, "Write it as one string."),
        ({"metadata": ["a"]}, "Write key: value lines."),
        ({"compatibility": ""}, "Remove the field."),
        ({"compatibility": "x" * 501}, "Shorten it."),
    ],
)
def test_each_warning_says_what_to_do(fields: dict[str, object], fix: str) -> None:
    assert only(list(field_findings(GOOD | fields))).fix == fix


@pytest.mark.rule("F6")
def test_a_metadata_key_under_the_reserved_prefix_is_a_warning_and_one_beside_it_is_not() -> None:
    finding = only(
        findings(metadata={"io.modelcontextprotocol/x": "y", "io.modelcontextprotocol": "a", "com.x/y": "z"})
    )
    assert (finding.rule, finding.level, finding.kind) == ("F6", Level.WARNING, "metadata")
    assert "io.modelcontextprotocol/x" in finding.message
    assert "ignore" in finding.message


@pytest.mark.rule("F6")
def test_a_reserved_key_whose_value_is_not_a_string_is_two_warnings() -> None:
    found = findings(metadata={"io.modelcontextprotocol/": 1})
    assert [(finding.rule, finding.level) for finding in found] == [("F3", Level.WARNING), ("F6", Level.WARNING)]


@pytest.mark.rule("F3")
def test_every_field_out_of_format_is_reported_and_not_only_the_first() -> None:
    found = findings(name="A", description="", compatibility="", license=1, allowed_tools=[], metadata={"a": 1, "b": 2})
    kinds = [finding.kind for finding in found]
    assert kinds == ["name", "description", "compatibility", "license", "allowed-tools", "metadata", "metadata"]


def test_findings_carry_the_line_of_their_field_or_the_first_line_where_it_is_missing() -> None:
    found = list(field_findings({"name": "A", "metadata": {"a": 1}}, {"name": 3, "metadata": 7}))
    assert [(finding.kind, finding.line) for finding in found] == [("name", 3), ("description", 1), ("metadata", 7)]
    assert [finding.line for finding in field_findings({"name": "A"})] == [None, None]


@pytest.mark.rule("B4")
def test_findings_show_hostile_text_short_and_visible() -> None:
    started = time.process_time()
    hostile = "\u202e" + "A" * 1_000_000
    found = findings(name=hostile, metadata={hostile: 1, "io.modelcontextprotocol/" + hostile: "x"})
    assert len(found) == 3
    for finding in found:
        assert "\u202e" not in finding.message
        assert len(finding.message) < 400
        assert len(finding.fix or "") < 400
    assert time.process_time() - started < 15


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
keys = st.sampled_from(["name", "description", "compatibility", "license", "allowed-tools", "metadata"])


@pytest.mark.rule("F3")
@given(st.dictionaries(keys | st.text(), json_values))
def test_only_a_name_or_description_is_ever_an_error_whatever_the_fields_hold(fields: dict[str, object]) -> None:
    found = list(field_findings(fields, {}))
    errors = {finding.kind for finding in found if finding.level is Level.ERROR}
    assert errors <= {"name", "description"}
    assert ("name" in errors) == (name_problem(fields.get("name")) is not None)
    description = fields.get("description")
    good = isinstance(description, str) and bool(description.strip()) and len(description) <= 1024
    assert ("description" in errors) == (not good)


def test_a_finding_at_another_level_is_the_same_remark() -> None:
    finding = only(findings(license=1))
    assert finding.at(Level.ERROR) == Finding(
        rule="F3",
        level=Level.ERROR,
        kind="license",
        message="license is a number, not a string.",
        file="SKILL.md",
        line=None,
        fix="Quote it.",
    )
