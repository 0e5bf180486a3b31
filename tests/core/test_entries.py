"""Entries are accepted or refused one by one, each refusal naming its field; what is unknown is kept."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.entries import DYNAMIC, LIMITS, FileRecord, Limits, Manifest, SkillEntry, parse_entry
from skillquay.core.listings import parse_entries
from skillquay.core.uris import SkillUri
from skillquay.errors import EntryError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = "skill://acme/refunds"
DIGEST = str(Digest.of(b"x"))


def record(path: str = "SKILL.md", **changed: object) -> dict[str, Any]:
    return {"uri": f"{ROOT}/{path}", "digest": DIGEST, "size": 1} | changed


def entry(*records: object, **changed: object) -> dict[str, Any]:
    return {
        "uri": f"{ROOT}/SKILL.md",
        "frontmatter": {"name": "refunds", "description": "Process refunds."},
        "resources": list(records) or [record()],
    } | changed


def without(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def refusal(raw: object) -> EntryError:
    with pytest.raises(EntryError) as error:
        parse_entry(raw)
    assert error.value.message.startswith(f"{error.value.field}: ")
    assert len(error.value.message) < 1500
    return error.value


def manifest(raw: object) -> Manifest:
    resources = parse_entry(raw).resources
    assert isinstance(resources, Manifest)
    return resources


# --- What an entry is ---


@pytest.mark.rule("E1")
@pytest.mark.rule("E2")
def test_an_entry_is_read_as_it_was_published() -> None:
    parsed = parse_entry(entry(record(size=12), record("examples/email.md", size=30)))
    assert parsed.uri == "skill://acme/refunds/SKILL.md"
    assert parsed.root == "skill://acme/refunds"
    assert (parsed.name, parsed.description) == ("refunds", "Process refunds.")
    assert isinstance(parsed.resources, Manifest)
    assert len(parsed.resources) == 2
    assert parsed.resources.size == 42
    assert [file.uri for file in parsed.resources.files] == [f"{ROOT}/SKILL.md", f"{ROOT}/examples/email.md"]
    assert parsed.extra == {}


@pytest.mark.rule("E6")
def test_a_generated_skill_says_dynamic_and_has_no_files_to_verify() -> None:
    raw = entry(resources="dynamic")
    parsed = parse_entry(raw)
    assert parsed.resources == DYNAMIC
    assert parsed.to_json() == raw


@pytest.mark.rule("U1")
@pytest.mark.rule("E2")
def test_the_files_of_a_nested_skill_belong_to_the_enclosing_one() -> None:
    raw = entry(record(), record("sub/inner/SKILL.md"), record("sub/inner/a.md"))
    assert len(manifest(raw)) == 3


@pytest.mark.rule("U4")
@pytest.mark.rule("E2")
def test_an_entry_of_another_scheme_is_an_entry_like_any() -> None:
    uri = "github://owner/repo/skills/refunds/SKILL.md"
    parsed = parse_entry(entry(record(uri=uri), uri=uri))
    assert parsed.root == "github://owner/repo/skills/refunds"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(
    st.text().filter(lambda key: key not in {"uri", "frontmatter", "resources", "digest", "size"}), json_values
)


@pytest.mark.rule("E5")
@pytest.mark.rule("E1")
@given(unknown, unknown, unknown)
def test_unknown_fields_lose_nothing_and_travel_on(
    of_entry: dict[str, Any], of_record: dict[str, Any], of_frontmatter: dict[str, Any]
) -> None:
    frontmatter = of_frontmatter | {"name": "refunds", "description": "d"}
    raw = of_entry | entry(record(), of_record | record("a.md"), frontmatter=frontmatter)
    before = copy.deepcopy(raw)
    parsed = parse_entry(raw)
    assert parsed.to_json() == before
    assert raw == before
    assert parse_entry(parsed.to_json()) == parsed
    assert parsed.extra == of_entry
    assert isinstance(parsed.resources, Manifest)
    assert parsed.resources.files[1].extra == of_record
    assert dict(parsed.frontmatter) == frontmatter


@pytest.mark.rule("E5")
def test_fields_out_of_format_other_than_name_and_description_do_not_lose_an_entry() -> None:
    frontmatter = {"name": "refunds", "description": "d", "license": 5, "metadata": [1], "compatibility": ""}
    assert dict(parse_entry(entry(frontmatter=frontmatter)).frontmatter) == frontmatter


def test_an_entry_cannot_be_changed_from_outside_after_it_was_checked() -> None:
    raw = entry()
    parsed = parse_entry(raw)
    raw["frontmatter"]["name"] = "other"
    raw["resources"].append(record("late.md"))
    assert parsed.name == "refunds"
    assert isinstance(parsed.resources, Manifest)
    assert len(parsed.resources) == 1
    with pytest.raises(TypeError):
        parsed.frontmatter["name"] = "other"  # type: ignore[index]


# --- Each defect is refused, naming its field ---

DEFECTS: list[tuple[str, object, str, str]] = [
    ("null", None, "(entry)", "E1"),
    ("a list", [], "(entry)", "E1"),
    ("a string", "skill://a/SKILL.md", "(entry)", "E1"),
    ("a number", 5, "(entry)", "E1"),
    ("no uri", without(entry(), "uri"), "uri", "E1"),
    ("a null uri", entry(uri=None), "uri", "E1"),
    ("a uri that is a number", entry(uri=5), "uri", "E1"),
    ("a uri that is a list", entry(uri=[]), "uri", "E1"),
    ("an empty uri", entry(uri=""), "uri", "U3"),
    ("a uri that walks", entry(uri="skill://acme/x/../refunds/SKILL.md"), "uri", "U3"),
    ("a uri that walks when decoded", entry(uri="skill://acme/%2e%2e/refunds/SKILL.md"), "uri", "U3"),
    ("a uri without SKILL.md", entry(uri=ROOT), "uri", "U1"),
    ("a uri in lowercase", entry(uri=f"{ROOT}/skill.md"), "uri", "U1"),
    ("a uri that hides SKILL.md", entry(uri=f"{ROOT}/SKILL%2Emd"), "uri", "U1"),
    ("a uri of no directory", entry(uri="skill://SKILL.md"), "uri", "U1"),
    ("a uri with a trailing slash", entry(uri=f"{ROOT}/SKILL.md/"), "uri", "U3"),
    ("no frontmatter", without(entry(), "frontmatter"), "frontmatter", "E1"),
    ("null frontmatter", entry(frontmatter=None), "frontmatter", "E1"),
    ("frontmatter that is a list", entry(frontmatter=[]), "frontmatter", "E1"),
    ("frontmatter that is a string", entry(frontmatter="name: refunds"), "frontmatter", "E1"),
    ("no name", entry(frontmatter={"description": "d"}), "frontmatter.name", "F1"),
    ("no description", entry(frontmatter={"name": "refunds"}), "frontmatter.description", "F1"),
    ("a null name", entry(frontmatter={"name": None, "description": "d"}), "frontmatter.name", "F2"),
    ("a bad name", entry(frontmatter={"name": "Refunds", "description": "d"}), "frontmatter.name", "F2"),
    ("a bad description", entry(frontmatter={"name": "refunds", "description": 5}), "frontmatter.description", "F3"),
    ("no text", entry(frontmatter={"name": "refunds", "description": ""}), "frontmatter.description", "F3"),
    ("another name", entry(frontmatter={"name": "refund", "description": "d"}), "frontmatter.name", "U2"),
    ("the name of the prefix", entry(frontmatter={"name": "acme", "description": "d"}), "frontmatter.name", "U2"),
    ("no resources", without(entry(), "resources"), "resources", "E2"),
    ("null resources", entry(resources=None), "resources", "E2"),
    ("resources that are an object", entry(resources={}), "resources", "E2"),
    ("resources that are a record", entry(resources=record()), "resources", "E2"),
    ("resources that are true", entry(resources=True), "resources", "E2"),
    ("resources that are 0", entry(resources=0), "resources", "E2"),
    ("Dynamic", entry(resources="Dynamic"), "resources", "E2"),
    ("DYNAMIC", entry(resources="DYNAMIC"), "resources", "E2"),
    ("dynamic and a space", entry(resources="dynamic "), "resources", "E2"),
    ("an empty string", entry(resources=""), "resources", "E2"),
    ("an empty list", entry(resources=[]), "resources", "E2"),
    ("dynamic in a list", entry("dynamic"), "resources[0]", "E2"),
    ("a list without SKILL.md", entry(record("a.md")), "resources", "E2"),
    ("a list with another SKILL.md", entry(record("sub/SKILL.md")), "resources", "E2"),
    ("a list with SKILL.MD", entry(record("SKILL.MD")), "resources", "E2"),
    ("a record that is null", entry(record(), None), "resources[1]", "E2"),
    ("a record that is a string", entry(record(), f"{ROOT}/a.md"), "resources[1]", "E2"),
    ("a record that is a list", entry([record()]), "resources[0]", "E2"),
    ("a record without uri", entry(record(), without(record(), "uri")), "resources[1].uri", "E1"),
    ("a record with a null uri", entry(record(), record(uri=None)), "resources[1].uri", "E1"),
    ("a record with an empty uri", entry(record(), record(uri="")), "resources[1].uri", "U3"),
    ("a relative uri", entry(record(), record(uri="a.md")), "resources[1].uri", "U3"),
    ("a record that walks", entry(record(), record("../x/a.md")), "resources[1].uri", "U3"),
    ("a record that walks encoded", entry(record(), record("%2e%2e/a.md")), "resources[1].uri", "U3"),
    ("a record with an encoded slash", entry(record(), record("a%2fb")), "resources[1].uri", "U3"),
    ("a record with a backslash", entry(record(), record("a%5cb")), "resources[1].uri", "U3"),
    ("a record with NUL", entry(record(), record("a%00")), "resources[1].uri", "U3"),
    ("a directory record", entry(record(), record("sub/")), "resources[1].uri", "U3"),
    ("a record beside the skill", entry(record(), record(uri="skill://acme/other/a.md")), "resources[1].uri", "E2"),
    ("a longer name", entry(record(), record(uri="skill://acme/refunds2/a.md")), "resources[1].uri", "E2"),
    ("the directory itself", entry(record(), record(uri=ROOT)), "resources[1].uri", "E2"),
    ("the directory above", entry(record(), record(uri="skill://acme")), "resources[1].uri", "E2"),
    ("another scheme", entry(record(), record(uri="https://acme/refunds/a.md")), "resources[1].uri", "E2"),
    ("another first segment", entry(record(), record(uri="skill://ACME/refunds/a.md")), "resources[1].uri", "E2"),
    ("one file twice", entry(record(), record("a.md"), record("a.md")), "resources[2].uri", "E2"),
    ("SKILL.md twice", entry(record(), record()), "resources[1].uri", "E2"),
    ("one file in two spellings", entry(record(), record("Q&A.md"), record("Q%26A.md")), "resources[2].uri", "E2"),
    ("SKILL.md in two spellings", entry(record(), record("SKILL%2Emd")), "resources[1].uri", "E2"),
    ("SKILL: and skill:", entry(record(), record(uri="SKILL://acme/refunds/SKILL.md")), "resources[1].uri", "E2"),
    ("a letter in two spellings", entry(record(), record("%61"), record("a")), "resources[2].uri", "E2"),
    ("one file in two cases of hex", entry(record(), record("%c3%a4"), record("%C3%A4")), "resources[2].uri", "E2"),
    ("one file raw and encoded", entry(record(), record("ä"), record("%C3%A4")), "resources[2].uri", "E2"),
    ("a file that is a directory", entry(record(), record("a"), record("a/b")), "resources", "E2"),
    ("a file inside SKILL.md", entry(record(), record("SKILL.md/x")), "resources", "E2"),
    ("a directory before its file", entry(record("a/b/c/d"), record(), record("a/b")), "resources", "E2"),
    ("a file far above", entry(record("a/b/c/d/e"), record("a"), record()), "resources", "E2"),
    ("a file and a directory spelled apart", entry(record(), record("%61"), record("a/b")), "resources", "E2"),
    ("names between", entry(record(), record("a"), record("a!b"), record("a-b"), record("a/b")), "resources", "E2"),
]  # fmt: skip


@pytest.mark.rule("E1")
@pytest.mark.rule("E2")
@pytest.mark.rule("U1")
@pytest.mark.rule("U2")
@pytest.mark.rule("U3")
@pytest.mark.parametrize(("raw", "field", "rule"), [pytest.param(*rest, id=name) for name, *rest in DEFECTS])
def test_each_defect_is_refused_naming_its_field_and_rule(raw: object, field: str, rule: str) -> None:
    error = refusal(raw)
    assert (error.field, error.rule) == (field, rule)


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "uri",
    [
        "file:///acme/refunds/SKILL.md",
        "FILE:///acme/refunds/SKILL.md",
        "File://acme/refunds/SKILL.md",
        "fiLE://localhost/refunds/SKILL.md",
        "file:refunds/SKILL.md",
        "file:/refunds/SKILL.md",
        "data:text/plain,refunds/SKILL.md",
        "unix://acme/refunds/SKILL.md",
        "jar:file:///acme!/refunds/SKILL.md",
    ],
)
def test_a_local_file_is_refused_in_every_spelling_as_skill_and_as_record(uri: str) -> None:
    as_skill = refusal(entry(record(uri=uri), uri=uri))
    assert (as_skill.field, as_skill.rule) == ("uri", "X3")
    as_record = refusal(entry(record(), record(uri=uri)))
    assert (as_record.field, as_record.rule) == ("resources[1].uri", "X3")
    as_dynamic = refusal(entry(uri=uri, resources="dynamic"))
    assert as_dynamic.rule == "X3"


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "uri", [" file:///a", "\tfile:///a", "f\nile:///a", "%66ile:///a", "\u200bfile:///a", "/etc/passwd"]
)
def test_a_local_file_in_disguise_is_refused_too(uri: str) -> None:
    assert refusal(entry(record(), record(uri=uri))).field == "resources[1].uri"


@pytest.mark.rule("U2")
@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("skill://refunds/SKILL.md", "refunds"),
        ("skill://a/b/c/d/refunds/SKILL.md", "refunds"),
        ("skill://acme/ref%75nds/SKILL.md", "refunds"),
        ("skill://refunds/refunds/SKILL.md", "refunds"),
    ],
)
def test_the_last_segment_of_the_skill_path_decoded_once_is_the_name(uri: str, name: str) -> None:
    assert parse_entry(entry(record(uri=uri), uri=uri)).name == name
    wrong = {"name": "refundz", "description": "d"}
    assert refusal(entry(record(uri=uri), uri=uri, frontmatter=wrong)).rule == "U2"


@pytest.mark.rule("U2")
def test_the_name_is_the_directory_of_skill_md_and_no_other_segment() -> None:
    uri = "skill://refunds/other/SKILL.md"
    assert refusal(entry(record(uri=uri), uri=uri)).rule == "U2"


# --- Digest and size ---


@pytest.mark.rule("E3")
@pytest.mark.parametrize(
    "digest",
    [
        None,
        "",
        5,
        DIGEST.upper(),
        "sha256:" + DIGEST[7:].upper(),
        DIGEST[:-1],
        DIGEST + "0",
        DIGEST[7:],
        "sha1:" + DIGEST[7:],
        [DIGEST],
        DIGEST + "\n",
    ],
)
def test_a_digest_in_any_other_spelling_is_refused(digest: object) -> None:
    error = refusal(entry(record(), record("a.md", digest=digest)))
    assert (error.field, error.rule) == ("resources[1].digest", "E3")
    assert refusal(entry(without(record(), "digest"))).field == "resources[0].digest"


@pytest.mark.rule("E3")
@pytest.mark.parametrize(
    "size",
    [
        None,
        True,
        False,
        -1,
        -0.5,
        1.5,
        "5",
        "",
        [],
        {},
        float("nan"),
        float("inf"),
        -float("inf"),
        1e300,
        2**53 + 1,
        10**400,
    ],
    ids=lambda size: str(size)[:10],
)
def test_a_size_that_is_not_a_whole_number_of_bytes_is_refused(size: object) -> None:
    error = refusal(entry(record(), record("a.md", size=size)))
    assert (error.field, error.rule) == ("resources[1].size", "E3")
    assert refusal(entry(without(record(), "size"))).field == "resources[0].size"


@pytest.mark.rule("E3")
@pytest.mark.parametrize(("size", "read"), [(0, 0), (1, 1), (1.0, 1), (-0.0, 0), (16777216.0, 16777216)])
def test_a_size_is_a_whole_number_however_json_writes_it(size: float, read: int) -> None:
    files = manifest(entry(record(size=size))).files
    assert (files[0].size, type(files[0].size)) == (read, int)


# --- Limits ---


@pytest.mark.rule("E4")
def test_the_limits_are_512_files_and_16_mebibytes() -> None:
    assert (LIMITS.files, LIMITS.size) == (512, 16_777_216)
    assert LIMITS.problem(512, 16_777_216) is None
    assert LIMITS.problem(513, 0) == "the skill has 513 files; at most 512 are allowed"
    assert LIMITS.problem(0, 16_777_217) == "the skill has 16,777,217 bytes; at most 16,777,216 are allowed"


@pytest.mark.rule("E4")
def test_512_files_are_accepted_and_513_are_refused_with_the_reason() -> None:
    records = [record(), *(record(f"f{number}.md", size=0) for number in range(512))]
    assert len(manifest(entry(*records[:512]))) == 512
    error = refusal(entry(*records))
    assert (error.field, error.rule) == ("resources", "E4")
    assert "513 files; at most 512" in error.message


@pytest.mark.rule("E4")
@pytest.mark.parametrize("sizes", [(16_777_216,), (16_777_215, 1), (8_388_608, 8_388_608, 0)])
def test_16_mebibytes_are_accepted_and_one_byte_more_is_refused_with_the_reason(sizes: tuple[int, ...]) -> None:
    records = [record("SKILL.md" if number == 0 else f"{number}.md", size=size) for number, size in enumerate(sizes)]
    assert manifest(entry(*records)).size == 16_777_216
    records[0]["size"] += 1
    error = refusal(entry(*records))
    assert (error.field, error.rule) == ("resources", "E4")
    assert "16,777,217 bytes; at most 16,777,216" in error.message


@pytest.mark.rule("E4")
def test_too_many_records_are_refused_before_any_is_looked_at() -> None:
    started = time.process_time()
    error = refusal(entry(resources=[None] * 1_000_000))
    assert time.process_time() - started < 5
    assert "1,000,000 files" in error.message


@pytest.mark.rule("E4")
def test_sizes_whose_sum_python_could_not_print_are_refused_and_do_not_crash() -> None:
    huge = 9 * 10**4299
    assert refusal(entry(record(size=huge), record("a.md", size=huge))).rule in {"E3", "E4"}
    largest = [record(size=2**53), *(record(f"{number}.md", size=2**53) for number in range(511))]
    assert refusal(entry(*largest)).rule == "E4"


@pytest.mark.rule("E4")
def test_a_host_may_set_limits_of_its_own() -> None:
    raw = entry(record(size=5), record("a.md", size=5))
    assert parse_entry(raw, limits=Limits(files=2, size=10)).name == "refunds"
    for limits in (Limits(files=1, size=10), Limits(files=2, size=9)):
        with pytest.raises(EntryError, match="at most"):
            parse_entry(raw, limits=limits)
        accepted, refused = parse_entries([raw], limits=limits)
        assert (len(accepted), [each.rule for each in refused]) == (0, ["E4"])


# --- Listings ---


@pytest.mark.rule("E5")
def test_one_bad_entry_never_loses_the_others_and_each_refusal_says_which_and_why() -> None:
    def named(name: str) -> dict[str, Any]:
        uri = f"skill://{name}/SKILL.md"
        return entry(record(uri=uri), uri=uri, frontmatter={"name": name, "description": "d"})

    bad = [raw for _, raw, _, _ in DEFECTS]
    listing = [named("first"), *bad, named("last")]
    accepted, refused = parse_entries(listing)
    assert [each.name for each in accepted] == ["first", "last"]
    assert [each.index for each in refused] == list(range(1, len(bad) + 1))
    assert [(each.field, each.rule) for each in refused] == [(field, rule) for _, _, field, rule in DEFECTS]
    assert all(each.reason.startswith(each.field) for each in refused)


@pytest.mark.rule("E5")
@settings(max_examples=50)
@given(st.lists(st.sampled_from(range(len(DEFECTS))), max_size=6), st.lists(json_values, max_size=4), st.randoms())
def test_the_good_entries_of_any_listing_are_accepted_in_their_order(
    defects: list[int], junk: list[Any], random: Any
) -> None:
    good = []
    for number in range(5):
        uri = f"skill://s{number}/SKILL.md"
        good.append(entry(record(uri=uri), uri=uri, frontmatter={"name": f"s{number}", "description": "d"}))
    listing = [*good, *(DEFECTS[number][1] for number in defects), *junk]
    random.shuffle(listing)
    accepted, refused = parse_entries(listing)
    expected = [each["uri"] for each in listing if any(each is one for one in good)]
    assert [str(each.uri) for each in accepted] == expected
    assert len(accepted) + len(refused) == len(listing)


@pytest.mark.rule("E5")
def test_a_uri_that_was_listed_before_is_refused_in_every_spelling_and_the_first_stays() -> None:
    second = "skill://acme/ref%75nds/SKILL.md"
    accepted, refused = parse_entries([entry(), entry(), entry(record(uri=second), uri=second)])
    assert [each.to_json() for each in accepted] == [entry()]
    assert [(each.index, each.uri, each.field) for each in refused] == [
        (1, f"{ROOT}/SKILL.md", "uri"),
        (2, second, "uri"),
    ]


@pytest.mark.rule("E5")
def test_entries_of_one_uri_that_contradict_each_other_are_all_refused_and_the_others_stay() -> None:
    other = "skill://acme/billing/other/SKILL.md"
    good = {**entry(record(uri=other), uri=other), "frontmatter": {"name": "other", "description": "Another."}}
    accepted, refused = parse_entries([entry(), good, entry(resources="dynamic"), entry()])
    assert [str(each.uri) for each in accepted] == [other]
    assert [each.index for each in refused] == [0, 2, 3]
    assert all("different content" in each.reason for each in refused)


@pytest.mark.rule("E5")
def test_a_bad_entry_does_not_stand_in_the_way_of_a_good_one_of_the_same_uri() -> None:
    accepted, refused = parse_entries([entry(resources=None), entry()])
    assert len(accepted) == len(refused) == 1


@pytest.mark.rule("E5")
def test_extra_fields_that_nobody_could_write_down_again_are_left_out_and_lose_no_entry() -> None:
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    for odd in (deep, {"x": deep}, "\ud800", {"\udfff": 1}):
        accepted, refused = parse_entries([entry(record(extra=odd), _meta=odd)])
        assert refused == []
        assert accepted[0].to_json() == entry()
        accepted[0].to_text()


@pytest.mark.rule("B4")
def test_a_refused_entry_is_shown_short_and_visible() -> None:
    hostile = "skill://\u202e" + "x" * 100_000
    _, refused = parse_entries([entry(uri=hostile), entry(uri=5), 5, entry(record(uri=hostile))])
    assert [each.uri for each in refused][1:3] == ["(no uri)", "(no uri)"]
    for each in refused:
        assert "\u202e" not in each.uri + each.reason
        assert len(each.uri) < 200
        assert len(each.reason) < 500


@pytest.mark.rule("E5")
@given(
    st.lists(
        json_values
        | st.builds(
            lambda key, value: entry(**{key: value}), st.sampled_from(["uri", "frontmatter", "resources"]), json_values
        )
    )
)
def test_any_json_is_an_entry_or_a_refusal(listing: list[Any]) -> None:
    accepted, refused = parse_entries(listing)
    assert len(accepted) + len(refused) == len(listing)
    for each in accepted:
        assert parse_entry(json.loads(json.dumps(each.to_json()))) == each


@given(
    st.lists(
        st.builds(lambda key, value: record() | {key: value}, st.sampled_from(["uri", "digest", "size"]), json_values)
    )
)
def test_any_json_in_a_record_is_a_record_or_a_refusal(records: list[Any]) -> None:
    accepted, refused = parse_entries([entry(record(), *records)])
    assert len(accepted) + len(refused) == 1


# --- Manifests ---


def file(path: str, data: bytes = b"x", size: int = 1) -> FileRecord:
    return FileRecord(uri=SkillUri(f"{ROOT}/{path}"), digest=Digest.of(data), size=size)


def test_a_file_is_found_by_its_place_however_it_is_spelled() -> None:
    held = Manifest([file("SKILL.md"), file("Q%26A.md")])
    for _ in range(2):
        assert held.find(SkillUri(f"{ROOT}/Q&A.md")) == file("Q%26A.md")
        assert held.find(SkillUri(f"{ROOT}/SKILL%2emd")) == file("SKILL.md")
        assert held.find(SkillUri(f"{ROOT}/q&a.md")) is None
        assert held.find(SkillUri(ROOT)) is None
        assert held.find(SkillUri("https://acme/refunds/SKILL.md")) is None


def test_the_pairs_of_a_manifest_are_in_one_order_and_say_every_uri_and_digest() -> None:
    one = Manifest([file("SKILL.md"), file("a.md", b"a")])
    two = Manifest([file("a.md", b"a"), file("SKILL.md")])
    assert one.pairs == two.pairs == ((f"{ROOT}/SKILL.md", DIGEST), (f"{ROOT}/a.md", str(Digest.of(b"a"))))
    assert one != two
    assert hash(one) == hash(two)
    assert Manifest([file("SKILL.md", b"y")]).pairs != Manifest([file("SKILL.md")]).pairs


def test_manifests_are_equal_when_their_files_are() -> None:
    assert Manifest([file("a")]) == Manifest([file("a")])
    assert hash(Manifest([file("a")])) == hash(Manifest([file("a")]))
    assert Manifest([file("a")]) != Manifest([file("a", size=2)])
    assert Manifest([file("a")]) != "dynamic"
    assert repr(Manifest([file("a"), file("b", size=4)])) == "Manifest(2 files, 5 bytes)"


def test_records_and_entries_made_here_travel_without_extra_fields() -> None:
    made = SkillEntry(
        uri=SkillUri(f"{ROOT}/SKILL.md"),
        frontmatter={"name": "refunds", "description": "Process refunds."},
        resources=Manifest([file("SKILL.md")]),
    )
    assert made.to_json() == entry()
    assert parse_entry(made.to_json()) == made
    assert {type(value) for value in made.to_json().values()} == {str, dict, list}


# --- Cost ---

HOSTILE: dict[str, Callable[[int], str]] = {
    "deep": lambda number: "a/" * 2000 + str(number),
    "deep and apart at the top": lambda number: f"{number}/" + "a/" * 2000 + "x",
    "encoded": lambda number: "%41" * 1300 + str(number),
    "sorted around each other": lambda number: "a" * number + "/b",
}


@pytest.mark.rule("E2")
@pytest.mark.parametrize("family", HOSTILE)
def test_a_hostile_manifest_is_checked_in_linear_time(family: str) -> None:
    raw = entry(record(), *(record(HOSTILE[family](number)) for number in range(1, 512)))
    started = time.process_time()
    assert len(manifest(raw)) == 512
    assert time.process_time() - started < 15


@pytest.mark.rule("E5")
def test_a_hostile_name_of_a_megabyte_is_refused_in_no_time() -> None:
    raw = {"uri": "skill://a/SKILL.md", "frontmatter": {"name": "a" + "\u0301\u0316" * 500_000, "description": "d"}}
    with pytest.raises(EntryError, match="at most 64"):
        parse_entry({**raw, "resources": []})


@pytest.mark.rule("E1")
@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["\ud800"]])
def test_frontmatter_that_is_not_unicode_is_refused(value: object) -> None:
    raw = {"uri": "skill://a/SKILL.md", "frontmatter": {"name": "a", "description": "d", "x": value}}
    with pytest.raises(EntryError, match="not Unicode"):
        parse_entry({**raw, "resources": "dynamic"})


@pytest.mark.rule("E1")
def test_frontmatter_deeper_than_any_file_can_hold_is_refused_and_what_was_parsed_is_nobody_elses() -> None:
    deep: object = "x"
    for _ in range(5000):
        deep = [deep]
    raw: dict[str, object] = {"name": "a", "description": "d", "x": deep}
    with pytest.raises(EntryError, match="levels deep"):
        parse_entry({"uri": "skill://a/SKILL.md", "frontmatter": raw, "resources": "dynamic"})
    shared = {"k": "v"}
    raw = {"name": "a", "description": "d", "metadata": shared}
    entry = parse_entry({"uri": "skill://a/SKILL.md", "frontmatter": raw, "resources": "dynamic"})
    shared["k"] = "changed"
    assert entry.frontmatter["metadata"] == {"k": "v"}


@pytest.mark.rule("A1")
def test_what_an_entry_says_is_hashed_once_and_anew_for_another_entry() -> None:
    one = parse_entry(entry())
    shown = one.shown
    assert one.shown is shown
    other = replace(one, frontmatter={**one.frontmatter, "license": "MIT"})
    assert other.shown != shown
    assert one == parse_entry(entry()), "having been asked makes no difference"
    assert shown not in repr(one)


@pytest.mark.rule("E4")
@pytest.mark.rule("E5")
def test_frontmatter_without_end_refuses_its_entry_and_extra_fields_without_end_are_left_out() -> None:
    endless = [0] * 1_100_000
    raw = entry()
    with pytest.raises(EntryError, match="more than 1,048,576 characters"):
        parse_entry({**raw, "frontmatter": {**raw["frontmatter"], "x": endless}})
    accepted = parse_entry({**raw, "x": endless})
    assert accepted == parse_entry(raw)


@pytest.mark.rule("B2")
def test_metadata_that_breaks_the_format_in_many_places_costs_nothing() -> None:
    raw = entry()
    raw["frontmatter"] = {**raw["frontmatter"], "metadata": dict.fromkeys(map(str, range(150_000)), 0)}
    started = time.process_time()
    parse_entry(raw)
    assert time.process_time() - started < 10
