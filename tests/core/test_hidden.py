"""Hidden content is shown to people: each invisible character as its code, each hiding place with its line."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.hidden import Hidden, find_hidden, shorten, visible

# What Unicode 16 lists as Default_Ignorable_Code_Point in DerivedCoreProperties.txt, copied from there.
DEFAULT_IGNORABLE = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
]
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "run this")


def kinds(text: str) -> list[tuple[str, int]]:
    return [(hidden.kind, hidden.line) for hidden in find_hidden(text)]


@pytest.mark.rule("B4")
@pytest.mark.parametrize(("first", "last"), DEFAULT_IGNORABLE)
def test_every_character_that_is_drawn_as_nothing_is_shown_as_its_code(first: int, last: int) -> None:
    for code in range(first, last + 1):
        assert visible(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


@pytest.mark.rule("B4")
def test_every_control_separator_surrogate_and_line_break_is_shown_as_its_code() -> None:
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in {"Cc", "Cs", "Zl", "Zp"}:
            assert visible(chr(code)) == f"⟨U+{code:04X}⟩"


@pytest.mark.rule("B4")
@given(st.text(st.characters()))
def test_visible_text_has_one_line_and_nothing_unprintable_and_stays_the_same_when_shown_again(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert visible(shown) == shown


def test_text_that_hides_nothing_is_shown_as_it_is() -> None:
    text = "Zürich, 東京, مرحبا, a\u00a0space, 1 < 2 -- 😀"
    assert visible(text) == text


@pytest.mark.rule("B4")
def test_no_text_can_reorder_what_follows_it_on_the_screen() -> None:
    assert visible("user\u202egnp.exe") == "user⟨U+202E⟩gnp.exe"


def test_shortened_text_of_the_allowed_length_is_whole_and_one_more_is_cut_to_it() -> None:
    assert shorten("x" * 80) == "x" * 80
    assert shorten("x" * 81) == "x" * 79 + "…"
    assert shorten("abcdef", 5) == "abcd…"


@pytest.mark.rule("B4")
def test_shortened_text_is_visible_in_both_cases() -> None:
    assert shorten("a\u200bb") == "a⟨U+200B⟩b"
    assert shorten("\u200b" + "b" * 100) == "⟨U+200B⟩" + "b" * 78 + "…"


@pytest.mark.rule("B4")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"see{TAGS}", "Unicode tag characters"),
        ("a\u202eb", "bidirectional controls"),
        ("a\u2066b\u2069", "bidirectional controls"),
        ("a\u200fb", "bidirectional controls"),
        ("a\u061cb", "bidirectional controls"),
        ("a\u200c\u200db", "zero-width characters"),
        ("a\ufe00\ufe01\ufe0eb", "zero-width characters"),
        ("a\u200bb", "zero-width characters"),
        ("a\u00adb", "zero-width characters"),
        ("a\u2060b", "zero-width characters"),
        ("a\ufeffb", "zero-width characters"),
        ("a\u206a\u206bb", "zero-width characters"),
        ("\U0001d173\U0001d174", "zero-width characters"),
        ("\u3164\u3164", "zero-width characters"),
        ("❤\ufe0f\u200d\ufe0f", "zero-width characters"),
        ("a\x1b[2Kb", "control characters"),
        ("a\x00b", "control characters"),
        ("a\x9bb", "control characters"),
        ("shown\rhidden", "control characters"),
        ("text <!-- not shown --> text", "an HTML comment"),
    ],
)
def test_each_way_of_hiding_is_found_and_named(text: str, kind: str) -> None:
    assert kinds(f"first line\n{text}\n") == [(kind, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\n",
        "lines\r\nof\r\nWindows\r\n",
        "\ufeff# one byte order mark at the start",
        "family 👨\u200d👩\u200d👧, heart ❤\ufe0f, keycap 1\ufe0f\u20e3",
        "hearts ❤\ufe0f\u200d🔥 and flags 🏳\ufe0f\u200d🌈",
        "क\u200d्ष and می\u200cخواهم",
        "a <! b and <- c and --> d",
        "",
    ],
)
def test_what_people_write_in_good_faith_is_not_reported(text: str) -> None:
    assert find_hidden(text) == ()


@pytest.mark.rule("B4")
def test_two_byte_order_marks_at_the_start_are_one_too_many() -> None:
    assert kinds("\ufeff\ufefftext") == [("zero-width characters", 1)]


@pytest.mark.rule("B4")
def test_a_control_character_before_a_windows_line_end_is_found() -> None:
    assert kinds("a\x08\r\n") == [("control characters", 1)]


@pytest.mark.rule("B4")
def test_each_kind_is_reported_once_a_line_with_its_line() -> None:
    text = f"a\u200bb\u200bc\n\n{TAGS} <!-- {TAGS}\n\u200b"
    assert find_hidden(text) == (
        Hidden(kind="zero-width characters", line=1),
        Hidden(kind="Unicode tag characters", line=3),
        Hidden(kind="an HTML comment", line=3),
        Hidden(kind="Unicode tag characters", line=3),
        Hidden(kind="zero-width characters", line=4),
    )


def test_no_more_places_are_reported_than_asked_for() -> None:
    text = "\u200b\n" * 1000
    assert [hidden.line for hidden in find_hidden(text, limit=3)] == [1, 2, 3]
    assert len(find_hidden(text)) == 100


@pytest.mark.parametrize(
    "text",
    ["\u200b", "\r", "\r\n", "\ufe0f\u200d", "<!-", "\x00\n", "\U000e0041"],
    ids=ascii,
)
def test_megabytes_of_one_thing_are_searched_in_linear_time(text: str) -> None:
    started = time.process_time()
    find_hidden(text * (1_000_000 // len(text)), limit=10**9)
    assert time.process_time() - started < 30
