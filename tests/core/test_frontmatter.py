"""The exact cut of a `SKILL.md`, its strict reading in linear time, and the comparison with an entry."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skillquay.core.frontmatter import MAX_FRONTMATTER, Cut, Difference, cut, differences, parse_frontmatter
from skillquay.errors import FrontmatterError

MEBIBYTE = 1024 * 1024


def fields(text: str) -> dict[str, Any]:
    return dict(parse_frontmatter(text.encode()).fields)


def refusal(data: str | bytes) -> FrontmatterError:
    with pytest.raises(FrontmatterError) as error:
        parse_frontmatter(data if isinstance(data, bytes) else data.encode())
    return error.value


def skill_md(yaml_text: str) -> bytes:
    return f"---\n{yaml_text}\n---\nbody\n".encode()


# --- The cut ---


@pytest.mark.rule("F1")
@pytest.mark.parametrize(
    ("text", "yaml_text", "body"),
    [
        ("---\na: b\n---\nbody\n", "a: b\n", "body\n"),
        ("---\na: b\n---\n", "a: b\n", ""),
        ("---\na: b\n---", "a: b\n", ""),
        ("---\na: b\n---\r", "a: b\n", ""),
        ("---\r\na: b\r\n---\r\nbody\r\n", "a: b\r\n", "body\r\n"),
        ("---\r\na: b\n---\nbody", "a: b\n", "body"),
        ("---  \t\na: b\n--- \t \nbody", "a: b\n", "body"),
        ("---\na: b\n---   ", "a: b\n", ""),
        ("\ufeff---\na: b\n---\nbody", "a: b\n", "body"),
        ("---\n---\nbody", "", "body"),
        ("---\n\n\n---\n", "\n\n", ""),
        ("---\na: |\n  x\n---\n---\nmore\n---\n", "a: |\n  x\n", "---\nmore\n---\n"),
        ("---\na: b\n ---\n----\n---x\n--- # c\n---\nbody", "a: b\n ---\n----\n---x\n--- # c\n", "body"),
        ("---\na: b\n---\n\nbody\n\n", "a: b\n", "\nbody\n\n"),
    ],
)
def test_the_frontmatter_lies_between_a_first_line_and_the_next_line_of_three_hyphens(
    text: str, yaml_text: str, body: str
) -> None:
    data = text.encode()
    part = cut(data)
    assert part.yaml == yaml_text.encode()
    assert data[part.yaml_start :].startswith(part.yaml)
    assert data[part.body_start :] == body.encode()


@pytest.mark.rule("F1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "# A heading\n",
        "\n---\na: b\n---\n",
        " ---\na: b\n---\n",
        "----\na: b\n---\n",
        "--\na: b\n---\n",
        "---",
        "--- # comment\na: b\n---\n",
        "--- a: b\n---\n",
        "---\ra: b\r---\r",
        "\ufeff\ufeff---\na: b\n---\n",
        "\u200b---\na: b\n---\n",
        "+++\na = 1\n+++\n",
        "```yaml\n---\na: b\n---\n```\n",
        "\v---\na: b\n---\n",
    ],
)
def test_a_file_that_does_not_begin_with_frontmatter_is_refused_at_its_first_line(text: str) -> None:
    error = refusal(text)
    assert error.message == "SKILL.md does not begin with YAML frontmatter."
    assert (error.rule, error.line) == ("F1", 1)


@pytest.mark.rule("F1")
@pytest.mark.parametrize(
    "text",
    [
        "---\n",
        "---\na: b\n",
        "---\na: b\n ---\n",
        "---\na: b\n----\n",
        "---\na: b\n---x\n",
        "---\na: b\n--- # end\n",
        "---\na: b---\n",
    ],
)
def test_frontmatter_that_is_not_closed_is_refused(text: str) -> None:
    error = refusal(text)
    assert error.message == 'The frontmatter has no closing line "---".'
    assert error.rule == "F1"


@pytest.mark.rule("F1")
@pytest.mark.parametrize(
    ("data", "byte", "line"),
    [
        (b"---\na: b\n---\nbody \xff\n", "0xff", 4),
        (b"---\na: \xe4\n---\n", "0xe4", 2),
        (b"\xff\xfe-\x00-\x00-\x00\n\x00", "0xff", 1),
        (b"---\n\na: \xed\xa0\x80\n---\n", "0xed", 3),
        (b"---\na: \xc0\x80\n---\n", "0xc0", 2),
    ],
)
def test_a_file_that_is_not_utf_8_is_refused_with_the_byte_and_its_line(data: bytes, byte: str, line: int) -> None:
    error = refusal(data)
    assert byte in error.message
    assert error.line == line


@pytest.mark.rule("F4")
def test_frontmatter_of_one_mebibyte_is_read_and_one_byte_more_is_refused() -> None:
    assert MAX_FRONTMATTER == MEBIBYTE
    text = "a: " + "x" * (MEBIBYTE - len("a: \n"))
    assert len(cut(f"---\n{text}\n---\n".encode()).yaml) == MEBIBYTE
    assert fields(f"---\n{text}\n---\n")["a"] == text[3:]
    error = refusal(f"---\n{text}x\n---\n")
    assert error.rule == "F4"
    assert "1,048,577" in error.message
    assert "1,048,576" in error.message


def test_the_body_may_be_larger_than_that() -> None:
    data = b"---\na: b\n---\n" + b"x" * (2 * MEBIBYTE)
    assert parse_frontmatter(data).body_start == len(b"---\na: b\n---\n")


@pytest.mark.rule("U7")
@given(st.binary(), st.binary())
def test_a_cut_gives_slices_of_the_bytes_and_changes_none(before: bytes, after: bytes) -> None:
    data = b"---\n" + before + b"\n---\n" + after
    try:
        part = cut(data)
    except FrontmatterError:
        return
    end = part.yaml_start + len(part.yaml)
    assert data[: part.yaml_start] + part.yaml + data[end : part.body_start] + data[part.body_start :] == data
    assert data[end : part.body_start].strip(b" \t\r\n") == b"---"
    assert part.yaml == b"" or part.yaml.endswith(b"\n")


# --- The strict reading: every decision about YAML ---


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("yaml_text", "value"),
    [
        ("x: 2026-07-28", "2026-07-28"),
        ("x: 2026-07-28T10:00:00Z", "2026-07-28T10:00:00Z"),
        ("x: 1.10", 1.1),
        ("x: '1.10'", "1.10"),
        ("x: yes", "yes"),
        ("x: No", "No"),
        ("x: on", "on"),
        ("x: true", True),
        ("x: 012", 12),
        ("x: 0o14", 12),
        ("x: 1:30", "1:30"),
        ("x: 1_000", "1_000"),
        ("x: ~", None),
        ("x: null", None),
        ("x:", None),
        ("x: ''", ""),
        ("x: -0.0", 0.0),
        ("x: # comment", None),
        ("x: a#b", "a#b"),
        ("x: 'it''s'", "it's"),
        ('x: "\\u2028\\x85"', "\u2028\x85"),
        ('x: "\\0"', "\x00"),
        ("x: !!str 12", "12"),
        ("x: 😀", "😀"),
        ("x: e\u0301", "e\u0301"),
        ("x: a\n  b\n\n  c", "a b\nc"),
        ("x: |\n  a\n  b", "a\nb\n"),
        ("x: |-\n  a", "a"),
        ("x: |+\n  a\n", "a\n\n"),
        ("x: >\n  a\n  b\n", "a b\n"),
        ("x: [a, {b: c}]", ["a", {"b": "c"}]),
        ("x: {a, b: }", {"a": None, "b": None}),
    ],
)
def test_a_value_is_read_under_the_one_rule(yaml_text: str, value: object) -> None:
    found = fields(f"---\n{yaml_text}\n---\n")
    assert found == {"x": value}
    assert type(found["x"]) is type(value)


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    "yaml_text",
    [
        "x: .nan",
        "x: .inf",
        "x: 1e999",
        f"x: {'9' * 5000}",
        "x: &a b",
        "x: *a",
        "x: 1\nx: 1",
        "1: x",
        "true: x",
        "~: x",
        "? [a]\n: b",
        "x: !!int 1",
        "x: !t 1",
        "\tx: 1",
        "x: b: c",
        "[a]",
        "a",
        "null",
        "x: 1\n--- # comment\ny: 2",
        "--- # comment\n--- # comment\nx: 1",
        "x: 1\n...\ny: 2",
        "%YAML 1.2\n--- # comment\nx: 1",
        "x: \x07",
        "x: \x00",
        "x: \ufffe",
        "x: " + "[" * 50_000,
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_what_readers_would_not_agree_on_is_refused(yaml_text: str) -> None:
    assert refusal(skill_md(yaml_text)).rule == "F4"


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("yaml_text", "expected"),
    [
        ("", {}),
        ("# comment", {}),
        ("{}", {}),
        ("x: 1\n...", {"x": 1}),
        ("--- # comment\nx: 1", {"x": 1}),
        ("x: ---", {"x": "---"}),
        ("x: |\n  ---\n  a", {"x": "---\na\n"}),
        ("x: 1 \t ", {"x": 1}),
    ],
)
def test_frontmatter_that_is_empty_commented_or_ended_twice_is_read(yaml_text: str, expected: dict[str, Any]) -> None:
    assert dict(parse_frontmatter(skill_md(yaml_text)).fields) == expected


@pytest.mark.rule("F4")
def test_the_newline_before_the_closing_line_belongs_to_a_block_scalar_that_ends_there() -> None:
    assert fields("---\ndescription: |\n  text\n---\n") == {"description": "text\n"}
    assert fields("---\ndescription: >\n  text\n---") == {"description": "text\n"}
    assert fields("---\ndescription: |+\n  text\n\n---\n") == {"description": "text\n\n"}


@pytest.mark.rule("F4")
def test_windows_line_ends_make_no_difference_to_the_fields() -> None:
    text = '---\nname: a\ndescription: |\n  x\n  y\nlist:\n- a\n- "b\n  c"\n---\nbody\n'
    assert fields(text.replace("\n", "\r\n")) == fields(text)
    assert fields(text)["description"] == "x\ny\n"


@pytest.mark.rule("F4")
def test_a_byte_order_mark_makes_no_difference_to_the_fields() -> None:
    assert fields("\ufeff---\na: b\n---\n") == fields("---\na: b\n---\n") == {"a": "b"}


@pytest.mark.rule("F4")
def test_a_lone_carriage_return_ends_a_line_of_yaml_and_nothing_else() -> None:
    assert fields("---\na: b\rc: d\n---\n") == {"a": "b", "c": "d"}
    assert refusal("---\na: b\r---\rc: d\n---\n").rule == "F4"


@pytest.mark.rule("F4")
@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_a_character_that_ends_a_line_for_some_readers_only_is_refused_on_its_line(character: str) -> None:
    for yaml_text in (f"a: b{character}c: d", f"a: 'b{character}c'", f"# {character}", f"a{character}: b"):
        error = refusal(f"---\nx: 1\n{yaml_text}\n---\n")
        assert (error.rule, error.line) == ("F4", 3)
        assert f"U+{ord(character):04X}" in error.message
        assert error.fix is not None
        assert f"\\u{ord(character):04x}" in error.fix
    assert fields(f"---\na: b\n---\nthe body may hold {character}\n") == {"a": "b"}


@pytest.mark.rule("F4")
def test_every_field_the_author_wrote_is_there_in_the_authors_order_with_its_line() -> None:
    frontmatter = parse_frontmatter(b"---\nz: 1\nname: a\n\ndescription: b\nmetadata:\n  k: v\nx-new: [1]\n---\nbody\n")
    assert list(frontmatter.fields.items()) == [
        ("z", 1),
        ("name", "a"),
        ("description", "b"),
        ("metadata", {"k": "v"}),
        ("x-new", [1]),
    ]
    assert frontmatter.lines == {"z": 2, "name": 3, "description": 5, "metadata": 6, "x-new": 8}
    assert (frontmatter.name, frontmatter.description) == ("a", "b")


@pytest.mark.rule("F1")
@pytest.mark.parametrize("value", ["", "12", "[a]", "{a: b}", "null", "true"])
def test_a_name_or_description_that_is_missing_or_not_a_string_is_empty(value: str) -> None:
    frontmatter = parse_frontmatter(skill_md(f"name: {value}\ndescription: {value}"))
    assert (frontmatter.name, frontmatter.description) == ("", "")
    assert (parse_frontmatter(b"---\n---\n").name, parse_frontmatter(b"---\n---\n").description) == ("", "")


def test_the_fields_that_were_read_cannot_be_replaced() -> None:
    frontmatter = parse_frontmatter(b"---\na: b\n---\n")
    with pytest.raises(TypeError):
        frontmatter.fields["a"] = "c"  # type: ignore[index]
    assert Cut.FIRST_LINE == 2


pieces = st.sampled_from(
    [
        *(
            "---",
            "---\n",
            "\n",
            "\r\n",
            "\r",
            " ",
            "\t",
            "\ufeff",
            "a: ",
            "b",
            "- ",
            "[",
            "]",
            "{",
            "}",
            "'",
            '"',
            "|",
            ">",
        ),
        *(
            "#",
            "&a",
            "*a",
            "!!str ",
            "!<%ff>",
            "%TAG",
            "...",
            "\0",
            "\x85",
            "\u2028",
            "1e999",
            "~",
            ": ",
            "? ",
            "name: a\n",
        ),
    ]
)


@pytest.mark.rule("F4")
@settings(max_examples=500)
@given(
    st.one_of(
        st.binary(),
        st.lists(pieces).map("".join).map(str.encode),
        st.lists(pieces).map(lambda parts: skill_md("".join(parts))),
        st.binary().map(lambda data: b"---\n" + data + b"\n---\n"),
    )
)
@example(b"---\na: !<%ed%a0%80> x\n---\n")
def test_any_bytes_are_frontmatter_of_json_values_or_a_frontmatter_error(data: bytes) -> None:
    try:
        frontmatter = parse_frontmatter(data)
    except FrontmatterError as error:
        found: Any = error
    else:
        found = frontmatter
        json.dumps(dict(frontmatter.fields), allow_nan=False)
        assert set(frontmatter.lines) == set(frontmatter.fields)
        assert data[frontmatter.body_start - 1 : frontmatter.body_start] in {b"\n", b"\r", b"-", b" ", b"\t"}
    last = data.count(b"\n") + data.count(b"\r") + 2
    for line in [found.line] if isinstance(found, FrontmatterError) else found.lines.values():
        assert 1 <= line <= last


# --- Linear time ---


@pytest.mark.rule("F1")
@pytest.mark.parametrize(
    ("line", "end"),
    [
        (b"a: b\n", b""),
        (b"---x\n", b""),
        (b"---\r", b""),
        (b"---\t\tx\n", b""),
        (b"\n", b"\xff"),
    ],
)
def test_sixteen_mebibytes_without_a_closing_line_are_refused_at_once(line: bytes, end: bytes) -> None:
    data = b"---\n" + line * (16 * MEBIBYTE // len(line)) + end
    started = time.process_time()
    refusal(data)
    assert time.process_time() - started < 30  # seconds on a busy machine; anything quadratic takes many minutes


def test_sixteen_mebibytes_of_spaces_after_the_hyphens_are_passed_over_once() -> None:
    started = time.process_time()
    spaces = b" " * (8 * MEBIBYTE)
    refusal(b"---" + spaces + b"x\n---\n")
    refusal(b"---\n---" + spaces + b"x\n")
    assert time.process_time() - started < 30  # seconds on a busy machine; anything quadratic takes many minutes


# --- Comparison with an entry ---

NOTES = """name: a
description: b
version: 1.10
flag: yes
octal: 012
released: 2026-07-28
at: 2026-07-28 10:20:30
nothing: ~
count: 3
metadata:
  list: [1, no, {deep: 2026-01-02}]"""
COMMON = {"name": "a", "description": "b"}
CORE = COMMON | {
    "version": 1.1,
    "flag": "yes",
    "octal": 12,
    "released": "2026-07-28",
    "at": "2026-07-28 10:20:30",
    "nothing": None,
    "count": 3,
    "metadata": {"list": [1, "no", {"deep": "2026-01-02"}]},
}
YAML_1_1_ISO = CORE | {
    "flag": True,
    "octal": 10,
    "at": "2026-07-28T10:20:30",
    "metadata": {"list": [1, False, {"deep": "2026-01-02"}]},
}
YAML_1_1_RFC3339 = YAML_1_1_ISO | {
    "released": "2026-07-28T00:00:00Z",
    "at": "2026-07-28T10:20:30Z",
    "metadata": {"list": [1, False, {"deep": "2026-01-02T00:00:00.000Z"}]},
}
STRINGS = COMMON | {
    "version": "1.10",
    "flag": "yes",
    "octal": "012",
    "released": "2026-07-28",
    "at": "2026-07-28 10:20:30",
    "nothing": "~",
    "count": "3",
    "metadata": {"list": ["1", "no", {"deep": "2026-01-02"}]},
}
READINGS: list[dict[str, Any]] = [CORE, YAML_1_1_ISO, YAML_1_1_RFC3339, STRINGS]


def differing(expected: dict[str, Any], yaml_text: str = NOTES) -> list[str]:
    return [difference.field for difference in differences(expected, skill_md(yaml_text))]


@pytest.mark.rule("V2")
@pytest.mark.parametrize("entry", READINGS, ids=["core", "1.1 ISO", "1.1 RFC 3339", "strings"])
def test_an_entry_that_is_one_standard_reading_of_the_bytes_is_no_difference(entry: dict[str, Any]) -> None:
    assert differing(entry) == []
    assert differing(json.loads(json.dumps(entry))) == []
    assert differing(dict(reversed(entry.items()))) == []


@pytest.mark.rule("V2")
def test_a_yaml_1_1_server_that_prints_dates_as_python_does_is_no_difference() -> None:
    assert yaml.safe_load(NOTES) != CORE
    entry = json.loads(json.dumps(yaml.safe_load(NOTES), default=str))
    assert entry["at"] == "2026-07-28 10:20:30"
    assert differing(entry) == []


@pytest.mark.rule("V2")
@given(st.data())
def test_a_mixture_of_readings_is_a_difference(data: st.DataObject) -> None:
    chosen = {key: data.draw(st.sampled_from(READINGS)) for key in CORE}
    entry = {key: reading[key] for key, reading in chosen.items()}
    assert (differing(entry) == []) == any(entry == reading for reading in READINGS)


@pytest.mark.rule("V2")
def test_one_date_in_iso_form_and_one_in_rfc_3339_is_a_difference() -> None:
    yaml_text = "a: 2026-01-01\nb: 2026-01-02\nflag: yes"
    assert differing({"a": "2026-01-01", "b": "2026-01-02", "flag": True}, yaml_text) == []
    assert differing({"a": "2026-01-01T00:00:00Z", "b": "2026-01-02T00:00:00Z", "flag": True}, yaml_text) == []
    assert differing({"a": "2026-01-01", "b": "2026-01-02T00:00:00Z", "flag": True}, yaml_text) != []


@pytest.mark.rule("V2")
@pytest.mark.parametrize("reading", READINGS, ids=["core", "1.1 ISO", "1.1 RFC 3339", "strings"])
@pytest.mark.parametrize("key", [*CORE, "extra"])
def test_one_field_changed_removed_or_added_is_a_difference_in_that_field(reading: dict[str, Any], key: str) -> None:
    changed: list[dict[str, Any]] = [reading | {key: value} for value in ("x", 7, False, [], {}, [None], {"a": None})]
    if key in reading:
        changed.append({name: value for name, value in reading.items() if name != key})
    for entry in changed:
        assert key in {field.split(".")[0] for field in differing(entry)}


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    ("yaml_text", "values"),
    [
        ("1", [True, "1 ", "one", None, 2, 1.5, [1], {"1": None}, -1]),
        ("true", [1, 1.0, "True", "yes", None, False, "false"]),
        ("yes", [1, "true", "Yes", "on", False]),
        ("~", [False, 0, "", "null", "None", [], {}]),
        ("", [False, 0, "null", "~", [], {}]),
        ("''", [None, False, 0, " "]),
        ("'1'", [1, True]),
        ("'true'", [True]),
        ("'~'", [None]),
        ("'2026-07-28'", ["2026-07-28T00:00:00Z", "2026-07-28T00:00:00"]),
        ("1.10", ["1.1", 1.2, 1, 110]),
        ("[1, 2]", [[2, 1], [1], [1, 2, 3], "1, 2", {"0": 1, "1": 2}, [[1, 2]], None]),
        ("{a: 1}", [{"a": 2}, {"b": 1}, {}, {"a": 1, "b": None}, [["a", 1]], {"A": 1}]),
        ("[]", [{}, None, "", "[]", False]),
        ("{}", [[], None, "", "{}"]),
        ("e\u0301", ["é"]),
        ("abc", ["abc ", "Abc", "abc\u200b", "ab", "abc\n"]),
        ("2026-07-28", ["2026-07-29", "2026-07-28T00:00:01Z", "2026-07-28T00:00:00", "28.7.2026", 1785196800]),
        ("190:20:30", ["685230", 685231]),
        ("0", [False, None, "", "00"]),
    ],
)
def test_any_other_value_or_type_is_a_difference(yaml_text: str, values: list[object]) -> None:
    for value in values:
        assert [field[:1] for field in differing({"x": value}, f"x: {yaml_text}")][:1] == ["x"]


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    ("yaml_text", "values"),
    [
        ("1", [1, 1.0, "1"]),
        ("1.0", [1, 1.0, "1.0"]),
        ("-0.0", [0, 0.0, -0.0, "-0.0"]),
        ("0", [0, -0.0]),
        ("1e3", [1000, 1000.0, "1e3"]),
        ("9007199254740993", [9007199254740993, 9007199254740992, 9007199254740992.0]),
        ("123456789012345678901234567890", [123456789012345678901234567890, 1.2345678901234568e29]),
        ("0.1", [0.1, 0.1000000000000000055]),
        ("012", [12, 10, "012"]),
        ("0o14", [12, "0o14"]),
        ("0b11", [3, "0b11"]),
        ("190:20:30", [685230, "190:20:30"]),
        ("yes", [True, "yes"]),
        ("~", [None, "~"]),
        ("", [None, ""]),
        ("2026-07-28", ["2026-07-28", "2026-07-28T00:00:00Z", "2026-07-28T00:00:00+00:00"]),
        (
            "2026-07-28T10:00:00+02:00",
            ["2026-07-28T10:00:00+02:00", "2026-07-28T08:00:00Z", "2026-07-28 10:00:00+02:00"],
        ),
        ("2026-02-30", ["2026-02-30"]),
        ("'yes'", ["yes"]),
    ],
)
def test_what_one_number_or_one_moment_is_written_as_elsewhere_is_no_difference(
    yaml_text: str, values: list[object]
) -> None:
    for value in values:
        assert differing({"x": value}, f"x: {yaml_text}") == []


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    "number",
    [10**400, -(10**5000), float("nan"), float("inf"), 1e308, 9007199254740995],
    ids=["400 digits", "5,000 digits", "NaN", "infinity", "a large one", "the next double"],
)
def test_a_number_beyond_what_the_file_can_hold_is_a_difference_and_not_a_crash(number: float) -> None:
    (difference,) = differences({"x": number}, skill_md("x: 9007199254740992"))
    assert difference.field == "x"
    assert len(difference.expected) < 120


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab 1.~-:yes"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text("abc", min_size=1, max_size=2), json_values, min_size=1, max_size=4)


@pytest.mark.rule("V2")
@given(json_objects)
def test_an_entry_equals_the_json_that_is_its_frontmatter(document: dict[str, Any]) -> None:
    assert differences(document, skill_md(json.dumps(document))) == ()


def places(value: object, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [place]
    if isinstance(value, dict):
        found += [inner for key in value for inner in places(value[key], (*place, key))]
    elif isinstance(value, list):
        found += [inner for index, each in enumerate(value) for inner in places(each, (*place, index))]
    return found


@pytest.mark.rule("V2")
@given(json_objects, json_values, st.data())
def test_one_value_replaced_at_any_depth_is_a_difference(
    document: dict[str, Any], value: object, data: st.DataObject
) -> None:
    entry: Any = json.loads(json.dumps(document))
    *way, last = data.draw(st.sampled_from(places(document)[1:]))
    holder = entry
    for step in way:
        holder = holder[step]
    assume(loosely(holder[last]) != loosely(value))
    holder[last] = value
    assert differences(entry, skill_md(json.dumps(document))) != ()


def loosely(value: object) -> object:
    """The same for two values that some standard reading may take for one: 1, 1.0 and "1", but not true."""
    match value:
        case dict():
            return {key: loosely(inner) for key, inner in value.items()}
        case list():
            return [loosely(inner) for inner in value]
        case None | bool():
            return (json.dumps(value),)
        case int() | float():
            return float(value)
    try:
        scalar = json.loads(str(value))
    except ValueError:
        return value
    return loosely(scalar) if scalar != value else value


@pytest.mark.rule("V2")
@given(json_objects)
def test_an_entry_of_nothing_but_strings_equals_the_scalars_as_they_are_written(document: dict[str, Any]) -> None:
    def written(value: object) -> object:
        if isinstance(value, dict):
            return {key: written(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [written(inner) for inner in value]
        return value if isinstance(value, str) else json.dumps(value)

    entry = written(document)
    assert isinstance(entry, dict)
    assert differences(entry, skill_md(json.dumps(document))) == ()


scalars = st.sampled_from(
    [
        *(
            "2026-07-28",
            "2026-07-28 10:20:30",
            "2026-07-28T10:20:30.5Z",
            "2026-07-28t1:20:30 -5",
            "'2026-07-28'",
            "2026-7-1",
        ),
        *(
            "yes",
            "Off",
            "'no'",
            "~",
            "''",
            "012",
            "0o14",
            "0x_1f",
            "1_000",
            "1:30",
            "1:30.5",
            "1e3",
            "1.10",
            ".5",
            "-.5",
            "x",
        ),
    ]
)


@pytest.mark.rule("V2")
@pytest.mark.parametrize("form", ["ISO", "RFC 3339"])
@given(values=st.lists(scalars, min_size=1))
def test_what_a_server_on_pyyaml_publishes_is_no_difference(form: str, values: list[str]) -> None:
    def printed(moment: Any) -> str:
        text = str(moment.isoformat())
        if form == "ISO":
            return text
        text = text if "T" in text else f"{text}T00:00:00"
        return text if "+" in text or text.endswith("-05:00") else f"{text}Z"

    text = "".join(f"k{number}: [{value}]\n" for number, value in enumerate(values))
    published = json.loads(json.dumps(yaml.safe_load(text), default=printed))
    assert differences(published, skill_md(text)) == ()


def test_differences_name_the_place_and_show_both_sides_in_the_authors_order() -> None:
    data = skill_md("a: 1\nb: {c: [x, 2026-01-01], d: long}\ne: [1]\nf: {}\ng: z")
    entry = {"a": 2, "b": {"c": ["x", "y"], "d": "l" * 200}, "e": [1, 2], "f": None, "h": [True]}
    assert differences(entry, data) == (
        Difference(field="a", expected="2", found="1"),
        Difference(field="b.c[1]", expected='"y"', found='"2026-01-01"'),
        Difference(field="b.d", expected='"' + "l" * 79 + '…"', found='"long"'),
        Difference(field="e", expected="a list of 2", found="a list of 1"),
        Difference(field="f", expected="None", found="a mapping of 0"),
        Difference(field="h", expected="a list of 1", found="nothing"),
        Difference(field="g", expected="nothing", found='"z"'),
    )


@pytest.mark.rule("B4")
def test_differences_show_hostile_text_short_and_visible() -> None:
    (difference, _) = differences({"\u202e" + "k" * 500: "\u200b" * 500}, skill_md("a: b"))
    assert "\u202e" not in difference.field
    assert "\u200b" not in difference.expected
    assert len(difference.field) < 200
    assert len(difference.expected) < 800


@pytest.mark.rule("V2")
def test_a_file_whose_frontmatter_cannot_be_read_is_an_error_and_never_equal() -> None:
    with pytest.raises(FrontmatterError):
        differences({}, b"no frontmatter")
    with pytest.raises(FrontmatterError):
        differences({"x": 1}, skill_md("x: .inf"))


@pytest.mark.rule("V2")
@pytest.mark.parametrize("text", ["1e999", "61e4029"])
def test_what_is_no_json_number_to_us_may_be_text_to_others(text: str) -> None:
    assert differences({"x": text}, skill_md(f"x: {text}")) == ()


@pytest.mark.rule("V2")
def test_a_moment_finer_than_a_microsecond_is_another_moment_and_utc_may_be_written_as_z() -> None:
    assert differing({"x": "2026-11-15T00:00:00.000000999Z"}, "x: 2026-11-15") == ["x"]
    assert differing({"x": "2026-11-15T10:00:00Z", "y": "2026-11-15", "z": True},
                     "x: 2026-11-15T10:00:00Z\ny: 2026-11-15\nz: yes") == []  # fmt: skip


@pytest.mark.rule("V2")
def test_a_reading_that_json_cannot_hold_was_published_by_nobody() -> None:
    big = "9" * 300 + ":00" * 10
    assert differing({"x": big}, f"x: {big}") == []
    assert differing({"x": 1}, f"x: {big}") == ["x"]


@pytest.mark.rule("V2")
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("key", ["k" * 500_000, "k"])
def test_hostile_frontmatter_is_compared_in_linear_time_and_memory(key: str, equal: bool) -> None:
    data = f"---\n? {key}\n: [{'1,' * 50_000}]\n---\n".encode()
    started = time.process_time()
    found = differences({key: [1 if equal else 2] * 50_000}, data)
    assert time.process_time() - started < 24
    assert len(found) == (0 if equal else 50_000)
    assert sum(len(difference.field) for difference in found) < 50_000 * 150


@pytest.mark.rule("V2")
def test_an_entry_nested_deeper_than_any_file_is_a_difference_and_not_a_crash() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    (difference,) = differences({"a": deep}, skill_md("a: " + "[" * 62 + "x" + "]" * 62))
    assert difference.field.startswith("a[0][0][0]")
    assert (difference.expected, difference.found) == ("a list of 1", '"x"')
