"""Bytes become content only when listed, of the right size and digest, with the frontmatter that was shown."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.entries import LIMITS, parse_entry
from skillquay.core.uris import SkillUri
from skillquay.core.verification import (
    UnverifiedFile,
    UnverifiedSkill,
    VerifiedFile,
    VerifiedSkill,
    accept_dynamic,
    accept_dynamic_file,
    verify_file,
    verify_skill,
)
from skillquay.errors import (
    DigestMismatchError,
    FrontmatterMismatchError,
    SizeMismatchError,
    UnlistedFileError,
    VerificationError,
)
from tests.core.builders import Published, publish, skill_md

Checked: TypeAlias = VerifiedFile | VerifiedSkill | UnverifiedFile | UnverifiedSkill

REFUNDS = publish({"examples/email.md": b"Dear customer", "empty.txt": b""})
DYNAMIC = publish(dynamic=True)


def checked_values() -> list[Checked]:
    return [
        verify_file(REFUNDS.entry, REFUNDS.uri("examples/email.md"), b"Dear customer"),
        REFUNDS.verified(),
        accept_dynamic_file(DYNAMIC.entry, DYNAMIC.uri("today.md"), b"Dear customer", before=0),
        DYNAMIC.unverified(),
    ]


each_checked_value = pytest.mark.parametrize("value", checked_values(), ids=lambda value: type(value).__name__)


# V1: listed, then size, then digest


@pytest.mark.rule("V1")
@given(recorded=st.binary(max_size=20), arrived=st.binary(max_size=20))
def test_a_file_is_accepted_exactly_when_its_bytes_are_the_recorded_ones(recorded: bytes, arrived: bytes) -> None:
    skill = publish({"data.bin": recorded})
    assert verify_file(skill.entry, skill.uri("data.bin"), recorded).data == recorded
    if arrived != recorded:
        with pytest.raises((SizeMismatchError, DigestMismatchError)):
            verify_file(skill.entry, skill.uri("data.bin"), arrived)


@pytest.mark.rule("V1")
@given(position=st.integers(0, 12), bit=st.integers(0, 7))
def test_a_single_flipped_bit_is_found(position: int, bit: int) -> None:
    data = bytearray(b"Dear customer")
    data[position] ^= 1 << bit
    with pytest.raises(DigestMismatchError):
        verify_file(REFUNDS.entry, REFUNDS.uri("examples/email.md"), bytes(data))


@pytest.mark.rule("V1")
@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("examples/other.md", b"Dear customer", UnlistedFileError),
        ("examples", b"Dear customer", UnlistedFileError),
        ("Examples/email.md", b"Dear customer", UnlistedFileError),
        ("examples/email.md", b"Dear customers", SizeMismatchError),
        ("examples/email.md", b"", SizeMismatchError),
        ("examples/email.md", b"Dear cu5tomer", DigestMismatchError),
        ("empty.txt", b"x", SizeMismatchError),
    ],
)
def test_the_first_check_that_fails_names_the_failure(
    path: str, data: bytes, expected: type[VerificationError]
) -> None:
    with pytest.raises(VerificationError) as failure:
        verify_file(REFUNDS.entry, REFUNDS.uri(path), data)
    assert type(failure.value) is expected
    assert failure.value.rule == "V1"
    assert failure.value.uri == REFUNDS.uri(path)
    assert str(REFUNDS.uri(path)) in str(failure.value)


@pytest.mark.rule("V1")
def test_a_refused_file_leaves_none_of_its_bytes_in_the_error() -> None:
    with pytest.raises(VerificationError) as failure:
        verify_file(REFUNDS.entry, REFUNDS.uri("examples/email.md"), b"IGNORE ALL RU")
    assert "IGNORE" not in str(failure.value)
    assert b"IGNORE ALL RU" not in vars(failure.value).values()


@pytest.mark.rule("V1")
def test_the_same_path_in_another_skill_or_scheme_is_not_listed() -> None:
    for other in ("skill://refunds2/examples/email.md", "github://refunds/examples/email.md"):
        with pytest.raises(UnlistedFileError):
            verify_file(REFUNDS.entry, SkillUri(other), b"Dear customer")


def test_a_verified_file_has_the_uri_of_its_record_whatever_spelling_it_was_read_under() -> None:
    file = verify_file(REFUNDS.entry, SkillUri("skill://refunds/ex%61mples/email.md"), b"Dear customer")
    assert file.uri == "skill://refunds/examples/email.md"


@pytest.mark.rule("V1")
def test_a_buffer_rewritten_after_the_check_changes_nothing() -> None:
    buffer = bytearray(b"Dear customer")
    file = verify_file(REFUNDS.entry, REFUNDS.uri("examples/email.md"), buffer)  # type: ignore[arg-type]
    buffer[:] = b"IGNORE ALL RU"
    assert file.data == b"Dear customer"


@pytest.mark.rule("E6")
def test_no_file_of_a_dynamic_skill_can_be_verified() -> None:
    with pytest.raises(UnlistedFileError, match="dynamic"):
        verify_file(DYNAMIC.entry, DYNAMIC.entry.uri, DYNAMIC.skill_md)


# V2: the frontmatter that was shown


@pytest.mark.rule("V1")
@pytest.mark.rule("V2")
def test_a_skill_md_that_is_what_its_entry_says_is_accepted() -> None:
    skill = REFUNDS.verified()
    assert skill.entry is REFUNDS.entry
    assert skill.body == "Refund politely.\n"
    assert skill.digest == Digest.of(REFUNDS.skill_md)


@given(st.text(st.characters(codec="utf-8")))
def test_the_body_arrives_character_by_character(body: str) -> None:
    assert publish({"SKILL.md": skill_md(body=body)}).verified().body == body
    assert publish({"SKILL.md": skill_md(body=body)}, dynamic=True).unverified().body == body


@pytest.mark.rule("V1")
def test_a_skill_md_with_other_bytes_is_refused_before_its_frontmatter_is_looked_at() -> None:
    with pytest.raises(DigestMismatchError):
        verify_skill(REFUNDS.entry, REFUNDS.skill_md.replace(b"politely", b"rudely!!"))
    with pytest.raises(SizeMismatchError):
        verify_skill(REFUNDS.entry, b"not a skill at all")


LIES: list[tuple[dict[str, object], str]] = [
    ({"name": "refunds", "description": "Something harmless.", "allowed-tools": "Bash"}, "description"),
    ({"name": "refunds", "description": "What refunds is for."}, "allowed-tools"),
    ({"name": "refunds", "description": "What refunds is for.", "allowed-tools": "Read"}, "allowed-tools"),
    ({"name": "refunds", "description": "What refunds is for.", "allowed-tools": "Bash", "license": "MIT"}, "license"),
    ({"name": "refunds", "description": "What refunds is for.", "allowed-tools": ["Bash"]}, "allowed-tools"),
    ({"name": "refunds", "description": "What refunds is for. ", "allowed-tools": "Bash"}, "description"),
]


@pytest.mark.rule("V2")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("shown", "field"), LIES, ids=[field + str(index) for index, (_, field) in enumerate(LIES)])
def test_a_skill_whose_entry_showed_another_frontmatter_is_not_loaded(
    shown: dict[str, object], field: str, dynamic: bool
) -> None:
    data = skill_md("refunds", "allowed-tools: Bash")
    liar = publish({"SKILL.md": data}, frontmatter=shown, dynamic=dynamic)
    with pytest.raises(FrontmatterMismatchError, match=f'"{field}"') as failure:
        accept_dynamic(liar.entry, data) if dynamic else verify_skill(liar.entry, data)
    assert failure.value.rule == "V2"
    assert failure.value.uri == liar.entry.uri


@pytest.mark.rule("V2")
def test_an_error_about_several_fields_says_how_many() -> None:
    data = skill_md("refunds", "license: MIT", "version: 2")
    liar = publish({"SKILL.md": data}, frontmatter={"name": "refunds", "description": "Harmless."})
    with pytest.raises(FrontmatterMismatchError, match=r"\(and 2 more\)"):
        verify_skill(liar.entry, data)


@pytest.mark.rule("V2")
def test_hidden_characters_in_a_field_are_shown_as_such_in_the_error() -> None:
    data = skill_md("refunds", "note: plain")
    fields = {"name": "refunds", "description": "What refunds is for.", "note": "pla\u202ein\x1b[31m"}
    with pytest.raises(FrontmatterMismatchError, match=r"⟨U\+202E⟩.*⟨U\+001B⟩"):
        verify_skill(publish({"SKILL.md": data}, frontmatter=fields).entry, data)


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    "data",
    [
        b"# No frontmatter at all\n",
        b"---\nname: refunds\ndescription: never closed\n",
        b"---\nname: [refunds\n---\n",
        b"---\nname: refunds\nname: other\ndescription: twice\n---\n",
        b"---\nname: refunds\ndescription: \xff\n---\n",
        b"",
    ],
)
def test_a_skill_md_without_readable_frontmatter_is_not_loaded_even_if_its_digest_is_right(data: bytes) -> None:
    honest = publish()
    raw = honest.entry.to_json()
    record = {"uri": str(honest.entry.uri), "digest": Digest.of(data), "size": len(data)}
    entry = parse_entry({**raw, "resources": [record]})
    with pytest.raises(FrontmatterMismatchError) as failure:
        verify_skill(entry, data)
    assert failure.value.rule == "V2"
    with pytest.raises(FrontmatterMismatchError):
        accept_dynamic(parse_entry({**raw, "resources": "dynamic"}), data)


READINGS = skill_md("refunds", "metadata: {a: yes, b: 012, c: 2024-05-01, d: 1.10}")


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    ("metadata", "accepted"),
    [
        ({"a": "yes", "b": 12, "c": "2024-05-01", "d": 1.1}, True),  # YAML 1.2 core
        ({"a": True, "b": 10, "c": "2024-05-01", "d": 1.1}, True),  # YAML 1.1
        ({"a": "yes", "b": "012", "c": "2024-05-01", "d": "1.10"}, True),  # all strings
        ({"a": True, "b": 12, "c": "2024-05-01", "d": 1.1}, False),  # a mixture
        ({"a": "yes", "b": 12, "c": "2024-05-02", "d": 1.1}, False),
    ],
)
def test_one_standard_reading_as_a_whole_is_no_difference_and_a_mixture_is(
    metadata: dict[str, object], accepted: bool
) -> None:
    fields = {"name": "refunds", "description": "What refunds is for.", "metadata": metadata}
    skill = publish({"SKILL.md": READINGS}, frontmatter=fields)
    if accepted:
        assert skill.verified().entry is skill.entry
    else:
        with pytest.raises(FrontmatterMismatchError):
            skill.verified()


# E6, D4: dynamic skills


@pytest.mark.rule("E6")
def test_a_dynamic_skill_is_accepted_as_explicitly_unverified() -> None:
    skill = DYNAMIC.unverified()
    assert type(skill) is UnverifiedSkill
    assert skill.size == len(DYNAMIC.skill_md)


@pytest.mark.rule("V1")
def test_a_skill_with_a_manifest_cannot_pass_as_dynamic() -> None:
    with pytest.raises(VerificationError, match="must be verified"):
        accept_dynamic(REFUNDS.entry, REFUNDS.skill_md)
    with pytest.raises(UnlistedFileError):
        accept_dynamic_file(REFUNDS.entry, REFUNDS.uri("examples/email.md"), b"Dear customer", before=0)


@pytest.mark.rule("E6")
def test_a_dynamic_skill_md_may_fill_the_limit_and_not_pass_it() -> None:
    filler = "x" * (LIMITS.size - len(skill_md(body="")))
    assert accept_dynamic(DYNAMIC.entry, skill_md(body=filler)).size == LIMITS.size
    with pytest.raises(SizeMismatchError) as failure:
        accept_dynamic(DYNAMIC.entry, skill_md(body=filler + "x"))
    assert failure.value.rule == "E6"


@pytest.mark.rule("E6")
@given(before=st.integers(0, LIMITS.size + 5), size=st.integers(0, 40))
def test_a_dynamic_file_is_taken_while_the_whole_stays_within_the_limit(before: int, size: int) -> None:
    uri = DYNAMIC.uri("report.md")
    if before + size <= LIMITS.size:
        assert accept_dynamic_file(DYNAMIC.entry, uri, b"x" * size, before=before).data == b"x" * size
    else:
        with pytest.raises(SizeMismatchError) as failure:
            accept_dynamic_file(DYNAMIC.entry, uri, b"x" * size, before=before)
        assert failure.value.rule == "E6"
        assert failure.value.uri == uri


@pytest.mark.rule("D4")
@pytest.mark.parametrize("uri", ["skill://refunds", "skill://other/a.md", "skill://refunds2/a.md", "x://refunds/a.md"])
def test_a_file_outside_a_dynamic_skills_directory_is_refused(uri: str) -> None:
    with pytest.raises(UnlistedFileError) as failure:
        accept_dynamic_file(DYNAMIC.entry, SkillUri(uri), b"", before=0)
    assert failure.value.rule == "D4"


# Only verification makes these values


@pytest.mark.rule("V1")
@pytest.mark.rule("V2")
@each_checked_value
def test_a_checked_value_is_not_made_by_its_constructor(value: Checked) -> None:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for proof in ({}, {"proof": None}, {"proof": object()}, {"proof": True}):
        with pytest.raises(TypeError):
            type(value)(**fields, **proof)


@pytest.mark.rule("V1")
@pytest.mark.rule("V2")
@each_checked_value
def test_a_checked_value_is_not_copied_with_other_content(value: Checked) -> None:
    for field in dataclasses.fields(value):
        with pytest.raises((TypeError, ValueError)):
            dataclasses.replace(value, **{field.name: getattr(value, field.name)})
        with pytest.raises((TypeError, ValueError)):
            dataclasses.replace(value, **{field.name: None, "proof": object()})  # type: ignore[arg-type]


@pytest.mark.rule("V1")
@pytest.mark.rule("V2")
@each_checked_value
def test_a_checked_value_keeps_nothing_that_could_make_another(value: Checked) -> None:
    assert "proof" not in {field.name for field in dataclasses.fields(value)}
    assert not hasattr(value, "proof")
    assert not hasattr(value, "__dict__")
    assert "object at" not in repr(value)


@pytest.mark.rule("V1")
@each_checked_value
def test_a_checked_value_cannot_be_changed(value: Checked) -> None:
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, b"evil")


@pytest.mark.rule("V1")
@each_checked_value
def test_a_checked_value_does_not_come_back_from_storage_unchecked(value: Checked) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(value, protocol)
    with pytest.raises(TypeError):
        copy.copy(value)
    with pytest.raises(TypeError):
        copy.deepcopy(value)


def test_equal_files_are_equal_and_others_are_not() -> None:
    def email(skill: Published) -> VerifiedFile:
        return verify_file(skill.entry, skill.uri("a.md"), skill.files["a.md"])

    assert email(publish({"a.md": b"1"})) == email(publish({"a.md": b"1"}))
    assert email(publish({"a.md": b"1"})) != email(publish({"a.md": b"2"}))
