"""A skill is the pair of the host's label for its server and its URI there, and paths keep every pair apart."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.digests import Digest
from skillquay.core.identity import MAX_LABEL, ServerLabel, SkillId
from skillquay.core.uris import SkillUri
from skillquay.errors import LabelError
from tests.core.builders import ACME, EVIL

Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]

REFUNDS = SkillUri("skill://refunds/SKILL.md")
EMAIL = SkillUri("skill://refunds/examples/email.md")
HELLO, BYE = Digest.of(b"hello"), Digest.of(b"bye")

TRICKY = [
    "a",
    "A",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "ﬁ",
    "ſ",
    "K",
    "İ",
    "東",
    "😀",
    "=",
    "=61",
    "@",
    "/",
    "\\",
    ":",
    ".",
    "..",
    "~",
]
labels = st.lists(st.sampled_from([*TRICKY, *"bB01_- %*?|<>\"'"]), min_size=1, max_size=12).map("".join)
servers = st.builds(
    lambda label, scope: ServerLabel(label=label, scope=scope),
    labels.filter(lambda label: label == label.strip() and len(label.encode()) <= MAX_LABEL),
    st.sampled_from(["workspace", "Workspace", "", "a@b", "é", "e\u0301", "\ud800", "x" * 5000]),
)
digests = st.sampled_from([HELLO, BYE, Digest.of(b"")])
uris = st.sampled_from(
    [
        REFUNDS,
        EMAIL,
        SkillUri("skill://Refunds/SKILL.md"),
        SkillUri("skill://r%65funds/SKILL.md"),
        SkillUri("skill://é/SKILL.md"),
        SkillUri("skill://e\u0301/SKILL.md"),
        SkillUri("skill://refunds/" + "x" * 4000),
    ]
)


def folded(path: tuple[str, ...], form: Form) -> tuple[str, ...]:
    """The path as a file system that folds case and normalises names sees it."""
    return tuple(unicodedata.normalize(form, unicodedata.normalize(form, each).casefold()) for each in path)


def label_in(path: tuple[str, ...]) -> str:
    """The label, read back from a path by its documented rule alone."""
    escaped = path[0].rpartition("@")[0].encode()
    return re.sub(rb"=([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), escaped).decode()


# N1: identity


@pytest.mark.rule("N1")
def test_the_same_uri_on_two_servers_is_two_skills() -> None:
    assert SkillId(server=ACME, uri=REFUNDS) != SkillId(server=EVIL, uri=REFUNDS)
    assert len({SkillId(server=ACME, uri=REFUNDS), SkillId(server=EVIL, uri=REFUNDS)}) == 2


@pytest.mark.rule("N1")
def test_the_same_label_in_another_configuration_is_another_server() -> None:
    here, there = ServerLabel(label="acme", scope="here"), ServerLabel(label="acme", scope="there")
    assert here != there
    assert SkillId(server=here, uri=REFUNDS) != SkillId(server=there, uri=REFUNDS)
    assert here.directory != there.directory


@pytest.mark.rule("N1")
def test_labels_are_compared_exactly() -> None:
    twins = [ServerLabel(label=label, scope="") for label in ("acme", "Acme", "ａcme", "аcme", "é", "e\u0301")]
    assert len(set(twins)) == len(twins)


@pytest.mark.rule("N1")
@pytest.mark.parametrize(
    "label",
    [
        "",
        " ",
        " acme",
        "acme ",
        "acme\u00a0",
        "ac\nme",
        "ac\tme",
        "ac\x00me",
        "ac\u200bme",
        "ac\u202eme",
        "\ufeffacme",
        "ac\u2028me",
        "ac\U000e0041me",
        "ac\ud800me",
        "a" * 65,
        "é" * 33,
        "😀" * 17,
        "a" * 100_000,
    ],
)
def test_a_label_that_a_person_cannot_read_or_a_path_not_hold_is_refused(label: str) -> None:
    with pytest.raises(LabelError) as failure:
        ServerLabel(label=label, scope="")
    assert failure.value.rule == "N1"
    assert len(str(failure.value)) < 1200
    assert not re.search("[\x00-\x1f\u200b\u202e\ud800]", str(failure.value))


@pytest.mark.parametrize(
    "label", ["a", "a" * 64, "é" * 32, "😀" * 16, "@acme/pkg", "my server", "./x", "a:b", '"', "="]
)
def test_any_readable_label_of_up_to_64_bytes_is_accepted(label: str) -> None:
    assert str(ServerLabel(label=label, scope="")) == label


def test_servers_and_skills_have_an_order_of_their_own() -> None:
    ids = [SkillId(server=server, uri=REFUNDS) for server in (EVIL, ACME)]
    assert sorted(ids) == ids[::-1]


@pytest.mark.rule("O2")
def test_two_servers_of_one_label_are_told_apart_by_where_they_are_configured() -> None:
    here, there = ServerLabel(label="acme", scope="here"), ServerLabel(label="acme", scope="the\u202ere")
    assert here.told_from(EVIL) == "acme"
    assert here.told_from(EVIL, there) == "acme (here)"
    assert there.told_from(here) == "acme (the⟨U+202E⟩re)"


@pytest.mark.rule("B4")
def test_an_identity_shows_what_its_uri_hides() -> None:
    sneaky = SkillId(server=ACME, uri=SkillUri("skill://ref\u202eunds/SKILL.md"))
    assert str(sneaky) == "acme: skill://ref⟨U+202E⟩unds/SKILL.md"


# K2: paths


@pytest.mark.rule("K2")
@pytest.mark.rule("N1")
@example(
    (ServerLabel(label="a", scope="s"), REFUNDS, HELLO), (ServerLabel(label="A", scope="s"), REFUNDS, HELLO), "NFC"
)
@example(
    (ServerLabel(label="é", scope="s"), REFUNDS, HELLO),
    (ServerLabel(label="e\u0301", scope="s"), REFUNDS, HELLO),
    "NFD",
)
@example(
    (ServerLabel(label="=", scope="s"), REFUNDS, HELLO), (ServerLabel(label="=3d", scope="s"), REFUNDS, HELLO), "NFC"
)
@given(
    st.tuples(servers, uris, digests),
    st.tuples(servers, uris, digests),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
)
def test_different_content_of_different_skills_of_different_servers_never_shares_a_path(
    one: tuple[ServerLabel, SkillUri, Digest], two: tuple[ServerLabel, SkillUri, Digest], form: Form
) -> None:
    first, second = (SkillId(server=server, uri=uri).cache_path(digest) for server, uri, digest in (one, two))
    assert (folded(first, form) == folded(second, form)) == (one == two)


@pytest.mark.rule("K2")
@given(st.lists(servers, min_size=2, max_size=30, unique=True), st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_no_two_servers_share_a_directory(many: list[ServerLabel], form: Form) -> None:
    assert len({folded((server.directory,), form) for server in many}) == len(many)


@pytest.mark.rule("K2")
@given(servers, uris, digests)
def test_a_path_is_made_of_safe_segments_that_every_file_system_takes(
    server: ServerLabel, uri: SkillUri, digest: Digest
) -> None:
    path = SkillId(server=server, uri=uri).cache_path(digest)
    for segment in path:
        assert re.fullmatch(r"[a-z0-9_=@-]+", segment)
        assert len(segment.encode()) <= 255
    assert path[0].count("@") == 1


@pytest.mark.rule("K2")
@example(ServerLabel(label="😀" * 16, scope="s"), REFUNDS)
@example(ServerLabel(label="@" * 64, scope="s"), REFUNDS)
@given(servers, uris)
def test_the_whole_label_can_be_told_from_the_path(server: ServerLabel, uri: SkillUri) -> None:
    path = SkillId(server=server, uri=uri).cache_path(HELLO)
    assert label_in(path) == server.label
    assert len(path[0]) <= 255


def test_one_content_of_a_skill_has_one_path_and_another_has_another() -> None:
    again = SkillId(server=ServerLabel(label="acme", scope="workspace"), uri=SkillUri(str(REFUNDS)))
    assert SkillId(server=ACME, uri=REFUNDS).cache_path(HELLO) == again.cache_path(Digest(str(HELLO)))
    assert again.cache_path(BYE) != again.cache_path(HELLO)


@pytest.mark.rule("N1")
def test_two_spellings_of_one_uri_are_one_skill() -> None:
    server = ServerLabel(label="acme", scope="x")
    one = SkillId(server=server, uri=SkillUri("skill://a/SKILL.md"))
    other = SkillId(server=server, uri=SkillUri("skill://%61/SKILL.md"))
    assert one == other
    assert hash(one) == hash(other)
    assert str(other.uri) == "skill://%61/SKILL.md"
