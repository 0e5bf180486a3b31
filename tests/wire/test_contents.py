"""Bytes as they travel: exact, as text where that is exact too, and with the type of what they are."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.errors import BudgetError, UnavailableError
from skillquay.wire.contents import contents, media_type, received_bytes


def arrived(item: dict[str, Any]) -> bytes:
    """The bytes a client has after JSON."""
    travelled = json.loads(json.dumps(item))
    assert ("text" in travelled) != ("blob" in travelled)
    if "text" in travelled:
        text: str = travelled["text"]
        return text.encode("utf-8")
    return base64.b64decode(travelled["blob"], validate=True)


some_bytes = st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.mark.rule("U7")
@example(b"")
@example(b"\xef\xbb\xbf")
@example(b"\r\n\r\n\r")
@example(b"\0")
@example(b"\xff\xfe")
@example(b"\xed\xa0\x80")
@example(b"\xc0\x80")
@example(b"\xf4\x90\x80\x80")
@example("\u2028\u2029\u0085".encode())
@given(some_bytes)
def test_any_bytes_arrive_as_they_were(data: bytes) -> None:
    assert arrived(contents("skill://a/b", data, None)) == data


@pytest.mark.rule("U7")
@given(some_bytes)
def test_text_is_used_exactly_where_the_bytes_are_utf_8(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        assert contents("skill://a/b", data, None) == {
            "uri": "skill://a/b",
            "blob": base64.b64encode(data).decode(),
        }
    else:
        assert contents("skill://a/b", data, None) == {"uri": "skill://a/b", "text": text}


@pytest.mark.rule("U6")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SKILL.md", "text/markdown"),
        ("README.MD", "text/markdown"),
        ("page.mdx", "text/markdown"),
        ("data.json", "application/json"),
        ("config.yaml", "application/yaml"),
        ("config.yml", "application/yaml"),
        ("pyproject.toml", "application/toml"),
        ("run.sh", "application/x-sh"),
        ("run.py", "text/x-python"),
        ("app.js", "text/javascript"),
        ("app.mjs", "text/javascript"),
        ("app.ts", "application/typescript"),
        ("table.csv", "text/csv"),
        ("page.html", "text/html"),
        ("logo.png", "image/png"),
        ("logo.svg", "image/svg+xml"),
        ("paper.pdf", "application/pdf"),
        ("archive.zip", "application/zip"),
        ("archive.tar.gz", "application/gzip"),
        ("archive.tgz", "application/gzip"),
        ("data.json.gz", "application/gzip"),
        ("data.csv.bz2", "application/x-bzip2"),
        ("data.csv.xz", "application/x-xz"),
        ("logo.svgz", "application/gzip"),
        ("old.Z", "application/octet-stream"),
        ("data:text/html,x.png", "image/png"),
        ("a b?c#d.json", "application/json"),
    ],
)
def test_the_type_is_that_of_the_content_not_of_what_was_packed_into_it(name: str, expected: str) -> None:
    for data in (None, b"", b"\xff"):
        assert media_type(name, data) == expected


@pytest.mark.rule("U6")
@pytest.mark.parametrize("name", ["LICENSE", "Makefile", ".gitignore", "a.unknown-suffix", "", "x."])
def test_a_name_that_tells_nothing_leaves_it_to_the_bytes(name: str) -> None:
    assert media_type(name) is None
    assert media_type(name, b"text\n") == "text/plain"
    assert media_type(name, b"") == "text/plain"
    assert media_type(name, b"\xff\x00") == "application/octet-stream"


@pytest.mark.rule("U6")
@given(st.text(max_size=30))
def test_any_name_has_a_type(name: str) -> None:
    assert "/" in (media_type(name, b"") or "")


@pytest.mark.rule("U6")
def test_the_type_rides_with_the_content() -> None:
    assert contents("skill://a/b.md", b"x", "text/markdown") == {
        "uri": "skill://a/b.md",
        "mimeType": "text/markdown",
        "text": "x",
    }


# What a host takes


@pytest.mark.rule("V1")
@example(b"")
@example(b"\xff")
@given(some_bytes)
def test_what_a_server_sends_is_taken_byte_for_byte(data: bytes) -> None:
    answer = json.loads(json.dumps({"contents": [contents("skill://a/b", data, None)]}))
    assert received_bytes(answer, "skill://a/b", limit=len(data)) == data


@pytest.mark.rule("B1")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_more_than_the_limit_is_not_taken_in_either_form(size: int) -> None:
    for item in ({"text": "x" * size}, {"blob": base64.b64encode(b"x" * size).decode()}):
        assert received_bytes({"contents": [item]}, "skill://a/b", limit=size) == b"x" * size
        with pytest.raises(BudgetError, match=f"larger than the {size - 1} bytes"):
            received_bytes({"contents": [item]}, "skill://a/b", limit=size - 1)
    with pytest.raises(BudgetError):
        received_bytes({"contents": [{"text": "\u00e9" * size}]}, "skill://a/b", limit=size)


@pytest.mark.rule("B1")
def test_a_blob_that_is_far_too_long_is_not_even_decoded() -> None:
    with pytest.raises(BudgetError):
        received_bytes({"contents": [{"blob": "!" * 1000}]}, "skill://a/b", limit=100)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"contents": None},
        {"contents": {}},
        {"contents": []},
        {"contents": ["x"]},
        {"contents": [{"text": "a"}, {"text": "b"}]},
        {"contents": [{}]},
        {"contents": [{"text": 1}]},
        {"contents": [{"text": "a", "blob": "YQ=="}]},
        {"contents": [{"text": None, "blob": None}]},
        {"contents": [{"text": "\ud800"}]},
        {"contents": [{"blob": "YQ"}]},
        {"contents": [{"blob": "Y Q=="}]},
        {"contents": [{"blob": "YQ==YQ=="}]},
        {"contents": [{"blob": "\u00e9\u00e9=="}]},
        {"contents": [{"blob": "_-=="}]},
    ],
    ids=str,
)
def test_an_answer_that_is_not_exactly_one_file_is_an_error_that_names_it(answer: dict[str, Any]) -> None:
    with pytest.raises(UnavailableError, match="skill://a/⟨U\\+202E⟩"):
        received_bytes(answer, "skill://a/\u202e", limit=1000)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["contents", "text", "blob", "uri"]), inner, max_size=3)
        ),
    )
)
def test_no_answer_of_any_kind_is_a_crash(value: Any) -> None:
    try:
        data = received_bytes({"contents": value}, "skill://a/b", limit=10)
    except (BudgetError, UnavailableError) as error:
        assert error.message.endswith(".")
    else:
        assert len(data) <= 10
