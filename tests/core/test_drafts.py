"""What a draft lets a host verify is verified; what it does not is said, and no answer about it is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from skillquay.core.acting import ActingSkill
from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.core.context import render_file, render_skill
from skillquay.core.decisions import Ask, Policy, Proceed, Refuse, decide, decide_execution
from skillquay.core.digests import Digest
from skillquay.core.drafts import Archive, Assurance, Dialect, Draft
from skillquay.core.entries import DYNAMIC, SkillEntry
from skillquay.core.identity import SkillId
from skillquay.core.questions import About, Question
from skillquay.core.uris import SkillUri
from skillquay.core.verification import (
    accept_dynamic,
    accept_dynamic_file,
    accept_instructions,
    open_archive,
    verify_archive,
    verify_file,
    verify_skill,
)
from skillquay.errors import DigestMismatchError, FrontmatterMismatchError, UriError, VerificationError
from tests.core.builders import ACME, publish, skill_md

LISTED = publish({"a.md": b"alpha"})
PACKED = b"the bytes of an archive"
ARCHIVE = Archive(url=SkillUri("skill://refunds.zip"), digest=Digest.of(PACKED))
MD = LISTED.skill_md


def drafted(dialect: Dialect = Dialect.JUNE, *, listed: bool = False, **more: Any) -> SkillEntry:
    entry = replace(LISTED.entry, draft=Draft(dialect=dialect, **more))
    return entry if listed else replace(entry, resources=DYNAMIC)


SKILL_MD = drafted(skill_md=Digest.of(MD))
WHOLE = drafted(archive=ARCHIVE)
ALONE = drafted(archive=ARCHIVE, is_archive_only=True)
LOOSE = drafted(Dialect.MAY, archive=replace(ARCHIVE, digest=None), is_archive_only=True)
FASTMCP = drafted(Dialect.FASTMCP, listed=True, claims=frozenset({"name"}))
PRIMITIVE = drafted(Dialect.PRIMITIVE)
UNPROVEN = {"SKILL.md": SKILL_MD, "loose": LOOSE, "primitive": PRIMITIVE, "may": drafted(Dialect.MAY)}
PROVEN = {"archive": WHOLE, "archive alone": ALONE, "FastMCP": FASTMCP}


def skill_of(entry: SkillEntry) -> SkillId:
    return SkillId(server=ACME, uri=entry.identity)


# I9: how much is proven, and for whom an answer can be kept


@pytest.mark.rule("I9")
@pytest.mark.parametrize(
    ("entry", "assurance"),
    [
        (SKILL_MD, Assurance.SKILL_MD),
        (WHOLE, Assurance.WHOLE),
        (ALONE, Assurance.WHOLE),
        (LOOSE, Assurance.NONE),
        (FASTMCP, Assurance.WHOLE),
        (PRIMITIVE, Assurance.NONE),
        (drafted(Dialect.BARE), Assurance.NONE),
        (LISTED.entry, Assurance.WHOLE),
        (publish(dynamic=True).entry, Assurance.NONE),
    ],
)
def test_the_assurance_is_that_of_what_has_a_digest(entry: SkillEntry, assurance: Assurance) -> None:
    assert entry.assurance is assurance
    assert (entry.pairs is not None) == (assurance is Assurance.WHOLE)


@pytest.mark.rule("I9", "A3")
@pytest.mark.parametrize("entry", UNPROVEN.values(), ids=UNPROVEN)
def test_what_is_not_proven_whole_is_asked_about_each_time_and_nothing_of_it_is_kept(entry: SkillEntry) -> None:
    skill = skill_of(entry)
    asked = decide(skill, entry, None, Policy())
    assert isinstance(asked, Ask)
    assert not asked.can_be_kept
    assert "verified" in asked.question
    assert isinstance(decide(skill, entry, None, Policy(dynamic=False)), Refuse)
    executed = decide_execution([(skill, entry, None)])
    assert isinstance(executed, Ask)
    assert not executed.can_be_kept
    for grant in Grant:
        with pytest.raises(VerificationError) as refused:
            Approval.of(skill, entry, grant=grant, answer=Answer.ALLOW)
        assert refused.value.rule == "A3"


@pytest.mark.rule("I9", "A3")
def test_what_came_out_of_an_archive_without_a_digest_proves_no_more_than_before() -> None:
    opened = open_archive(LOOSE, LISTED.files)
    assert (opened.assurance, opened.pairs) == (Assurance.NONE, None)
    with pytest.raises(VerificationError):
        Approval.of(skill_of(opened), opened, grant=Grant.LOAD, answer=Answer.ALLOW)


@pytest.mark.rule("I9", "A1")
@pytest.mark.parametrize("entry", PROVEN.values(), ids=PROVEN)
def test_an_answer_is_kept_about_what_is_proven_whole(entry: SkillEntry) -> None:
    approval = Approval.of(skill_of(entry), entry, grant=Grant.LOAD, answer=Answer.ALLOW)
    assert decide(skill_of(entry), entry, approval, Policy()) == Proceed()


@pytest.mark.rule("I9", "I13")
def test_an_answer_about_an_archive_covers_what_comes_out_of_it() -> None:
    approval = Approval.of(skill_of(WHOLE), WHOLE, grant=Grant.LOAD, answer=Answer.ALLOW)
    opened = open_archive(WHOLE, LISTED.files)
    assert approval.covers(opened)
    assert opened.says == WHOLE.says


@pytest.mark.rule("I9", "A2")
@pytest.mark.parametrize("other", [LISTED.entry, WHOLE, FASTMCP, SKILL_MD, LOOSE, PRIMITIVE, drafted(Dialect.MAY)])
@pytest.mark.parametrize("approved", [LISTED.entry, WHOLE, FASTMCP])
def test_an_answer_never_crosses_to_another_dialect_of_the_same_content(
    approved: SkillEntry, other: SkillEntry
) -> None:
    approval = Approval.of(skill_of(approved), approved, grant=Grant.LOAD, answer=Answer.ALLOW)
    assert approval.covers(other) == (approved is other)
    if other.identity == approved.identity:
        assert isinstance(decide(skill_of(other), other, approval, Policy()), Proceed) == (approved is other)


@pytest.mark.rule("I9")
def test_entries_of_different_dialects_never_say_the_same() -> None:
    entries = [drafted(dialect) for dialect in Dialect] + [publish({"a.md": b"alpha"}, dynamic=True).entry]
    assert len({entry.says for entry in entries}) == len({entry.shown for entry in entries}) == len(entries)


@pytest.mark.rule("I13")
def test_an_entry_says_something_else_with_another_digest_or_archive() -> None:
    others = [
        replace(ARCHIVE, digest=Digest.of(b"x")),
        replace(ARCHIVE, url=SkillUri("skill://x.zip")),
        replace(ARCHIVE, media_type="application/gzip"),
    ]
    assert len({drafted(archive=each).says for each in [ARCHIVE, *others]}) == 4
    assert SKILL_MD.says != drafted(skill_md=Digest.of(b"x")).says


# I13: digests of June, before use


@pytest.mark.rule("I13", "V1")
def test_a_skill_md_with_a_digest_is_verified_before_its_frontmatter_is_looked_at() -> None:
    assert accept_dynamic(SKILL_MD, MD).body == "Refund politely.\n"
    for data in (MD + b"x", b"no frontmatter", b""):
        with pytest.raises(DigestMismatchError):
            accept_dynamic(SKILL_MD, data)


@pytest.mark.rule("I13", "V1")
def test_a_skill_md_with_a_digest_is_verified_when_it_is_read_as_a_file_too() -> None:
    assert accept_dynamic_file(SKILL_MD, SKILL_MD.uri, MD, before=0).data == MD
    with pytest.raises(DigestMismatchError):
        accept_dynamic_file(SKILL_MD, SkillUri("skill://refunds/SKILL%2Emd"), MD + b"x", before=0)
    assert accept_dynamic_file(SKILL_MD, SKILL_MD.root.child("a.md"), b"anything", before=0).data == b"anything"


@pytest.mark.rule("I13", "V1")
def test_an_archive_is_verified_where_it_has_a_digest() -> None:
    verify_archive(WHOLE, PACKED)
    verify_archive(LOOSE, b"anything")
    verify_archive(LISTED.entry, b"anything")
    with pytest.raises(DigestMismatchError):
        verify_archive(WHOLE, PACKED + b"x")


@pytest.mark.rule("I13", "V1", "V2")
def test_the_files_of_an_archive_are_verified_like_listed_ones() -> None:
    opened = open_archive(ALONE, LISTED.files)
    assert verify_skill(opened, MD).body == "Refund politely.\n"
    assert verify_file(opened, LISTED.uri("a.md"), b"alpha").data == b"alpha"
    with pytest.raises(DigestMismatchError):
        verify_file(opened, LISTED.uri("a.md"), b"alphA")
    with pytest.raises(VerificationError, match="not a file"):
        verify_file(opened, LISTED.uri("b.md"), b"beta")


@pytest.mark.rule("I13", "V2")
def test_an_archive_with_another_frontmatter_than_its_entry_is_refused() -> None:
    other = {**LISTED.files, "SKILL.md": skill_md("refunds", "license: MIT")}
    with pytest.raises(FrontmatterMismatchError, match="license"):
        verify_skill(open_archive(WHOLE, other), other["SKILL.md"])


@pytest.mark.rule("I13")
def test_an_archive_with_another_skill_md_than_the_entry_has_a_digest_of_is_refused() -> None:
    both = drafted(archive=ARCHIVE, skill_md=Digest.of(MD))
    assert open_archive(both, LISTED.files).resources == LISTED.entry.resources
    with pytest.raises(DigestMismatchError):
        open_archive(both, {**LISTED.files, "SKILL.md": skill_md(body="Refund rudely.\n")})


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.md": b"x"}, "holds no SKILL.md"),
        ({}, "holds no SKILL.md"),
        ({"SKILL.md": MD, "\u5b57" * 1000: b"x"}, "no URI can name"),
    ],
)
def test_an_archive_whose_files_cannot_be_a_skills_is_refused(files: dict[str, bytes], words: str) -> None:
    with pytest.raises(VerificationError, match=words):
        open_archive(WHOLE, files)


@pytest.mark.rule("I2", "I8", "V2")
def test_of_a_frontmatter_that_was_listed_in_part_that_part_is_compared() -> None:
    more = publish({"SKILL.md": skill_md("refunds", "license: MIT")})
    claimed = replace(
        LISTED.entry, resources=DYNAMIC, draft=Draft(dialect=Dialect.MAY, claims=frozenset({"name", "description"}))
    )
    assert accept_dynamic(claimed, more.skill_md).body == "Refund politely.\n"
    lying = replace(claimed, frontmatter={"name": "refunds", "description": "Something else."})
    with pytest.raises(FrontmatterMismatchError, match="description"):
        accept_dynamic(lying, more.skill_md)
    nameless = replace(claimed, draft=Draft(dialect=Dialect.BARE, claims=frozenset({"name"})))
    assert accept_dynamic(replace(nameless, frontmatter=lying.frontmatter), MD).size == len(MD)


@pytest.mark.rule("I7", "E6")
def test_instructions_are_taken_only_in_the_dialect_that_has_no_skill_md_and_within_the_limit() -> None:
    assert accept_instructions(PRIMITIVE, "Do it.").size == 6
    for entry in (SKILL_MD, LISTED.entry, drafted(Dialect.MAY)):
        with pytest.raises(VerificationError):
            accept_instructions(entry, "Do it.")
    with pytest.raises(VerificationError, match="at most"):
        accept_instructions(PRIMITIVE, "x" * (16 * 1024 * 1024 + 1))


# N1: identities


@pytest.mark.rule("I13", "N1")
def test_a_skill_of_archives_alone_is_known_by_its_archive_everywhere() -> None:
    opened = verify_skill(open_archive(ALONE, LISTED.files), MD)
    with pytest.raises(TypeError):
        ActingSkill(skill=LISTED.id(), loaded=opened)
    acting = ActingSkill(skill=skill_of(ALONE), loaded=opened)
    assert acting.locate("a.md") == "skill://refunds/a.md"
    with pytest.raises(TypeError):
        render_skill(opened, LISTED.id())
    with pytest.raises(VerificationError):
        Approval.of(LISTED.id(), ALONE, grant=Grant.LOAD, answer=Answer.ALLOW)


# What people and models are told


@pytest.mark.rule("I9", "A5")
@pytest.mark.parametrize("entry", [*UNPROVEN.values(), *PROVEN.values()])
def test_the_question_says_what_the_server_speaks_and_what_that_proves(entry: SkillEntry) -> None:
    shown = "\n".join(Question(about=About.LOAD, text="Load?", skill=skill_of(entry), entry=entry).lines())
    assert f"served as     {entry.dialect}: {entry.assurance}" in shown
    packed = entry.draft is not None and entry.draft.archive is not None
    assert ("in the archive skill://refunds.zip" in shown) == packed


@pytest.mark.rule("I9", "O1")
def test_the_tags_say_what_was_proven() -> None:
    texts = {
        "SKILL.md": render_skill(accept_dynamic(SKILL_MD, MD), skill_of(SKILL_MD)),
        "loose": render_skill(verify_skill(open_archive(LOOSE, LISTED.files), MD), skill_of(LOOSE)),
        "archive": render_skill(verify_skill(open_archive(WHOLE, LISTED.files), MD), skill_of(WHOLE)),
        "primitive": render_skill(accept_instructions(PRIMITIVE, "Do it."), skill_of(PRIMITIVE)),
    }
    assert {name: text.partition('content="')[2].partition('"')[0] for name, text in texts.items()} == {
        "SKILL.md": "as listed by that server; a digest covers SKILL.md alone",
        "loose": "not verified; no digest covers its files",
        "archive": "as listed by that server; a digest covers every file",
        "primitive": "not verified; no digest covers its files",
    }
    file = verify_file(open_archive(LOOSE, LISTED.files), LISTED.uri("a.md"), b"alpha")
    assert 'content="not verified; no digest covers its files"' in render_file(file, skill_of(LOOSE))
    proven = verify_file(open_archive(ALONE, LISTED.files), LISTED.uri("a.md"), b"alpha")
    assert "content=" not in render_file(proven, skill_of(ALONE))


# As it is kept


@pytest.mark.parametrize("entry", [SKILL_MD, WHOLE, ALONE, LOOSE, FASTMCP])
def test_what_is_kept_of_a_draft_comes_back_as_it_was(entry: SkillEntry) -> None:
    assert entry.draft is not None
    assert Draft.from_json(json.loads(json.dumps(entry.draft.to_json()))) == entry.draft


@pytest.mark.parametrize(
    "spoiled",
    [
        {"dialect": "v9"},
        {"archive": ["file:///x.zip", None, None]},
        {"archive": ["skill://x.zip", None, "md5:0"]},
        {"archive": ["skill://x.zip"]},
        {"skill_md": "x"},
        {"claims": 7},
    ],
)
def test_what_is_spoiled_does_not_come_back(spoiled: dict[str, Any]) -> None:
    assert WHOLE.draft is not None
    with pytest.raises((TypeError, ValueError, UriError)):  # each counts as spoiled to whoever reads it
        Draft.from_json({**WHOLE.draft.to_json(), **spoiled})
