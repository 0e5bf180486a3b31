"""URIs are decoded once, have one key a place, and can never walk anywhere; local schemes are refused."""

from __future__ import annotations

import pickle
import time
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.uris import LOCAL_SCHEMES, MAX_URI_LENGTH, SkillUri, reference_paths
from skillquay.errors import UriError

WALKING = ("/", "\\", "\x00", "\x1f", "\x7f", "\x85", "\u2028", "\u2029", "\n")

segments = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"], blacklist_characters="/\\"), min_size=1)
safe_segments = segments.filter(lambda segment: segment not in {".", ".."})
paths = st.lists(safe_segments, min_size=1, max_size=6).filter(lambda path: len(quote("/".join(path))) < 4000)
uri_alphabet = st.sampled_from([*"aZ09-._~!$&'()*+,;=:@/?#[]% \\", "ä", "東", "\u202e", "\x00", "\u2028", "\ud800"])
uri_pieces = st.lists(
    st.one_of(
        uri_alphabet, st.sampled_from(["%2e", "%2E", "%2f", "%5C", "%00", "%25", "%c3%a4", "%ff", "%zz", "SKILL"])
    )
).map("".join)
uri_texts = st.one_of(
    st.text(st.characters()),
    uri_pieces,
    st.builds("{}://{}".format, st.sampled_from(["skill", "http", "a"]), uri_pieces),
)


def spellings(segment: str) -> st.SearchStrategy[str]:
    """Ways to write one decoded segment: each byte of each character encoded or, where it may be, as it is."""
    plain = st.sampled_from(sorted(segment)) if segment else st.nothing()
    return st.sets(plain).map(
        lambda chosen: "".join(
            quote(letter, safe="") if letter in chosen else "".join(f"%{byte:02x}" for byte in letter.encode())
            for letter in segment
        )
    )


def accepted(text: str) -> SkillUri | None:
    try:
        return SkillUri(text)
    except UriError:
        return None


# --- What a URI says ---


@pytest.mark.rule("U1")
@pytest.mark.parametrize(
    ("text", "root", "path"),
    [
        ("skill://git-workflow/SKILL.md", "skill://git-workflow", ("git-workflow",)),
        ("skill://acme/billing/refunds/SKILL.md", "skill://acme/billing/refunds", ("acme", "billing", "refunds")),
        ("skill://" + "a/" * 200 + "SKILL.md", "skill://" + "/".join("a" * 200), ("a",) * 200),
    ],
)
def test_a_skill_path_nests_to_any_depth(text: str, root: str, path: tuple[str, ...]) -> None:
    uri = SkillUri(text)
    assert uri == text
    assert uri.is_skill
    assert uri.root == root
    assert uri.root.segments == path
    assert uri.name == "SKILL.md"
    assert uri.root.child("SKILL.md") == text


@pytest.mark.rule("U1")
@pytest.mark.parametrize(
    "text",
    [
        "skill://SKILL.md",
        "skill://refunds",
        "skill://refunds/skill.md",
        "skill://refunds/SKILL%2Emd",
        "skill://refunds/xSKILL.md",
        "skill://refunds/SKILL.md/x",
    ],
)
def test_a_uri_that_does_not_spell_out_skill_md_inside_a_directory_names_no_skill(text: str) -> None:
    uri = SkillUri(text)
    assert not uri.is_skill
    with pytest.raises(UriError) as refusal:
        _ = uri.root
    assert refusal.value.rule == "U1"


@pytest.mark.rule("U4")
@pytest.mark.parametrize(
    ("text", "scheme", "path"),
    [
        ("github://owner/repo/skills/refunds/SKILL.md", "github", ("owner", "repo", "skills", "refunds", "SKILL.md")),
        ("HTTPS://example.com:8080/a/SKILL.md", "https", ("example.com:8080", "a", "SKILL.md")),
        ("git+ssh.x-y://host/a/SKILL.md", "git+ssh.x-y", ("host", "a", "SKILL.md")),
    ],
)
def test_other_schemes_are_uris_like_any(text: str, scheme: str, path: tuple[str, ...]) -> None:
    uri = SkillUri(text)
    assert (uri.scheme, uri.segments) == (scheme, path)
    assert uri.is_skill


@pytest.mark.rule("U3")
@pytest.mark.parametrize(
    "authority", ["localhost", "127.0.0.1", "user%40host", "xn--80ak6aa92e", "EXAMPLE.com", "a%3A80", "ä"]
)
def test_the_first_segment_is_a_segment_like_any_and_keeps_its_case(authority: str) -> None:
    first = SkillUri(f"skill://{authority}/a/SKILL.md").segments[0]
    assert SkillUri(f"skill://x/{authority}/SKILL.md").segments[1] == first


def test_the_first_segment_of_a_skill_uri_has_no_port() -> None:
    assert accepted("skill://refunds:8080/SKILL.md") is None


@pytest.mark.parametrize("authority", ["host:", "host:x", "host:123456", "host:80:90", ":80", "user@host", "[::1]"])
def test_an_authority_that_is_more_than_a_segment_and_a_port_is_refused(authority: str) -> None:
    assert accepted(f"https://{authority}/a/SKILL.md") is None


# --- Nothing walks ---


@pytest.mark.rule("U3")
@pytest.mark.parametrize(
    "path",
    [
        "..",
        ".",
        "a/../b",
        "a/./b",
        "a//b",
        "a/",
        "/a",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%2e",
        "a/%2e%2e/b",
        "a%2fb",
        "a%2Fb",
        "..%2f..%2fetc%2fpasswd",
        "a%5cb",
        "a\\b",
        "..\\..\\x",
        "%00",
        "a%00.md",
        "a\x00",
        "a%0ab",
        "a\nb",
        "a%7f",
        "a%c2%85",
        "a\x85",
        "a%e2%80%a8",
        "a\u2028",
        "a b",
        "a?b",
        "a#b",
        "a%",
        "a%2",
        "a%zz",
        "%ff",
        "%c3",
        "%ed%a0%80",
        "%c0%af",
        "a\ud800",
        'a"b',
        "a<b>",
        "a|b",
        "a^b",
        "a`b",
        "a{b}",
    ],
    ids=ascii,
)
def test_dots_slashes_controls_and_characters_a_uri_may_not_hold_are_refused(path: str) -> None:
    for text in (f"skill://{path}", f"skill://x/{path}/SKILL.md", f"https://x/{path}"):
        with pytest.raises(UriError) as refusal:
            SkillUri(text)
        assert refusal.value.rule == "U3"


@pytest.mark.rule("U3")
@pytest.mark.parametrize(
    ("path", "decoded"),
    [("%252e%252e", "%2e%2e"), ("a%252fb", "a%2fb"), ("%2500", "%00"), ("%25", "%"), ("%2525", "%25")],
)
def test_what_was_encoded_twice_is_decoded_once(path: str, decoded: str) -> None:
    uri = SkillUri(f"skill://x/{path}")
    assert uri.segments == ("x", decoded)
    assert uri.name == decoded


@pytest.mark.parametrize(
    "text", ["", "skill", "skill:", "skill:/", "skill:a/b", "skill://", "skill:///a", "//a/b", "1a://b"]
)
def test_what_is_not_of_the_form_scheme_and_path_is_refused(text: str) -> None:
    assert accepted(text) is None


@pytest.mark.parametrize("value", [None, 5, b"skill://a", ["skill://a"]])
def test_what_is_not_a_string_is_refused(value: object) -> None:
    with pytest.raises(UriError, match="is a string, not"):
        SkillUri(value)  # type: ignore[arg-type]


def test_a_uri_of_the_greatest_length_is_accepted_and_one_more_character_is_refused() -> None:
    longest = "skill://" + "a" * (MAX_URI_LENGTH - len("skill://"))
    assert SkillUri(longest) == longest
    with pytest.raises(UriError, match=r"4097 characters.*4096") as refusal:
        SkillUri(longest + "a")
    assert len(refusal.value.message) < 200


@pytest.mark.rule("U3")
@given(uri_texts)
@example("skill://a/%ed%a0%80")
@example("skill://a/\ud800%41")
def test_any_text_is_a_uri_whose_segments_cannot_walk_or_a_uri_error(text: str) -> None:
    uri = accepted(text)
    if uri is None:
        return
    assert uri == text
    for segment in uri.segments:
        assert segment not in {"", ".", ".."}
        assert not any(walking in segment for walking in WALKING)
        segment.encode()
    assert uri.name == uri.segments[-1]
    assert uri.key == (uri.scheme, *uri.segments)
    assert uri.scheme not in LOCAL_SCHEMES
    assert SkillUri.build(uri.segments, scheme=uri.scheme).key == uri.key


# --- One key a place ---


@pytest.mark.rule("U3")
@given(paths)
def test_segments_that_are_built_into_a_uri_come_back_as_they_were(path: list[str]) -> None:
    uri = SkillUri.build(path)
    assert uri.isascii()
    assert uri.segments == tuple(path)
    assert SkillUri(str(uri)).segments == tuple(path)


@pytest.mark.rule("U3")
@given(paths, st.data())
def test_every_spelling_of_a_place_has_the_same_key(path: list[str], data: st.DataObject) -> None:
    path = [segment[:40] for segment in path if segment[:40] not in {".", ".."}] or ["x"]
    spelled = "/".join(data.draw(spellings(segment)) for segment in path)
    scheme = data.draw(st.sampled_from(["skill", "SKILL", "Skill"]))
    uri = SkillUri(f"{scheme}://{spelled}")
    assert uri.key == SkillUri.build(path).key == ("skill", *path)


@given(paths, paths)
def test_different_places_have_different_keys_and_different_built_uris(one: list[str], two: list[str]) -> None:
    left, right = SkillUri.build(one), SkillUri.build(two)
    assert (left.key == right.key) == (one == two) == (left == right)


@pytest.mark.rule("U3")
@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "a\\b", "a\x00", "\ud800", "\u2028"])
def test_segments_that_could_walk_are_not_built_into_a_uri(bad: str) -> None:
    for path in ([bad], ["a", bad], [bad, "a"]):
        with pytest.raises(UriError):
            SkillUri.build(path)


def test_nothing_is_built_from_no_segments_or_a_local_scheme() -> None:
    with pytest.raises(UriError):
        SkillUri.build([])
    with pytest.raises(UriError):
        SkillUri.build(["a"], scheme="file")
    assert SkillUri.build(["owner", "a"], scheme="github") == "github://owner/a"


def test_a_uri_survives_being_stored_and_read_again() -> None:
    uri = SkillUri("skill://a/Q%26A.md")
    again = pickle.loads(pickle.dumps(uri))
    assert (type(again), again, again.key) == (SkillUri, uri, uri.key)


# --- Inside and outside ---


@pytest.mark.rule("U3")
@pytest.mark.rule("E2")
@given(paths, paths)
def test_a_directory_contains_exactly_what_lies_strictly_below_it(one: list[str], two: list[str]) -> None:
    inside = len(two) > len(one) and two[: len(one)] == one
    assert SkillUri.build(one).contains(SkillUri.build(two)) == inside
    assert SkillUri.build(one).contains(SkillUri.build([*one, *two]))
    assert not SkillUri.build([*one, *two]).contains(SkillUri.build(one))
    assert SkillUri.build(one).relative(SkillUri.build([*one, *two])) == "/".join(two)


@pytest.mark.rule("E2")
@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("skill://acme/refunds/a.md", True),
        ("SKILL://acme/refunds/a.md", True),
        ("skill://acme/ref%75nds/a.md", True),
        ("skill://%61cme/refunds/x/y/z", True),
        ("skill://acme/refunds", False),
        ("skill://acme/refunds-2/a.md", False),
        ("skill://acme/refund", False),
        ("skill://acme", False),
        ("skill://Acme/refunds/a.md", False),
        ("skill://acme/Refunds/a.md", False),
        ("github://acme/refunds/a.md", False),
        ("skill://x/acme/refunds/a.md", False),
        ("skill://acme/refunds%252Fa.md", False),
    ],
)
def test_only_a_place_below_the_directory_lies_inside_however_it_is_spelled(text: str, inside: bool) -> None:
    assert SkillUri("skill://acme/refunds").contains(SkillUri(text)) is inside


@pytest.mark.rule("U3")
@given(uri_texts, uri_texts)
@example("skill://a", "../b")
@example("skill://a", "%2e%2e/b")
def test_whatever_is_appended_to_a_directory_lies_inside_it_or_is_refused(directory: str, rest: str) -> None:
    outer, inner = accepted(directory), accepted(f"{directory}/{rest}")
    if outer is not None and inner is not None:
        assert outer.contains(inner)
        assert not inner.contains(outer)


@given(paths, paths)
def test_a_child_is_inside_its_directory_at_the_path_it_was_asked_for(directory: list[str], path: list[str]) -> None:
    root = SkillUri.build(directory[:2])
    child = root.child("/".join(path))
    assert root.contains(child)
    assert root.relative(child) == "/".join(path)
    assert SkillUri(str(child)).key == child.key
    assert child == SkillUri.build([*directory[:2], *path])


@pytest.mark.rule("U3")
@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "..", "a/..", "./a", "a\\b", "a\x00", "a\n", "\ud800", "a/\u2029"]
)
def test_no_child_is_made_of_a_path_that_walks(path: str) -> None:
    with pytest.raises(UriError):
        SkillUri("skill://a").child(path)


def test_a_child_may_have_the_greatest_length_and_not_one_character_more() -> None:
    root = SkillUri("skill://a")
    longest = "b" * (MAX_URI_LENGTH - len(root) - 1)
    assert len(root.child(longest)) == MAX_URI_LENGTH
    with pytest.raises(UriError, match="4097"):
        root.child(longest + "b")


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b.md", "skill://x/a%20b.md"),
        ("100%.md", "skill://x/100%25.md"),
        ("%2e%2e", "skill://x/%252e%252e"),
        ("Q&A;v=1,2.md", "skill://x/Q&A;v=1,2.md"),
        ("ä/東.md", "skill://x/%C3%A4/%E6%9D%B1.md"),
        (".hidden/..x/...", "skill://x/.hidden/..x/..."),
        ("what?#1.md", "skill://x/what%3F%231.md"),
    ],
)
def test_a_file_name_is_encoded_once(path: str, uri: str) -> None:
    child = SkillUri("skill://x").child(path)
    assert child == uri
    assert SkillUri("skill://x").relative(child) == path


# --- Local schemes ---


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "FiLe:///a/SKILL.md",
        "file://localhost/a/SKILL.md",
        "file:/etc/passwd",
        "file:etc/passwd",
        "file:",
        "data:text/markdown,x",
        "javascript:alert(1)",
        "jar:file:///a!/b",
        "unix:///run/socket",
        "resource://a/b",
        "blob:https://x/y",
        "about:blank",
        "content://a/b",
        "FileSystem:https://a/b",
        "vbscript:x",
    ],
)
def test_a_scheme_of_the_readers_own_machine_is_refused_by_that_rule(text: str) -> None:
    with pytest.raises(UriError) as refusal:
        SkillUri(text)
    assert refusal.value.rule == "X3"


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "text",
    [
        " file:///etc/passwd",
        "\tfile:///etc/passwd",
        "\x00file:///etc/passwd",
        "\ufefffile:///etc/passwd",
        "\u200bfile:///etc/passwd",
        "f\nile:///etc/passwd",
        "f\tile:///etc/passwd",
        "f%69le:///etc/passwd",
        "%66ile:///etc/passwd",
        "ｆile:///etc/passwd",
        "ﬁle:///etc/passwd",
        "file :///etc/passwd",
        "file\\:///etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "\\\\server\\share",
        "C:\\x",
        "c:/x",
        "~/x",
    ],
    ids=ascii,
)
def test_no_other_spelling_of_a_local_file_is_taken_for_a_uri(text: str) -> None:
    assert accepted(text) is None


@pytest.mark.rule("X3")
@given(st.sampled_from(sorted(LOCAL_SCHEMES)), st.lists(st.booleans(), min_size=10, max_size=10), uri_texts)
def test_a_local_scheme_is_refused_in_every_mixture_of_case(scheme: str, upper: list[bool], rest: str) -> None:
    text = "".join(letter.upper() if up else letter for letter, up in zip(scheme, upper, strict=False))
    text += scheme[len(text) :]
    with pytest.raises(UriError):
        SkillUri(f"{text}:{rest}")
    with pytest.raises(UriError):
        SkillUri(f"{text}://{rest}")


# --- References ---


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("references/GUIDE.md", ("references/GUIDE.md",)),
        ("./a.md", ("a.md",)),
        ("./a/./b.md", ("a/b.md",)),
        ("templates/", ("templates",)),
        ("a.md#setup", ("a.md#setup", "a.md")),
        ("my%20file.md", ("my%20file.md", "my file.md")),
        ("my%20file.md#x%20y", ("my%20file.md#x%20y", "my%20file.md", "my file.md")),
        ("100%.md", ("100%.md",)),
        ("./a:b.md", ("a:b.md",)),
        ("ä%C3%A4.md", ("ä%C3%A4.md", "ää.md")),
        ("%252e%252e/x", ("%252e%252e/x", "%2e%2e/x")),
        (".", ()),
        ("./", ()),
    ],
)
def test_a_reference_may_mean_itself_itself_without_a_fragment_and_itself_decoded(
    reference: str, expected: tuple[str, ...]
) -> None:
    assert reference_paths(reference) == expected


@pytest.mark.rule("U3")
@pytest.mark.parametrize(
    "reference",
    [
        "",
        "/etc/passwd",
        "//host/x",
        "/",
        "..",
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "a/%2E%2E",
        "%2fetc/passwd",
        "references%2FGUIDE.md",
        "..%2f..%2fx",
        "a\\b",
        "a%5cb",
        "..\\x",
        "C:x",
        "C:\\x",
        "file:x",
        "FILE:///etc/passwd",
        "%66ile:x",
        "https://x/y",
        "skill://other/SKILL.md",
        "a//b",
        "a%00",
        "a\x00",
        "a\nb",
        "a%0d",
        "%ff",
        "\ud800",
        "\ud800%41",
        "a\u2028",
    ],
    ids=ascii,
)
def test_a_reference_that_is_absolute_or_could_walk_is_refused(reference: str) -> None:
    with pytest.raises(UriError):
        reference_paths(reference)


@pytest.mark.parametrize("reference", ["/etc/passwd", "//host/x", "C:\\x", "https://x/y"])
def test_an_absolute_reference_is_refused_with_an_example_of_a_relative_one(reference: str) -> None:
    with pytest.raises(UriError, match=r"is not a path relative to the skill\. Give one such as references/GUIDE\.md"):
        reference_paths(reference)


@pytest.mark.rule("U3")
@given(uri_texts)
@example("\ud800%")
def test_any_reference_means_paths_inside_the_skill_or_is_a_uri_error(reference: str) -> None:
    try:
        found = reference_paths(reference)
    except UriError:
        return
    root = SkillUri("skill://a")
    for path in found:
        assert path.count("/") <= reference.count("/")
        assert root.contains(root.child(path))
        assert root.relative(root.child(path)) == path


# --- Cost and messages ---


@pytest.mark.parametrize("piece", ["a/", "%41", "%2e", "../", "://", "%", "é", ":1", "\x00"], ids=ascii)
def test_a_uri_of_megabytes_is_refused_at_once_and_not_repeated_in_the_message(piece: str) -> None:
    started = time.process_time()
    with pytest.raises(UriError) as refusal:
        SkillUri("skill://" + piece * 2_000_000)
    assert time.process_time() - started < 8
    assert len(refusal.value.message) < 1000


@pytest.mark.rule("B4")
@given(st.text(st.characters(), max_size=200))
def test_no_refusal_carries_hidden_or_control_characters(text: str) -> None:
    hostile = f"/\u202e\ud800\x1b{text}"
    for make in (SkillUri, reference_paths):
        with pytest.raises(UriError) as refusal:
            make(hostile)
        assert not set(refusal.value.message) & {*"\x00\x1b\r\n\t\u202e\u200b", *map(chr, range(0xD800, 0xE000))}
