"""What SEP-2076 says of a skill, from its entry alone."""

from __future__ import annotations

from typing import Any

import pytest

from skillquay.core.entries import DYNAMIC, SkillEntry
from skillquay.core.uris import SkillUri
from skillquay.dialects.sep2076 import Offered, SkillFile, argument_problem, definition, missing, summary

PLAIN = {"name": "refunds", "description": "Refund orders."}


def entry(**fields: Any) -> SkillEntry:
    return SkillEntry(uri=SkillUri("skill://refunds/SKILL.md"), frontmatter={**PLAIN, **fields}, resources=DYNAMIC)


@pytest.mark.rule("I14")
def test_a_skill_without_further_fields_has_a_name_and_a_description() -> None:
    assert summary(entry()) == PLAIN


@pytest.mark.rule("I14")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"title": "Refunds", "version": "1.0"}, {"title": "Refunds", "version": "1.0"}),
        ({"metadata": {"title": "Refunds", "version": "1.0"}}, {"title": "Refunds", "version": "1.0"}),
        ({"version": "2", "metadata": {"version": "1"}}, {"version": "2"}),
        ({"version": 2.1, "metadata": {"version": "1"}}, {"version": "2.1"}),
        ({"metadata": {"version": 3}}, {"version": "3"}),
        ({"version": True, "metadata": {"version": 0}}, {"version": "0"}),
        ({"tags": ["a", "b"]}, {"tags": ["a", "b"]}),
        ({"metadata": {"tags": "a, b,,"}}, {"tags": ["a", "b"]}),
        ({"metadata": {"tags": ["a"]}}, {"tags": ["a"]}),
        ({"tags": 5, "metadata": {"tags": "a"}}, {"tags": ["a"]}),
        ({"arguments": [{"name": "a", "required": True, "x": 1}]}, {"arguments": [{"name": "a", "required": True}]}),
        (
            {"dependencies": {"prompts": ["p", {"type": "ref/prompt", "name": "q"}]}},
            {"dependencies": {"prompts": [{"type": "ref/prompt", "name": each} for each in "pq"]}},
        ),
        (
            {"dependencies": {"resources": ["a://b", {"uri": "a://c"}], "tools": ["t"]}},
            {
                "dependencies": {
                    "tools": ["t"],
                    "resources": [{"type": "ref/resource", "uri": each} for each in ("a://b", "a://c")],
                }
            },
        ),
    ],
)
def test_a_field_of_the_right_shape_is_given(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert summary(entry(**fields)) == {**PLAIN, **expected}


@pytest.mark.rule("I7")
@pytest.mark.parametrize(
    "fields",
    [
        {"title": 5, "version": True, "tags": "a"},
        {"title": "", "version": "", "tags": []},
        {"metadata": "text"},
        {"metadata": {"version": [1], "tags": {"a": 1}}},
        {"tags": ["a", 5]},
        {"tags": ["a", ""]},
        {"arguments": {"name": "a"}},
        {"arguments": ["a"]},
        {"arguments": [{"name": "a"}, {"name": 5}]},
        {"arguments": [{"name": "a", "required": "yes"}]},
        {"arguments": [{"name": "a", "description": 5}]},
        {"arguments": [{"name": ""}]},
        {"dependencies": ["t"]},
        {"dependencies": {"tools": "t", "prompts": {"name": "p"}, "resources": 5}},
        {"dependencies": {"tools": [5], "prompts": [5], "resources": [{"type": "ref/prompt", "uri": "a://b"}]}},
    ],
)
def test_a_field_of_another_shape_is_left_out(fields: dict[str, Any]) -> None:
    assert summary(entry(**fields)) == PLAIN
    assert argument_problem(entry(**fields).frontmatter, {}) is None


@pytest.mark.rule("I14")
@pytest.mark.parametrize("body", ["", "Do it.\n", "\n---\nmore\r\n", "ünï"])
def test_the_instructions_are_the_body_to_the_letter(body: str) -> None:
    skill_md = f"---\nname: refunds\ndescription: Refund orders.\n---\n{body}".encode()
    files = [SkillFile(path="a/b.md", uri="skill://refunds/a/b.md", mime_type=None)]
    assert definition(entry(), skill_md, files) == {
        "description": "Refund orders.",
        "instructions": body,
        "files": [{"name": "a/b.md", "uri": "skill://refunds/a/b.md", "required": False}],
    }


@pytest.mark.rule("I7")
def test_a_required_argument_that_is_not_given_is_named() -> None:
    frontmatter = entry(arguments=[{"name": "a"}, {"name": "b\u202e", "required": True}]).frontmatter
    problem = argument_problem(frontmatter, {"a": "1", "other": "2"})
    assert problem is not None
    assert "b⟨U+202E⟩" in problem
    assert argument_problem(frontmatter, {"b\u202e": ""}) is None


@pytest.mark.rule("I7")
def test_what_is_missing_is_told_in_words() -> None:
    offered = Offered(tools=frozenset({"t"}), prompts=frozenset({"p"}), reads=lambda uri: uri == "a://b")
    depends = {"tools": ["t", "u"], "prompts": ["p", "q"], "resources": ["a://b", "a://c"]}
    found = missing(entry(dependencies=depends).frontmatter, offered)
    assert found == ['the tool "u"', 'the prompt "q"', "the resource a://c"]
    assert missing(entry().frontmatter, offered) == []
