"""`skill://index.json` of either draft becomes entries: each accepted or refused alone, none of more than it proves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.archives.formats import ArchiveFormat, find_format
from skillquay.core.digests import Digest
from skillquay.core.drafts import Archive, Assurance, Dialect
from skillquay.core.entries import DYNAMIC
from skillquay.core.hidden import visible
from skillquay.core.uris import SkillUri
from skillquay.dialects.index_json import Index, read_index
from skillquay.errors import EntryError, UnavailableError
from skillquay.wire.index_json import SCHEMA
from tests.dialects.anything import ANYTHING, LEAF

MOST = 10_000
D1, D2 = Digest.of(b"one"), Digest.of(b"two")
REFUNDS = {"name": "refunds", "description": "What refunds is for."}
URL = "skill://refunds/SKILL.md"
TAR, ZIP = "skill://refunds.tar.gz", "skill://refunds.zip"


def read(*skills: object, **more: object) -> Index:
    return read_index(json.dumps({**more, "skills": skills}).encode(), most=MOST)


def june(url: str | None = URL, *archives: object, **more: object) -> dict[str, Any]:
    """An entry of the June draft."""
    item: dict[str, Any] = {"frontmatter": REFUNDS}
    item |= {} if url is None else {"url": url, "digest": D1}
    item |= {"archives": list(archives)} if archives else {}
    return item | more


def packed(url: str = TAR, digest: object = D2, **more: object) -> dict[str, Any]:
    """One of the archives of an entry of June."""
    return {"url": url, "digest": digest, **more}


def may(kind: str = "skill-md", url: str = URL, **more: object) -> dict[str, Any]:
    """An entry of the April-May draft."""
    return {"type": kind, **REFUNDS, "url": url, **more}


OTHER = may(url="skill://other/SKILL.md", name="other")


def only(*skills: object) -> Any:
    """The one entry of an index of which nothing is refused."""
    index = read(*skills)
    assert index.refused == ()
    (entry,) = index.entries
    return entry


# What each draft says, and how much that proves


@pytest.mark.rule("I1", "I9")
def test_a_june_entry_of_single_files_proves_its_skill_md_and_no_more() -> None:
    front = {**REFUNDS, "license": "MIT", "x": [1, {"y": None}]}
    entry = only(june(frontmatter=front, unknown={"a": 1}))
    assert (entry.uri, entry.identity, entry.dialect) == (URL, URL, Dialect.JUNE)
    assert entry.frontmatter == front, "verbatim"
    assert (entry.draft.skill_md, entry.draft.claims, entry.draft.archive) == (D1, None, None)
    assert (entry.assurance, entry.resources, entry.pairs) == (Assurance.SKILL_MD, DYNAMIC, None)


@pytest.mark.rule("I1", "I9")
def test_a_june_archive_covers_the_whole_skill() -> None:
    entry = only(june(URL, packed(mimeType="application/gzip")))
    assert entry.identity == URL
    assert entry.draft.archive == Archive(url=SkillUri(TAR), media_type="application/gzip", digest=D2)
    assert (entry.assurance, entry.pairs) == (Assurance.WHOLE, ((TAR, D2),))


@pytest.mark.rule("I13")
def test_a_june_skill_of_archives_alone_lives_under_its_name_and_is_known_by_its_archive() -> None:
    entry = only(june(None, packed("skill://packed/v2/anything.zip")))
    assert (entry.uri, entry.root, entry.identity) == (URL, "skill://refunds", "skill://packed/v2/anything.zip")
    assert entry.assurance is Assurance.WHOLE


@pytest.mark.rule("I2", "I9")
def test_a_may_entry_proves_nothing_whatever_else_it_carries() -> None:
    entry = only(may(digest=D1, archives=[packed()]))
    assert (entry.uri, entry.dialect, entry.frontmatter) == (URL, Dialect.MAY, REFUNDS)
    assert entry.draft.claims == {"name", "description"}
    assert (entry.assurance, entry.pairs, entry.draft.skill_md, entry.draft.archive) == (
        Assurance.NONE,
        None,
        None,
        None,
    )


@pytest.mark.rule("I2", "I9", "I13")
@pytest.mark.parametrize(
    ("url", "media_type", "root"),
    [
        (TAR, None, "skill://refunds"),
        ("skill://acme/refunds.zip", None, "skill://acme/refunds"),
        ("skill://acme/refunds.ZIP", None, "skill://acme/refunds"),
        ("skill://acme/refunds", "application/zip", "skill://acme/refunds"),
        ("acme://x/refunds.zip", "application/gzip; version=1", "acme://x/refunds"),
    ],
)
def test_a_may_archive_lives_where_it_is_without_its_suffix_and_proves_nothing(
    url: str, media_type: str | None, root: str
) -> None:
    entry = only(may("archive", url, mimeType=media_type))
    assert (entry.uri, entry.root, entry.identity) == (f"{root}/SKILL.md", root, url)
    assert entry.draft.archive == Archive(url=SkillUri(url), media_type=media_type)
    assert (entry.assurance, entry.pairs) == (Assurance.NONE, None)


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("media_type", "url", "expected"),
    [
        ("application/gzip", "skill://a.zip", ArchiveFormat.TAR_GZ),
        ("Application/ZIP; x=1", "skill://a.tar.gz", ArchiveFormat.ZIP),
        ("application/octet-stream", "skill://a.tar.gz", ArchiveFormat.TAR_GZ),
        (None, "skill://a.ZIP", ArchiveFormat.ZIP),
        (None, "skill://a", None),
        (None, "skill://a.tgz", None),
    ],
)
def test_the_format_of_an_archive_is_its_media_types_and_else_its_suffixs(
    media_type: str | None, url: str, expected: ArchiveFormat | None
) -> None:
    assert find_format(media_type, url) is expected
    index = read(june(None, packed(url, mimeType=media_type)))
    assert len(index.entries) == (expected is not None)


@pytest.mark.rule("I3")
def test_the_first_archive_in_a_known_format_is_used_and_all_of_them_are_remembered() -> None:
    strange = packed("skill://refunds.7z", D1, mimeType="application/x-7z-compressed")
    entry = only(june(None, strange, packed(ZIP), packed(TAR)))
    assert entry.draft.archive.url == entry.identity == ZIP
    assert entry.draft.archive_urls == ("skill://refunds.7z", ZIP, TAR)
    assert only(june(URL, strange)).assurance is Assurance.SKILL_MD, "its files can still be read one by one"


@pytest.mark.rule("I2", "I13")
@pytest.mark.parametrize("turned", [False, True])
def test_a_may_skill_and_its_archive_of_one_path_are_one_skill(turned: bool) -> None:
    pair = [may(), may("archive", TAR), may("archive", ZIP)]
    entry = only(*(pair[::-1] if turned else pair))
    assert (entry.identity, entry.draft.archive) == (URL, None)
    assert set(entry.draft.archive_urls) == {TAR, ZIP}


@pytest.mark.rule("I2")
def test_entries_of_unknown_types_are_skipped() -> None:
    index = read(may("mcp-prompt"), may("future", url="file:///etc/passwd"), OTHER, {"type": ""})
    assert [entry.name for entry in index.entries] == ["other"]
    assert index.refused == ()


@pytest.mark.rule("I5")
def test_templates_are_kept_for_people_and_are_no_entries() -> None:
    index = read(
        {
            "type": "mcp-resource-template",
            "description": "One of each product.",
            "url": "skill://docs/{product}/SKILL.md",
        },
        {"type": "mcp-resource-template", "url": "skill://docs/{product}/SKILL.md"},
        OTHER,
    )
    assert [(each.name, each.url) for each in index.templates] == [("", "skill://docs/{product}/SKILL.md")]
    assert [entry.name for entry in index.entries] == ["other"]
    assert [refused.field for refused in index.refused] == ["description"]


@pytest.mark.rule("I1", "I2")
def test_one_document_for_both_drafts_lists_each_skill_once_as_the_later_one() -> None:
    both = {**may(), **june(URL, packed())}
    index = read_index(json.dumps({"$schema": SCHEMA, "skills": [both]}).encode(), most=MOST)
    assert [(entry.dialect, entry.assurance) for entry in index.entries] == [(Dialect.JUNE, Assurance.WHOLE)]
    assert index.dialect is Dialect.JUNE


@pytest.mark.rule("I1", "I2", "I9")
def test_a_generated_skill_in_such_a_document_has_no_digest_and_proves_nothing() -> None:
    entry = only({**may(), "frontmatter": REFUNDS})
    assert (entry.dialect, entry.assurance) == (Dialect.JUNE, Assurance.NONE)


@pytest.mark.rule("I1", "I2", "I9")
def test_entries_of_both_drafts_in_one_document_are_each_read_as_what_they_are() -> None:
    index = read(OTHER, june(), **{"$schema": SCHEMA})
    assert [(entry.name, entry.dialect) for entry in index.entries] == [
        ("other", Dialect.MAY),
        ("refunds", Dialect.JUNE),
    ]
    assert index.refused == ()


@pytest.mark.rule("I6")
@pytest.mark.parametrize(
    "item",
    [
        june("github://acme/tools/skills/refunds/SKILL.md"),
        may(url="github://acme/tools/skills/refunds/SKILL.md"),
        may("archive", "github://acme/tools/skills/refunds.zip"),
    ],
)
def test_a_skill_under_a_native_scheme_is_recognised_through_the_index(item: dict[str, Any]) -> None:
    assert only(item).root == "github://acme/tools/skills/refunds"


# What cannot be used


@pytest.mark.rule("I1")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not JSON",
        b'{"skills": [',
        b"\xff\xfe\x00",
        b'{"skills": [NaN]}',
        b"[" * 100_000,
        b'{"skills":' * 100_000,
        b'{"skills": [' + b"9" * 100_000 + b"]}",
        b"null",
        b"[]",
        b'"skills"',
        b"{}",
        b'{"skills": null}',
        b'{"skills": {"a": 1}}',
        b'{"skills": "all"}',
    ],
    ids=lambda data: data[:16],
)
def test_a_document_that_is_no_index_is_refused_whole(data: bytes) -> None:
    with pytest.raises(UnavailableError, match=r"skill://index.json (is not JSON|has no array)") as refused:
        read_index(data, most=MOST)
    assert refused.value.rule == "I1"


_DEEP: Any = "x"
for _ in range(200):
    _DEEP = [_DEEP]

BAD: dict[str, tuple[object, str]] = {
    "no object": (7, "an entry is an object, not int"),
    "null": (None, "an entry is an object"),
    "a list": ([june()], "an entry is an object, not list"),
    "neither draft": ({"url": URL}, "neither a frontmatter nor a type"),
    "a type of no type": (may(["skill-md"]), "neither a frontmatter nor a type"),  # type: ignore[arg-type]
    "june without url and archives": (june(None), "is missing, and so are archives"),
    "june with empty archives": (june(None, archives=[]), "is missing, and so are archives"),
    "june digest without url": (june(None, packed(), digest=D1), "digest: is there without a url"),
    "june url without digest": ({"frontmatter": REFUNDS, "url": URL}, "digest: is missing"),
    "june digest of another algorithm": (june(digest="sha512:" + "0" * 128), "digest: a digest is"),
    "june digest in capitals": (june(digest=D1.upper()), "digest: a digest is"),
    "june digest without prefix": (june(digest=D1[7:]), "digest: a digest is"),
    "june digest a number": (june(digest=1), "digest: a digest is"),
    "june digest empty": (june(digest=""), "digest: a digest is"),
    "june digest with a line": (june(digest=f"{D1}\n"), "digest: a digest is"),
    "june url a number": (june(url=7), "uri: is of type int"),  # type: ignore[arg-type]
    "june url of no skill": (june("skill://refunds"), "does not end in /SKILL.md"),
    "june url that walks": (june("skill://x/../refunds/SKILL.md"), "never walk"),
    "june url of another name": (june("skill://returns/SKILL.md"), "is not the last segment"),
    "june url too long": (june(f"skill://{'x' * 5000}/refunds/SKILL.md"), "characters long"),
    "june without a name": (june(frontmatter={"description": "x"}), "name"),
    "june without a description": (june(frontmatter={"name": "refunds"}), "description"),
    "june frontmatter a list": (june(frontmatter=[1]), "frontmatter: is of type list"),
    "june frontmatter null": (june(frontmatter=None), "frontmatter: is missing"),
    "june frontmatter too deep": (june(frontmatter={**REFUNDS, "x": _DEEP}), "levels deep"),
    "june frontmatter too long": (june(frontmatter={**REFUNDS, "x": "y" * 2_000_000}), "has more than"),
    "june surrogate": (june(frontmatter={**REFUNDS, "x": "\ud800"}), "not Unicode"),
    "june surrogate in the url": (june("skill://\ud800/refunds/SKILL.md"), "first segment"),
    "archives no list": (june(URL, archives={"url": TAR}), "archives: is of type dict"),
    "archives of strings": (june(URL, TAR), "archives[0]: is not an object"),
    "archive without url": (june(URL, {"digest": D1}), "archives[0].url: is missing"),
    "archive without digest": (june(URL, {"url": TAR}), "archives[0].digest: a digest is"),
    "second archive without digest": (june(URL, packed(), {"url": ZIP}), "archives[1].digest"),
    "archive of a strange url": (june(URL, packed("refunds.zip")), "has no scheme"),
    "archives in strange formats": (june(None, packed("skill://refunds.7z")), "formats this host does not read"),
    "archive of a name that is none": (june(None, packed(), frontmatter={**REFUNDS, "name": "a/b"}), "a slash"),
    "archive without any name": (june(None, packed(), frontmatter={"description": "x"}), "frontmatter.name"),
    "archive of a name of no type": (june(None, packed(), frontmatter={**REFUNDS, "name": 1}), "frontmatter.name"),
    "archive of a capital name": (june(None, packed(), frontmatter={**REFUNDS, "name": "Refunds"}), "name"),
    "may without url": ({"type": "skill-md", **REFUNDS}, "url: is missing"),
    "may with an empty url": (may(url=""), "url: is missing"),
    "may url a list": (may(url=[URL]), "url: is missing"),  # type: ignore[arg-type]
    "may without name": ({"type": "skill-md", "description": "x", "url": URL}, "name"),
    "may without description": ({"type": "skill-md", "name": "refunds", "url": URL}, "description"),
    "may of another name": (may(name="returns"), "is not the last segment"),
    "may description too long": (may(description="x" * 1025), "description"),
    "may archive of a strange format": (may("archive", "skill://refunds.rar"), "no archive this host reads"),
    "may archive without url": ({"type": "archive", **REFUNDS}, "url: is missing"),
    "may archive of another name": (may("archive", "skill://refunds-1.0.zip"), "is not the last segment"),
    "may archive of nothing": (may("archive", "skill://.zip"), "first segment"),
    "template without url": ({"type": "mcp-resource-template", **REFUNDS}, "url: is missing"),
}


@pytest.mark.rule("I1", "I2", "E5")
@pytest.mark.parametrize(("item", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_entry_is_refused_alone_with_its_reason_and_the_others_work(item: object, words: str) -> None:
    index = read(OTHER, item)
    assert [entry.name for entry in index.entries] == ["other"]
    (refused,) = index.refused
    assert words in refused.reason
    assert refused.rule
    assert (refused.uri + refused.reason).isprintable()
    assert len(refused.uri + refused.reason) < 1000


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "scheme", ["file", "FILE", "File", "file+https", "zip+file", "smb", "data", "javascript", "vscode-file", "unix"]
)
@pytest.mark.parametrize("shape", ["june", "june archive", "second june archive", "may", "may archive"])
def test_a_local_scheme_in_an_index_is_refused_in_every_spelling(scheme: str, shape: str) -> None:
    item = {
        "june": june(f"{scheme}://x/refunds/SKILL.md"),
        "june archive": june(None, packed(f"{scheme}://x/refunds.zip")),
        "second june archive": june(None, packed(), packed(f"{scheme}://x/refunds.zip")),
        "may": may(url=f"{scheme}://x/refunds/SKILL.md"),
        "may archive": may("archive", f"{scheme}:///x/refunds.zip"),
    }[shape]
    index = read(item, OTHER)
    assert [entry.name for entry in index.entries] == ["other"]
    assert [refused.rule for refused in index.refused] == ["X3"]


# Entries that do not fit together


@pytest.mark.rule("E5")
def test_an_entry_that_is_listed_twice_counts_once() -> None:
    index = read(june(URL, packed()), june("skill://refunds/SKILL.md", packed()), OTHER, OTHER)
    assert [entry.name for entry in index.entries] == ["refunds", "other"]
    assert ["listed before" in refused.reason for refused in index.refused] == [True, True]


@pytest.mark.rule("E5", "I13")
@pytest.mark.parametrize(
    "items",
    [
        [june(), june(digest=D2)],
        [june(), june("skill://refun%64s/SKILL.md", digest=D2)],
        [june(), may()],
        [june(), june(URL, packed())],
        [june(), june(), june(digest=D2)],
        [june(None, packed(TAR)), june(None, packed(ZIP))],
        [june(None, packed(TAR, D1)), june(None, packed(TAR, D2))],
        [june(None, packed(TAR)), june()],
        [june(None, packed(TAR)), june(None, packed(TAR), frontmatter={**REFUNDS, "name": "returns"})],
        [june(), june(None, packed(URL, mimeType="application/zip"), frontmatter={**REFUNDS, "name": "returns"})],
        [may("archive", TAR), may("archive", ZIP)],
        [may(), may(description="Something else.")],
        [may(), may("archive", TAR, description="Something else.")],
    ],
    ids=lambda items: json.dumps(items)[:60],
)
@pytest.mark.parametrize("turned", [False, True])
def test_entries_that_contradict_each_other_are_all_refused(items: list[dict[str, Any]], turned: bool) -> None:
    index = read(*(items[::-1] if turned else items), OTHER)
    assert [entry.name for entry in index.entries] == ["other"]
    assert sum("more than once" in refused.reason for refused in index.refused) >= 2
    assert len(index.refused) == len(items)
    assert all(refused.identities for refused in index.refused)


@pytest.mark.rule("N2")
def test_skills_of_one_name_at_different_places_both_stay() -> None:
    index = read(may(url="skill://a/refunds/SKILL.md"), may("archive", "skill://b/refunds.zip"), june())
    assert len(index.entries) == 3


@pytest.mark.rule("A2")
@pytest.mark.parametrize(
    ("item", "identities"),
    [
        (june(digest="x"), [URL]),
        (june(f"skill://{'x' * 200}/refunds/SKILL.md", digest="x"), [f"skill://{'x' * 200}/refunds/SKILL.md"]),
        (june(None, packed(digest="x")), [TAR]),
        (june(None, packed("skill://refunds.tar.xz"), packed(ZIP, digest="x")), ["skill://refunds.tar.xz", ZIP]),
        (june(URL, packed(digest="x")), [URL, TAR]),
        (may("archive", TAR, name=1), [TAR]),
        (june(None), []),
        (june("file:///x/SKILL.md"), []),
        (june(None, archives=[7]), []),
        (7, []),
    ],
)
def test_a_refused_entry_tells_which_skills_it_could_have_been(item: object, identities: list[str]) -> None:
    assert [list(refused.identities) for refused in read(item).refused] == [identities]


@pytest.mark.rule("L4")
def test_of_too_many_entries_the_first_ones_are_read() -> None:
    many = [june(f"skill://s{number}/refunds/SKILL.md") for number in range(MOST + 1)]
    index = read(*many)
    assert (len(index.entries), index.is_shortened) == (MOST, True)
    assert index.entries[-1].uri == many[MOST - 1]["url"]
    assert not read(*many[:3]).is_shortened


# Anything at all

_archive = st.fixed_dictionaries({}, optional={"url": ANYTHING, "digest": ANYTHING, "mimeType": ANYTHING})
_entry = st.fixed_dictionaries(
    {},
    optional={
        "frontmatter": ANYTHING | st.just(REFUNDS),
        "url": ANYTHING | st.just(URL),
        "digest": ANYTHING | st.just(D1),
        "archives": ANYTHING | st.lists(_archive, max_size=3),
        "type": LEAF,
        "name": LEAF,
        "description": LEAF,
    },
)


@pytest.mark.rule("I1", "I2")
@settings(max_examples=60)
@given(st.lists(_entry | ANYTHING, max_size=5))
def test_whatever_an_index_lists_is_an_entry_or_a_refusal(items: list[Any]) -> None:
    index = read(*items)
    assert len(index.entries) + len(index.refused) + len(index.templates) <= len(items)
    for refused in index.refused:
        assert visible(refused.uri + refused.reason) == refused.uri + refused.reason
    for entry in index.entries:
        assert (entry.pairs is None) == (entry.assurance is not Assurance.WHOLE)
        assert entry.shown
        assert entry.says


@pytest.mark.rule("I1")
@settings(max_examples=100)
@given(ANYTHING.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_whatever_a_document_is_it_is_an_index_or_refused_in_a_sentence(data: bytes) -> None:
    try:
        read_index(data, most=3)
    except (EntryError, UnavailableError) as error:
        assert visible(error.message) == error.message
