"""A digest has one spelling, and is that of the raw bytes."""

from __future__ import annotations

import hashlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.digests import Digest

HEX = "0123456789abcdef"
EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.rule("E3")
def test_the_digest_of_nothing_and_of_abc_are_the_published_ones() -> None:
    assert Digest.of(b"") == EMPTY
    assert Digest.of(b"abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.rule("E3")
@given(st.binary())
def test_the_digest_of_bytes_is_their_sha_256_and_reads_back_as_itself(data: bytes) -> None:
    digest = Digest.of(data)
    assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert Digest(digest) == digest
    assert type(digest) is Digest


@pytest.mark.rule("E3")
def test_the_bytes_are_taken_raw() -> None:
    digests = {Digest.of(data) for data in (b"a\n", b"a\r\n", b"\xef\xbb\xbfa\n", "ä".encode(), "a\u0308".encode())}
    assert len(digests) == 5


@pytest.mark.rule("E3")
@given(st.text(HEX, min_size=64, max_size=64))
def test_any_64_lowercase_hexadecimal_digits_after_the_prefix_are_a_digest(digits: str) -> None:
    assert Digest(f"sha256:{digits}") == f"sha256:{digits}"


@pytest.mark.rule("E3")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        EMPTY[:-1],
        EMPTY + "0",
        EMPTY.removeprefix("sha256:"),
        EMPTY.upper(),
        "sha256:" + EMPTY[7:].upper(),
        "SHA256:" + EMPTY[7:],
        "sha256-" + EMPTY[7:],
        "sha512:" + EMPTY[7:],
        " " + EMPTY,
        EMPTY + "\n",
        EMPTY[:-1] + "g",
        EMPTY[:-1] + "٣",  # a digit, but not one of ours
        "sha256:" + "=" * 64,
    ],
)
def test_every_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="64 lowercase hexadecimal digits"):
        Digest(text)


@pytest.mark.rule("E3")
@given(st.integers(0, 70), st.sampled_from(string.printable))
def test_one_changed_character_is_refused_unless_it_is_another_digit(place: int, character: str) -> None:
    changed = EMPTY[:place] + character + EMPTY[place + 1 :]
    if changed == EMPTY or (place >= len("sha256:") and character in HEX):
        assert Digest(changed) == changed
    else:
        with pytest.raises(ValueError, match="digest"):
            Digest(changed)


@pytest.mark.rule("E3")
@pytest.mark.parametrize("value", [None, 5, True, b"sha256:", ["sha256:"], {}])
def test_what_is_not_a_string_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(ValueError, match=f'not "{type(value).__name__}"'):
        Digest(value)  # type: ignore[arg-type]


def test_a_refusal_shows_hostile_text_short_and_visible() -> None:
    with pytest.raises(ValueError, match="⟨U\\+202E⟩") as refusal:
        Digest("\u202e" + "x" * 1_000_000)
    assert len(str(refusal.value)) < 300
