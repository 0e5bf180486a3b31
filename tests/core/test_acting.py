"""While a skill is in use, its files are those of the held entry, and no reference leads anywhere else."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.acting import ActingSkill, Child, Windows
from skillquay.core.entries import LIMITS
from skillquay.core.identity import ServerLabel
from skillquay.core.uris import SkillUri
from skillquay.core.verification import VerifiedFile, verify_skill
from skillquay.errors import DigestMismatchError, SizeMismatchError, UnlistedFileError, UriError
from tests.core.builders import ACME, EVIL, Published, publish, skill_md

INNER_FILES = {"SKILL.md": skill_md("inner"), "guide.md": b"inner guide", "only-inner.md": b"x"}
FILES = {
    "guide.md": b"outer guide",
    "references/GUIDE.md": b"guide",
    "my file.md": b"spaces",
    "a#b.md": b"hash",
    "100%.md": b"percent",
    "été.md": b"accents",
    "templates/eu/invoice.md": b"invoice",
    "templates/us.md": b"us",
    **{f"deep/inner/{path}": data for path, data in INNER_FILES.items()},
}
REFUNDS = publish(FILES)
INNER = publish(INNER_FILES, at="skill://refunds/deep/inner")
GENERATED = publish(dynamic=True)


def acting(skill: Published, server: ServerLabel = ACME) -> ActingSkill:
    is_dynamic = skill.entry.resources == "dynamic"
    return ActingSkill(skill=skill.id(server), loaded=skill.unverified() if is_dynamic else skill.verified())


# W2, U5: references

ROUNDABOUT = {
    "./guide.md": "guide.md",
    "references/./GUIDE.md": "references/GUIDE.md",
    "guide.md#setup": "guide.md",
    "my%20file.md": "my file.md",
    "my file.md#a%20b": "my file.md",
    "%C3%A9t%C3%A9.md": "été.md",
    "a%23b.md": "a#b.md",
    "100%25.md": "100%.md",
    "SKILL.md": "SKILL.md",
    "deep/inner/SKILL.md": "deep/inner/SKILL.md",
}


@pytest.mark.rule("U5")
@pytest.mark.rule("W2")
@pytest.mark.parametrize("path", REFUNDS.files)
def test_every_file_is_found_by_its_path(path: str) -> None:
    assert acting(REFUNDS).locate(path) == REFUNDS.uri(path)
    assert acting(REFUNDS).locate(f"./{path}") == REFUNDS.uri(path)
    assert acting(REFUNDS).locate(quote(path)) == REFUNDS.uri(path)


@pytest.mark.rule("U5")
@pytest.mark.parametrize(("reference", "path"), ROUNDABOUT.items())
def test_a_reference_as_authors_write_it_leads_to_the_file_it_means(reference: str, path: str) -> None:
    assert acting(REFUNDS).locate(reference) == REFUNDS.uri(path)


HOSTILE = [
    "",
    "..",
    "../refunds/guide.md",
    "references/../guide.md",
    "references/..",
    "./../x",
    "/guide.md",
    "//refunds/guide.md",
    "/etc/passwd",
    "~/.ssh/id_rsa",
    "C:guide.md",
    r"C:\guide.md",
    "c:/guide.md",
    "skill://refunds/guide.md",
    "SKILL://refunds/guide.md",
    "skill:guide.md",
    "file:///etc/passwd",
    "FILE:guide.md",
    "javascript:guide.md",
    r"references\GUIDE.md",
    r"..\x",
    r"\\server\share\x",
    "guide.md\x00",
    "\x00",
    "guide.md\n",
    "references//GUIDE.md",
    "guide.md//",
    "%2e%2e/guide.md",
    "%2E%2E%2fguide.md",
    ".%2e/guide.md",
    "%252e%252e/guide.md",
    "references%2fGUIDE.md",
    "references%5cGUIDE.md",
    "%2fetc/passwd",
    "guide.md%00",
    "guide.md%0a",
    "%ff",
    "guide.md?x=1",
    "GUIDE.md",
    "guide.md ",
    "guide.md/x",
    "references",
    "templates/",
    ".",
    "./",
    "#guide.md",
    "guide.md#../../x",
    "ete\u0301.md",
    "\ud800",
    "x" * 5000,
]


@pytest.mark.rule("W2")
@pytest.mark.rule("U3")
@pytest.mark.rule("X3")
@pytest.mark.parametrize("reference", HOSTILE)
def test_a_reference_that_walks_or_means_no_listed_file_is_refused(reference: str) -> None:
    with pytest.raises((UnlistedFileError, UriError)) as failure:
        acting(REFUNDS).locate(reference)
    assert len(str(failure.value)) < 1500


pieces = st.sampled_from(
    [*HOSTILE, *ROUNDABOUT, *REFUNDS.files, "/", "\\", ".", "..", "%", "#", "%2e", "%2f", "%00", "deep", "inner", ":"]
)
references = st.one_of(st.text(), st.lists(pieces, max_size=4).map("".join), st.lists(pieces, max_size=4).map("/".join))


@pytest.mark.rule("W2")
@given(references, st.sampled_from([REFUNDS, INNER, publish(FILES, at="github://owner/repo/refunds")]))
def test_whatever_the_reference_only_a_listed_uri_is_ever_given_back(reference: str, skill: Published) -> None:
    try:
        found = acting(skill).locate(reference)
    except (UnlistedFileError, UriError):
        return
    assert found in {record.uri for record in skill.manifest.files}


@pytest.mark.rule("D4")
@given(references)
def test_a_reference_in_a_dynamic_skill_never_leads_out_of_its_directory(reference: str) -> None:
    try:
        found = acting(GENERATED).locate(reference)
    except (UnlistedFileError, UriError):
        return
    assert GENERATED.entry.root.contains(found)
    assert found == SkillUri(str(found))
    assert ".." not in found.segments


@pytest.mark.rule("D4")
@pytest.mark.parametrize(
    "reference", ["", "..", "../x", "/x", "C:x", "x:y", "a\\b", "%2e%2e/x", "a%2fb", "a\x00", ".", "./"]
)
def test_a_walking_reference_in_a_dynamic_skill_is_refused(reference: str) -> None:
    with pytest.raises((UnlistedFileError, UriError)):
        acting(GENERATED).locate(reference)


def test_a_reference_in_a_dynamic_skill_is_read_as_a_link() -> None:
    assert acting(GENERATED).locate("a%20b/c.md#x") == "skill://refunds/a%20b/c.md"


@pytest.mark.rule("U5")
def test_a_reference_in_a_nested_skill_leads_from_its_own_directory() -> None:
    assert acting(INNER).locate("guide.md") == "skill://refunds/deep/inner/guide.md"
    assert acting(REFUNDS).locate("guide.md") == "skill://refunds/guide.md"
    with pytest.raises(UnlistedFileError):
        acting(INNER).locate("references/GUIDE.md")


@pytest.mark.rule("U5")
@pytest.mark.rule("A4")
def test_a_nested_skill_md_read_as_a_file_has_its_references_lead_from_its_own_directory_too() -> None:
    window, inner = acting(REFUNDS), REFUNDS.uri("deep/inner/SKILL.md")
    assert window.locate("guide.md", appears_in=inner) == "skill://refunds/deep/inner/guide.md"
    assert window.locate("only-inner.md", appears_in=inner) == "skill://refunds/deep/inner/only-inner.md"
    assert window.locate("guide.md", appears_in=REFUNDS.entry.uri) == "skill://refunds/guide.md"
    spelled = SkillUri("skill://refunds/d%65ep/inner/SKILL.md")
    assert window.locate("guide.md", appears_in=spelled) == "skill://refunds/deep/inner/guide.md"
    with pytest.raises(UnlistedFileError):
        window.locate("references/GUIDE.md", appears_in=inner)
    with pytest.raises(UriError):
        window.locate("../../guide.md", appears_in=inner)
    dynamic = acting(GENERATED)
    assert dynamic.locate("a.md", appears_in=GENERATED.uri("in/SKILL.md")) == "skill://refunds/in/a.md"


@pytest.mark.rule("W2")
@pytest.mark.parametrize("skill", [REFUNDS, GENERATED], ids=["manifest", "dynamic"])
def test_a_reference_does_not_lead_from_a_file_outside_the_skill(skill: Published) -> None:
    for other in ("skill://other/SKILL.md", "skill://SKILL.md", "github://refunds/SKILL.md"):
        with pytest.raises(UnlistedFileError):
            acting(skill).locate("guide.md", appears_in=SkillUri(other))
    with pytest.raises(UriError):
        acting(skill).locate("guide.md", appears_in=skill.uri("guide.md"))
    with pytest.raises(UnlistedFileError):
        acting(REFUNDS).locate("guide.md", appears_in=REFUNDS.uri("new/SKILL.md"))


# D2: directories


def naive_children(paths: list[str], directory: str) -> dict[str, bool]:
    """Name to is-directory, from paths alone."""
    prefix = f"{directory}/" if directory else ""
    below = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
    return {path.split("/")[0]: "/" in path for path in below}


trees = st.dictionaries(
    st.lists(st.sampled_from(["a", "b b", "é", "a#b", "%41", "A"]), min_size=1, max_size=3).map("/".join),
    st.binary(max_size=3),
    max_size=8,
).filter(lambda tree: not any(one != two and two.startswith(f"{one}/") for one in tree for two in tree))


@pytest.mark.rule("D2")
@given(trees)
def test_a_directory_is_answered_from_the_held_entry(tree: dict[str, bytes]) -> None:
    skill = publish(tree)
    directories = {"", *("/".join(path.split("/")[:depth]) for path in tree for depth in range(1, path.count("/") + 1))}
    for directory in directories:
        children = acting(skill).children(directory)
        expected = naive_children(list(skill.files), directory)
        assert {child.name: child.is_directory for child in children} == expected
        assert [child.name for child in children] == sorted(expected)
        for child in children:
            path = f"{directory}/{child.name}" if directory else child.name
            assert child.size == (None if child.is_directory else len(skill.files[path]))


@pytest.mark.rule("D2")
@pytest.mark.parametrize("root", ["", ".", "./", "././", "./."])
def test_the_skills_own_directory_has_several_spellings(root: str) -> None:
    assert {child.name for child in acting(REFUNDS).children(root)} == set(naive_children(list(REFUNDS.files), ""))
    assert Child(name="SKILL.md", is_directory=False, size=len(REFUNDS.skill_md)) in acting(REFUNDS).children(root)


@pytest.mark.rule("D2")
@pytest.mark.parametrize("directory", ["templates", "templates/", "./templates", "templates#x", "t%65mplates"])
def test_a_directory_is_found_by_any_reference_to_it(directory: str) -> None:
    assert acting(REFUNDS).children(directory) == (
        Child(name="eu", is_directory=True),
        Child(name="us.md", is_directory=False, size=2),
    )


@pytest.mark.rule("D2")
@pytest.mark.parametrize(
    "directory", ["guide.md", "new", "..", "/", "deep/..", "%2e%2e", "skill://refunds", "\x00", "refunds"]
)
def test_what_is_no_directory_of_the_held_entry_is_refused(directory: str) -> None:
    with pytest.raises((UnlistedFileError, UriError)):
        acting(REFUNDS).children(directory)


@pytest.mark.rule("D4")
def test_the_directories_of_a_dynamic_skill_are_not_in_its_entry() -> None:
    with pytest.raises(UnlistedFileError, match="found by reading"):
        acting(GENERATED).children()


@pytest.mark.rule("D4")
def test_a_live_listing_of_a_dynamic_skill_keeps_only_direct_children_of_the_directory_asked_for() -> None:
    listed = [
        "skill://refunds/sub/a.md",
        "skill://refunds/s%75b/b.md",
        "skill://refunds/sub/deeper",
        "skill://refunds/sub/deeper/c.md",
        "skill://refunds/sub",
        "skill://refunds/d.md",
        "skill://refunds",
        "skill://other/sub/a.md",
        "skill://refunds2/sub/a.md",
        "github://refunds/sub/a.md",
    ]
    window = acting(GENERATED)
    uris = [SkillUri(uri) for uri in listed]
    assert window.own_children(SkillUri("skill://refunds/sub"), uris) == tuple(uris[:3])
    assert window.own_children(GENERATED.entry.root, uris) == (uris[4], uris[5])


@pytest.mark.rule("D4")
@pytest.mark.parametrize("directory", ["skill://other", "skill://refunds2", "github://refunds"])
def test_a_live_listing_of_a_directory_outside_a_dynamic_skill_is_refused(directory: str) -> None:
    with pytest.raises(UnlistedFileError) as failure:
        acting(GENERATED).own_children(SkillUri(directory), [])
    assert failure.value.rule == "D4"


@pytest.mark.rule("D2")
def test_a_live_listing_never_extends_a_held_entry() -> None:
    with pytest.raises(UnlistedFileError):
        acting(REFUNDS).own_children(REFUNDS.entry.root, [REFUNDS.uri("new.md"), REFUNDS.uri("guide.md")])


# V1, E6: taking bytes


@pytest.mark.rule("V1")
def test_bytes_are_taken_only_as_the_held_entry_has_them() -> None:
    window = acting(REFUNDS)
    assert window.accept(REFUNDS.uri("guide.md"), b"outer guide").data == b"outer guide"
    with pytest.raises(DigestMismatchError):
        window.accept(REFUNDS.uri("guide.md"), b"inner guide")
    with pytest.raises(UnlistedFileError):
        window.accept(REFUNDS.uri("new.md"), b"")


@pytest.mark.rule("A4")
def test_a_nested_skill_md_taken_through_the_skill_around_it_is_a_file_and_nothing_more() -> None:
    file = acting(REFUNDS).accept(REFUNDS.uri("deep/inner/SKILL.md"), INNER.skill_md)
    assert type(file) is VerifiedFile
    assert file.entry == REFUNDS.entry


@pytest.mark.rule("E6")
@example([LIMITS.size])
@given(st.lists(st.integers(0, LIMITS.size // 2), max_size=4))
def test_all_reads_of_a_dynamic_skill_together_stay_within_the_limit_its_skill_md_included(sizes: list[int]) -> None:
    window, total = acting(GENERATED), len(GENERATED.skill_md)
    for size in sizes:
        data = memoryview(ZEROES)[:size]
        total += size
        if total > LIMITS.size:
            with pytest.raises(SizeMismatchError) as failure:
                window.accept_unverified(GENERATED.uri("x.bin"), data)  # type: ignore[arg-type]
            assert failure.value.rule == "E6"
            return
        window, file = window.accept_unverified(GENERATED.uri("x.bin"), data)  # type: ignore[arg-type]
        assert len(file.data) == size
        assert window.loaded.entry is GENERATED.entry


ZEROES = bytes(LIMITS.size)


@pytest.mark.rule("E6")
def test_a_dynamic_skill_may_send_exactly_the_limit_and_not_one_byte_more() -> None:
    rest = LIMITS.size - len(GENERATED.skill_md)
    full, file = acting(GENERATED).accept_unverified(GENERATED.uri("x.bin"), ZEROES[:rest])
    assert len(file.data) == rest
    full.accept_unverified(GENERATED.uri("empty"), b"")
    with pytest.raises(SizeMismatchError):
        full.accept_unverified(GENERATED.uri("y.bin"), b"y")


@pytest.mark.rule("D4")
@pytest.mark.rule("V1")
def test_bytes_are_taken_unverified_only_inside_a_dynamic_skill() -> None:
    for window, uri in (
        (acting(REFUNDS), REFUNDS.uri("guide.md")),
        (acting(GENERATED), SkillUri("skill://other/x.md")),
    ):
        with pytest.raises(UnlistedFileError) as failure:
            window.accept_unverified(uri, b"")
        assert failure.value.rule == "D4"


# W1, W2: windows


@pytest.mark.rule("W1")
def test_a_window_opens_only_on_a_skill_that_was_verified_and_under_its_own_identity() -> None:
    with pytest.raises(TypeError):
        ActingSkill(skill=REFUNDS.id(), loaded=SimpleNamespace(entry=REFUNDS.entry))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ActingSkill(skill=REFUNDS.id(), loaded=REFUNDS.entry)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ActingSkill(skill=REFUNDS.id(), loaded=INNER.verified())


@pytest.mark.rule("W1")
def test_windows_overlap_and_each_holds_its_own_entry_until_it_is_closed() -> None:
    one, two = acting(REFUNDS), acting(REFUNDS, EVIL)
    windows = Windows().open(one).open(two)
    assert windows.governing(ACME, REFUNDS.uri("guide.md")) == (one,)
    assert windows.governing(EVIL, REFUNDS.uri("guide.md")) == (two,)
    closed = windows.close(one.skill)
    assert closed.governing(ACME, REFUNDS.uri("guide.md")) == ()
    assert closed.governing(EVIL, REFUNDS.uri("guide.md")) == (two,)
    assert set(windows.open_windows) == {one.skill, two.skill}
    assert closed.close(INNER.id()).open_windows == closed.open_windows


@pytest.mark.rule("W1")
def test_a_skill_loaded_again_is_held_as_it_was_loaded_last() -> None:
    changed = publish({**FILES, "new.md": b""})
    windows = Windows().open(acting(REFUNDS)).open(acting(changed))
    assert [window.entry for window in windows.open_windows.values()] == [changed.entry]
    windows.check_read(ACME, changed.uri("new.md"))


@pytest.mark.rule("W1")
def test_reading_a_file_by_any_route_opens_no_window() -> None:
    windows = Windows().open(acting(REFUNDS))
    windows.check_read(ACME, REFUNDS.uri("deep/inner/SKILL.md"))
    acting(REFUNDS).accept(REFUNDS.uri("deep/inner/SKILL.md"), INNER.skill_md)
    assert set(windows.open_windows) == {REFUNDS.id()}
    with pytest.raises(TypeError):
        windows.open_windows[INNER.id()] = acting(INNER)  # type: ignore[index]


@pytest.mark.rule("W2")
@pytest.mark.parametrize("path", [*FILES, "SKILL.md"])
def test_any_tool_may_read_a_listed_file_of_a_skill_in_use(path: str) -> None:
    Windows().open(acting(REFUNDS)).check_read(ACME, REFUNDS.uri(path))


@pytest.mark.rule("W2")
@pytest.mark.rule("D2")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://refunds/new.md",
        "skill://refunds/n%65w.md",
        "skill://r%65funds/new.md",
        "SKILL://refunds/new.md",
        "skill://refunds/guide.md/x",
        "skill://refunds/GUIDE.md",
        "skill://refunds/templates",
        "skill://refunds",
        "skill://r%65funds",
        "skill://refunds/deep/inner/new.md",
    ],
)
def test_no_tool_reads_anything_else_in_the_directory_of_a_skill_in_use(uri: str) -> None:
    with pytest.raises(UnlistedFileError) as failure:
        Windows().open(acting(REFUNDS)).check_read(ACME, SkillUri(uri))
    assert failure.value.rule == "W2"
    assert "approval again" in str(failure.value)


@pytest.mark.rule("W2")
def test_what_lies_elsewhere_or_on_another_server_or_in_no_open_window_is_not_governed() -> None:
    windows = Windows().open(acting(REFUNDS))
    for uri in ("skill://other/new.md", "skill://refunds2/new.md", "github://refunds/new.md"):
        windows.check_read(ACME, SkillUri(uri))
    windows.check_read(EVIL, REFUNDS.uri("new.md"))
    windows.check_read(ServerLabel(label="acme", scope="elsewhere"), REFUNDS.uri("new.md"))
    windows.close(REFUNDS.id()).check_read(ACME, REFUNDS.uri("new.md"))


@pytest.mark.rule("W2")
def test_a_read_in_a_nested_skill_must_be_listed_by_every_skill_in_use_around_it() -> None:
    grown = publish({**INNER_FILES, "new.md": b""}, at="skill://refunds/deep/inner")
    both = Windows().open(acting(REFUNDS)).open(acting(grown))
    assert {window.skill for window in both.governing(ACME, grown.uri("new.md"))} == {REFUNDS.id(), grown.id()}
    both.check_read(ACME, grown.uri("guide.md"))
    with pytest.raises(UnlistedFileError):
        both.check_read(ACME, grown.uri("new.md"))
    both.close(REFUNDS.id()).check_read(ACME, grown.uri("new.md"))


@pytest.mark.rule("E6")
def test_reads_inside_a_dynamic_skill_in_use_are_left_to_its_own_limits() -> None:
    Windows().open(acting(GENERATED)).check_read(ACME, GENERATED.uri("anything.md"))


@pytest.mark.rule("W1")
def test_the_held_entry_is_the_one_the_skill_was_loaded_from() -> None:
    window = acting(REFUNDS)
    assert window.entry is REFUNDS.entry
    assert verify_skill(window.entry, REFUNDS.skill_md) == window.loaded
