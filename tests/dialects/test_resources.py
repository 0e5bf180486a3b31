"""Skills that are only shown as resources: FastMCP's manifests prove every file, bare files prove nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.entries import DYNAMIC, LIMITS
from skillquay.core.hidden import visible
from skillquay.core.uris import MAX_URI_LENGTH, SkillUri
from skillquay.dialects.resources import Candidate, find_candidates, read_bare, read_manifest
from skillquay.errors import EntryError
from tests.dialects.anything import ANYTHING

URI, MANIFEST = SkillUri("skill://refunds/SKILL.md"), SkillUri("skill://refunds/_manifest")
REFUNDS = Candidate(uri=URI, description="What refunds is for.", manifest=MANIFEST)
DIGEST = Digest.of(b"one")


def file(path: object = "SKILL.md", **more: object) -> dict[str, Any]:
    return {"path": path, "hash": DIGEST, "size": 3, **more}


def manifest(*files: object, **more: object) -> bytes:
    return json.dumps({"skill": "refunds", "files": files or [file()], **more}).encode()


# Which resources are skills


@pytest.mark.rule("I8", "I11")
def test_skills_are_found_by_their_scheme_and_the_name_of_their_file() -> None:
    listed = [
        {"uri": "skill://refunds/SKILL.md", "description": "What refunds is for."},
        {"uri": "skill://refunds/_manifest"},
        {"uri": "skill://acme/returns/SKILL.md"},
        {"uri": "skill://returns/_manifest", "description": "not beside it"},
        {"uri": "skill://SKILL.md"},
        {"uri": "skill://refunds/docs/skill.md"},
        {"uri": "https://acme.example/refunds/SKILL.md"},
        {"uri": "file:///refunds/SKILL.md"},
    ]
    assert find_candidates(listed) == [
        REFUNDS,
        Candidate(uri=SkillUri("skill://acme/returns/SKILL.md"), description="", manifest=None),
    ]


@pytest.mark.rule("I8")
def test_of_a_resource_that_is_listed_twice_the_first_counts_however_it_is_spelled() -> None:
    listed = [{"uri": URI, "description": "One."}, {"uri": "SKILL://refun%64s/SKILL.md", "description": "Two."}]
    assert [each.description for each in find_candidates(listed)] == ["One."]


@pytest.mark.rule("I8")
def test_resources_of_any_shape_are_looked_through() -> None:
    longest = "skill://" + "x" * (MAX_URI_LENGTH - len("skill:///SKILL.md")) + "/SKILL.md"
    odd: list[object] = [
        None,
        7,
        "skill://a/SKILL.md",
        [],
        {},
        {"uri": None},
        {"uri": 7},
        {"uri": "skill://a/../SKILL.md"},
    ]
    odd += [{"uri": f"x{longest}"}, {"uri": longest}, {"uri": URI, "description": ["x"]}, {"uri": "\ud800"}]
    assert [(each.uri, each.description) for each in find_candidates(odd)] == [(longest, ""), (URI, "")]


# Bare files


@pytest.mark.rule("I9")
def test_a_bare_skill_md_claims_what_its_listing_says_and_proves_nothing() -> None:
    entry = read_bare(REFUNDS)
    assert (entry.name, entry.description, entry.dialect) == ("refunds", "What refunds is for.", Dialect.BARE)
    assert (entry.assurance, entry.pairs, entry.resources) == (Assurance.NONE, None, DYNAMIC)
    assert entry.draft is not None
    assert entry.draft.claims == frozenset({"name", "description"})
    without = read_bare(Candidate(uri=URI, description="", manifest=None))
    assert without.draft is not None
    assert without.draft.claims == frozenset({"name"}), "what the host says in its stead is no claim of the server"


@pytest.mark.parametrize("uri", ["skill://Refunds/SKILL.md", "skill://a%20b/SKILL.md", "skill://%E2%80%AE/SKILL.md"])
def test_a_bare_skill_md_whose_directory_is_no_name_is_refused(uri: str) -> None:
    with pytest.raises(EntryError, match="name"):
        read_bare(Candidate(uri=SkillUri(uri), description="x", manifest=None))


# FastMCP's manifests


@pytest.mark.rule("I8", "I9")
def test_a_manifest_proves_every_file() -> None:
    entry = read_manifest(REFUNDS, manifest(file(), file("docs/a b.md", size=5, unknown=1), unknown=1))
    assert (entry.dialect, entry.assurance) == (Dialect.FASTMCP, Assurance.WHOLE)
    assert entry.pairs == (("skill://refunds/SKILL.md", DIGEST), ("skill://refunds/docs/a%20b.md", DIGEST))


BAD: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"{", "is not JSON"),
    "not UTF-8": (b"\xff", "is not JSON"),
    "deep": (b"[" * 100_000, "is not JSON"),
    "a list": (b"[]", "no array of at most"),
    "no files": (b'{"skill": "refunds"}', "no array of at most"),
    "files of no type": (b'{"skill": "refunds", "files": {}}', "no array of at most"),
    "too many files": (manifest(*[file(f"{n}.md") for n in range(LIMITS.files + 1)]), "no array of at most"),
    "another skill": (manifest(skill="returns"), "about another skill"),
    "no skill": (manifest(skill=None), "about another skill"),
    "a file of no type": (manifest(7), "without a path"),
    "a file without path": (manifest({"hash": DIGEST, "size": 3}), "without a path"),
    "a path of no type": (manifest(file(7)), "without a path"),
    "a path that walks": (manifest(file(), file("../returns/SKILL.md")), "never walk"),
    "an absolute path": (manifest(file(), file("/etc/passwd")), "empty segment"),
    "a path with a backslash": (manifest(file(), file("..\\x")), "backslash"),
    "an empty path": (manifest(file(), file("")), "empty segment"),
    "a long path": (manifest(file(), file("x" * 5000)), "characters long"),
    "half a character": (manifest(file(), file("\ud800")), "not UTF-8"),
    "no hash": (manifest(file(hash=None)), "a digest is"),
    "a bare hash": (manifest(file(hash=DIGEST[7:])), "a digest is"),
    "a weak hash": (manifest(file(hash="md5:" + "0" * 32)), "a digest is"),
    "no size": (manifest(file(size=None)), "whole number of bytes"),
    "a negative size": (manifest(file(size=-1)), "whole number of bytes"),
    "a size of no type": (manifest(file(size="3")), "whole number of bytes"),
    "no SKILL.md": (manifest(file("a.md")), "own SKILL.md is not listed"),
    "a file twice": (manifest(file(), file("a.md"), file("a.md")), "more than once"),
    "a file inside a file": (manifest(file(), file("a"), file("a/b")), "inside something listed as a file"),
    "too large": (manifest(file(size=LIMITS.size + 1)), "at most"),
}


@pytest.mark.rule("I8", "E5")
@pytest.mark.parametrize(("data", "words"), BAD.values(), ids=BAD.keys())
def test_a_manifest_that_cannot_be_used_is_refused_with_its_reason(data: bytes, words: str) -> None:
    with pytest.raises(EntryError) as refused:
        read_manifest(REFUNDS, data)
    assert words in refused.value.message


@pytest.mark.rule("I8")
@settings(max_examples=60)
@given(
    st.builds(lambda files, skill: {"files": files, "skill": skill}, ANYTHING, st.just("refunds") | ANYTHING) | ANYTHING
)
def test_whatever_a_manifest_is_it_is_an_entry_or_refused_in_a_sentence(value: Any) -> None:
    try:
        assert read_manifest(REFUNDS, json.dumps(value).encode()).assurance is Assurance.WHOLE
    except EntryError as error:
        assert visible(error.message) == error.message
    find_candidates(value if isinstance(value, list) else [value])
