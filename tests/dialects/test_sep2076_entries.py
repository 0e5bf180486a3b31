"""SEP-2076's skills become entries that are known by name; where their files are read stays their server's affair."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.entries import LIMITS, SkillEntry
from skillquay.core.hidden import visible
from skillquay.dialects.sep2076_entries import is_remote, read_got, read_listed, why_not_given
from skillquay.errors import EntryError
from tests.dialects.anything import ANYTHING

LISTED = {"name": "refunds", "description": "What refunds is for."}


def places(*files: object, of: SkillEntry | None = None) -> dict[str, str]:
    """Where each file of a skill is read, by the URI this host gives it."""
    entry, _ = read_got(of or read_listed(LISTED), {"instructions": "Do.", "files": list(files)})
    assert entry.draft is not None
    return {"/".join(key[2:]): place for key, place in entry.draft.places.items()}


@pytest.mark.rule("I7", "I9", "I14")
def test_a_listed_skill_is_known_by_its_name_and_proves_nothing() -> None:
    more = {"title": "Refunds", "version": "1", "tags": ["a"], "arguments": [{"name": "x"}], "dependencies": []}
    entry = read_listed({**LISTED, **more, "unknown": 1})
    assert (entry.uri, entry.identity) == ("skill://refunds/SKILL.md", "skill://refunds/SKILL.md")
    assert entry.frontmatter == {**more, **LISTED}
    assert (entry.dialect, entry.assurance, entry.pairs) == (Dialect.PRIMITIVE, Assurance.NONE, None)


def test_a_skill_without_description_has_its_title_for_one() -> None:
    assert read_listed({"name": "refunds", "title": "Refunds"}).description == "Refunds"
    assert read_listed({"name": "refunds"}).description == "(its server does not describe it)"


@pytest.mark.rule("I7", "E5")
@pytest.mark.parametrize(
    "item",
    [
        None,
        7,
        [],
        {},
        {"name": None},
        {"name": 7},
        {"name": ""},
        {"name": "a/b"},
        {"name": ".."},
        {"name": "Refunds"},
        {"name": "x" * 65},
        {"name": "x" * 5000},
        {"name": "\ud800"},
        {"name": "\u202ex"},
        {**LISTED, "description": ["x"]},
        {**LISTED, "description": "x" * 1025},
        {**LISTED, "tags": ["\ud800"]},
        {**LISTED, "arguments": "x" * 2_000_000},
    ],
    ids=lambda item: str(item)[:40],
)
def test_a_listed_skill_that_cannot_be_used_is_refused(item: object) -> None:
    with pytest.raises(EntryError) as refused:
        read_listed(item)
    assert len(refused.value.message) < 1000
    assert visible(refused.value.message) == refused.value.message


@pytest.mark.rule("I7", "I14")
def test_the_files_of_a_skill_have_the_paths_its_instructions_name_them_by() -> None:
    assert places(
        {"name": "docs/letter.md", "uri": "skill://refunds/docs/letter.md"},
        {"name": "Form", "uri": "file:///srv/skills/refunds/forms/a.pdf"},
        {"name": "table", "uri": "acme://tables/7.csv?x=1#y"},
        {"name": "seven", "uri": "urn:acme:7"},
        {"name": "spaces", "uri": "skill://refunds/docs/a%20b.md"},
        {"name": "other", "uri": "https://acme.example/letter.md"},
    ) == {
        "docs/letter.md": "skill://refunds/docs/letter.md",
        "forms/a.pdf": "file:///srv/skills/refunds/forms/a.pdf",
        "7.csv": "acme://tables/7.csv?x=1#y",
        "seven": "urn:acme:7",
        "docs/a b.md": "skill://refunds/docs/a%20b.md",
        "letter.md": "https://acme.example/letter.md",
    }


@pytest.mark.rule("I14")
def test_a_path_is_given_to_one_file_only_and_the_instructions_are_no_file() -> None:
    assert places(
        {"name": "one", "uri": "acme://a/x.md"},
        {"name": "two", "uri": "acme://b/x.md"},
        {"name": "two", "uri": "acme://c/x.md"},
        {"name": "SKILL.md", "uri": "skill://refunds/SKILL.md"},
    ) == {"x.md": "acme://a/x.md", "two": "acme://b/x.md"}


@pytest.mark.rule("I14")
@pytest.mark.parametrize(
    "file",
    [
        None,
        7,
        "skill://refunds/a.md",
        {},
        {"uri": None},
        {"uri": ["x"]},
        {"uri": "a.md"},
        {"uri": "/etc/passwd"},
        {"uri": "C:\\x\n"},
        {"uri": "skill://x\u202e/a.md"},
        {"uri": "skill://x\ud800/a.md"},
        {"uri": "skill://" + "x" * 5000},
        {"uri": "acme://x/..", "name": ".."},
        {"uri": "acme://x/%2e%2e", "name": ".."},
        {"uri": "acme://refunds/..%2F..%2Fx%00", "name": "."},
        {"uri": "acme://", "name": "../../x"},
        {"uri": "acme://", "name": ["x"]},
        {"uri": "acme://", "name": "/etc/passwd"},
        {"uri": "acme://", "name": "a\\b"},
        {"uri": "acme://", "name": "\ud800"},
    ],
    ids=lambda file: str(file)[:40],
)
def test_what_is_no_usable_file_is_left_out_and_the_others_work(file: object) -> None:
    assert places(file, {"name": "a", "uri": "skill://refunds/a.md"}) == {"a.md": "skill://refunds/a.md"}


@pytest.mark.rule("E4")
def test_of_too_many_files_the_first_ones_are_taken() -> None:
    assert len(places(*({"uri": f"acme://x/{n}.md"} for n in range(LIMITS.files + 9)))) == LIMITS.files


@pytest.mark.rule("I7")
@pytest.mark.parametrize("instructions", [None, 7, ["x"], "half \ud800 a character"])
def test_an_answer_without_instructions_is_refused(instructions: object) -> None:
    with pytest.raises(EntryError, match="instructions"):
        read_got(read_listed(LISTED), {"instructions": instructions})


@pytest.mark.rule("I7")
def test_required_arguments_are_told() -> None:
    arguments = [
        {"name": "a", "required": True},
        {"name": "b"},
        {"name": "c", "required": "yes"},
        7,
        {"required": True},
    ]
    assert '("a", "None")' in why_not_given(read_listed({**LISTED, "arguments": arguments}))
    assert not why_not_given(read_listed({**LISTED, "arguments": {"name": "a"}}))
    assert not why_not_given(read_listed(LISTED))


@pytest.mark.rule("I14")
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("https://acme.example/a.md", True),
        ("HTTP://127.0.0.1/a.md", True),
        ("git+ssh://acme.example/a.git", True),
        ("s3://bucket/a.md", True),
        ("smb://host/a.md", True),
        ("file://host/share/a.md", True),
        ("FILE:\\\\host\\share\\a.md", True),
        ("file:////host/share/a.md", True),
        ("file://host/share/file:/a.md", True),
        ("file:///a?file:///b", True),
        ("file:/a/..//host/b", True),
        ("file:///%2f%2fhost/a", True),
        ("jar:https://acme.example/a.jar", True),
        ("jar:file://host/a!/file:/b", True),
        ("jar:file:///a.jar", False),
        ("file:///srv/a.md", False),
        ("file://localhost/srv/a.md", False),
        ("file:/srv/a.md", False),
        ("skill://refunds/a.md", False),
        ("acme://tables/7", False),
        ("a.md", False),
    ],
)
def test_a_uri_is_remote_where_its_server_would_have_to_reach_out_for_it(uri: str, expected: bool) -> None:
    assert is_remote(uri) is expected


_answer = st.dictionaries(st.sampled_from(["instructions", "files"]), ANYTHING | st.lists(ANYTHING, max_size=4))


@pytest.mark.rule("I7")
@settings(max_examples=60)
@given(ANYTHING | st.fixed_dictionaries({"name": st.just("refunds")}, optional={"arguments": ANYTHING}), _answer)
def test_whatever_a_server_answers_is_a_skill_or_refused_in_a_sentence(item: Any, answer: dict[str, Any]) -> None:
    try:
        why_not_given(read_listed(item))
    except EntryError as error:
        assert visible(error.message) == error.message
    try:
        read_got(read_listed(LISTED), answer)
    except EntryError as error:
        assert visible(error.message) == error.message
