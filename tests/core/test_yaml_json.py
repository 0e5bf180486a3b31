"""YAML becomes JSON under one rule; the other standard readings agree with the readers they stand for."""

from __future__ import annotations

import json
import math
import re
import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillquay.core.yaml_json import MAX_DEPTH, Mapped, Moment, NotJson, as_text, core_schema, read_mapping, yaml_1_1
from skillquay.errors import FrontmatterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READINGS = [core_schema, yaml_1_1, as_text]
MEBIBYTE = 1024 * 1024


def read(text: str, resolve: Callable[[str], object] = core_schema) -> dict[str, Any]:
    return read_mapping(text.encode(), resolve).fields


def refusal(text: str | bytes, *, first_line: int = 1) -> FrontmatterError:
    with pytest.raises(FrontmatterError) as error:
        read_mapping(text if isinstance(text, bytes) else text.encode(), first_line=first_line)
    assert error.value.rule == "F4"
    return error.value


def same(left: object, right: object) -> bool:
    """Equal in value and in type all the way down, which `==` alone does not say of 1, 1.0 and true."""
    return repr(left) == repr(right) and left == right


# --- The reading that is published: the core schema of YAML 1.2 ---


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("0", 0),
        ("-1", -1),
        ("+12", 12),
        ("012", 12),
        ("-007", -7),
        ("0o14", 12),
        ("0x1F", 31),
        ("0xdeadBEEF", 0xDEADBEEF),
        ("1.10", 1.1),
        ("1.0", 1.0),
        ("-0.0", -0.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("12e03", 12000.0),
        ("6.8523015e+5", 685230.15),
        ("1e-999", 0.0),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_the_core_schema_gives_a_plain_scalar_this_value(text: str, value: object) -> None:
    assert same(core_schema(text), value)
    assert same(read(f"x: {text}\n"), {"x": value})


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "Off",
        "y",
        "N",
        "nULL",
        "tRUE",
        "nil",
        "none",
        "2026-07-28",
        "2026-07-28T10:00:00Z",
        "2026-07-28 10:00:00",
        "1.2.3",
        "1_000",
        "0b101",
        "-0x1F",
        "+0o14",
        "0o8",
        "0x",
        "0xg",
        "190:20:30",
        "1e",
        "e3",
        ".",
        "-",
        "+",
        "+.",
        ".e3",
        "1.5.",
        "--1",
        "inf",
        "nan",
        "-.nan",
        "+.NaN",
        ".iNF",
        "٣",
        "１２",
        "²",
        "1 2",
        "0o",
        "12e",
        "v1.10",
    ],
)
def test_what_the_core_schema_does_not_type_is_the_text_the_author_wrote(text: str) -> None:
    assert core_schema(text) == text


@pytest.mark.rule("F4")
@pytest.mark.parametrize("quote", ["'{}'", '"{}"', "|-\n  {}", ">-\n  {}", "!!str {}", "!<tag:yaml.org,2002:str> {}"])
@pytest.mark.parametrize("text", ["1.10", "yes", "012", "~", "null", "true", "2026-07-28", ".nan", "1e999", "9" * 5000])
def test_what_is_quoted_or_tagged_as_a_string_is_text_in_every_reading(quote: str, text: str) -> None:
    for resolve in READINGS:
        assert read(f"x: {quote.format(text)}\n", resolve) == {"x": text}


@pytest.mark.rule("F4")
@pytest.mark.parametrize("sign", ["", "-", "+"])
@pytest.mark.parametrize("text", [".inf", ".Inf", ".INF", "1e999", "1.8e308", "9" * 310, "9" * 5000, "1" + "0" * 309])
def test_a_number_that_json_cannot_hold_is_refused_and_the_author_told_to_quote_it(sign: str, text: str) -> None:
    error = refusal(f"a: b\nx: {sign}{text}\n", first_line=2)
    assert error.line == 3
    assert "JSON cannot hold" in error.message
    assert len(error.message) < 200
    assert error.fix is not None
    assert error.fix.startswith("Quote it")


@pytest.mark.rule("F4")
@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN", "0x" + "f" * 257, "0x" + "f" * 5000, "0o" + "7" * 400])
def test_nan_and_based_numbers_beyond_a_double_are_refused_too(text: str) -> None:
    assert "JSON cannot hold" in refusal(f"x: {text}\n").message


@pytest.mark.rule("F4")
def test_the_largest_double_and_the_largest_integer_that_becomes_one_are_numbers() -> None:
    largest = int(1.7976931348623157e308)
    assert core_schema("1.7976931348623157e308") == 1.7976931348623157e308
    assert core_schema(str(largest)) == largest
    assert core_schema(str(-largest)) == -largest
    with pytest.raises(NotJson):
        core_schema(str(largest * 2))


# YAML 1.2.2, section 10.3.2, typed off the page.
CORE_TAGS = [
    ("null", r"null|Null|NULL|~|"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]+"),
    ("int", r"0o[0-7]+"),
    ("int", r"0x[0-9a-fA-F]+"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
    ("not JSON", r"[-+]?(\.inf|\.Inf|\.INF)"),
    ("not JSON", r"\.nan|\.NaN|\.NAN"),
]
PYTHON_KINDS = {"NoneType": "null", "bool": "bool", "int": "int", "float": "float", "str": "str"}

number_like = st.text("0123456789+-._:eExXobnNaAiIfFtTzZ ~", max_size=12)
words = st.sampled_from(["", "~", "Null", "TRUE", "False", "yes", "No", "OFF", "y", "-.INF", ".nan", "0o", "0b", "<<"])


@pytest.mark.rule("F4")
@settings(max_examples=500)
@given(st.one_of(number_like, words, st.text(max_size=5)))
def test_the_core_schema_types_a_scalar_as_the_tables_of_yaml_1_2_do(text: str) -> None:
    expected = next((tag for tag, pattern in CORE_TAGS if re.fullmatch(pattern, text)), "str")
    try:
        value = core_schema(text)
    except NotJson:
        assert expected == "not JSON" or math.isinf(float(text))
        return
    assert PYTHON_KINDS[type(value).__name__] == expected
    if expected == "str":
        assert value == text
    elif expected == "float" or (expected == "int" and text.lstrip("+-").isdecimal()):
        assert value == float(text)
    json.dumps(value, allow_nan=False)


# --- YAML 1.1, as PyYAML reads it ---


def pyyaml(text: str) -> object:
    """What PyYAML's own SafeLoader makes of one plain scalar."""
    loader = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return loader.construct_object(yaml.ScalarNode(tag, text))


def ours(text: str) -> object:
    value = yaml_1_1(text)
    return value.value if isinstance(value, Moment) else value


def assert_agrees_with_pyyaml(text: str) -> None:
    """The three deliberate exceptions are where PyYAML has no JSON value to give.

    It fails on dates that do not exist, on numbers without a digit (`0b_`), and on the unquoted `=` and `<<`: these are
    text here. It makes infinities and NaN, and integers beyond a double: these are refused here. It is given no text
    with a line break, which a plain scalar cannot hold and its own patterns let through.
    """
    try:
        expected = pyyaml(text)
    except (ValueError, OverflowError, yaml.constructor.ConstructorError):
        assert ours(text) == text
        return
    try:
        assert same(ours(text), expected)
    except NotJson:
        assert isinstance(expected, int | float)
        assert isinstance(expected, int) or not math.isfinite(expected)
        assert isinstance(expected, float) or abs(expected) > 1.7976931348623157e308 or len(text) > 300


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("yes", True),
        ("Off", False),
        ("NO", False),
        ("y", "y"),
        ("012", 10),
        ("-012", -10),
        ("08", "08"),
        ("0o14", "0o14"),
        ("0b1010", 10),
        ("0x_1F", 31),
        ("0_", 0),
        ("00", 0),
        ("1_000", 1000),
        ("190:20:30", 685230),
        ("-1:30", -90),
        ("0:30", "0:30"),
        ("190:20:30.15", 685230.15),
        ("1e3", "1e3"),
        ("1.0e3", "1.0e3"),
        ("1.0e+3", 1000.0),
        ("1.10", 1.1),
        ("-.5", "-.5"),
        (".5", 0.5),
        ("1_0.5_0", 10.5),
        ("2026-07-28", date(2026, 7, 28)),
        ("2026-7-28", "2026-7-28"),
        ("2026-07-28 1:02:03", datetime(2026, 7, 28, 1, 2, 3)),  # noqa: DTZ001 - YAML 1.1 has naive ones
        ("2026-07-28T01:02:03.5Z", datetime(2026, 7, 28, 1, 2, 3, 500_000, UTC)),
        ("2026-07-28t01:02:03 -5", datetime(2026, 7, 28, 1, 2, 3, tzinfo=timezone(timedelta(hours=-5)))),
        ("2026-07-28 01:02:03 +05:30", datetime(2026, 7, 28, 1, 2, 3, tzinfo=timezone(timedelta(minutes=330)))),
        ("2026-07-28 01:02:03 +0530", "2026-07-28 01:02:03 +0530"),
        ("2026-07-28 01:02:03.1234567", datetime(2026, 7, 28, 1, 2, 3, 123456)),  # noqa: DTZ001
        ("123456789012345678901:30", 7407407340740740734090),
    ],
)
def test_the_yaml_1_1_reading_gives_a_plain_scalar_this_value(text: str, value: object) -> None:
    assert same(ours(text), value)
    assert same(pyyaml(text), value)


@pytest.mark.rule("V2")
@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "true", "false", "null", "~", "y", "n", "t", "f", "none"])
def test_each_word_of_yaml_1_1_in_each_case_is_what_it_is_to_pyyaml(word: str) -> None:
    for spelled in {word, word.upper(), word.capitalize(), word.swapcase(), word[:-1] + word[-1].upper()}:
        assert same(yaml_1_1(spelled), pyyaml(spelled))


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    "text", ["9" * 310, "9" * 307 + ":0", "1" + ":1" * 200, "9" * 310 + ".5", ".inf", "-.INF", ".nan"]
)
def test_a_number_of_yaml_1_1_that_json_cannot_hold_is_no_value(text: str) -> None:
    with pytest.raises(NotJson):
        yaml_1_1(text)


@pytest.mark.parametrize(
    "text",
    ["2026-02-30", "2026-13-01", "0000-01-01", "2026-01-01 24:00:00", "2026-01-01 00:00:00 +24:00", "0b_", "=", "<<"],
)
def test_where_pyyaml_fails_on_a_scalar_it_is_text(text: str) -> None:
    assert yaml_1_1(text) == text
    with pytest.raises((ValueError, yaml.constructor.ConstructorError)):
        pyyaml(text)


digits = st.text("0123456789", min_size=1, max_size=3)
two = st.integers(0, 70).map("{:02}".format)
timestamps = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["2026", "0001", "9999", "0000", "226"]),
    st.one_of(two, digits),
    st.one_of(two, digits),
    st.sampled_from(["T", "t", " ", " \t ", "x", ""]),
    st.one_of(two, digits),
    two,
    two,
    st.sampled_from(["", ".", ".1", ".123456", ".123456789"]),
    st.sampled_from(["", "Z", "z", " Z", "+1", "-05:30", " +05:30", "+0530", "+24:00", "-00:00", "+1:5"]),
)
sexagesimals = st.builds(
    "{}{}{}".format, st.sampled_from(["", "-", "+"]), digits, st.lists(two.map(":{}".format)).map("".join)
)
scalars = st.one_of(
    number_like,
    words,
    timestamps,
    sexagesimals,
    st.builds("{}.{}".format, sexagesimals, st.text("0123456789_", max_size=4)),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "-", "+"]),
        st.sampled_from(["0b", "0x", "0", "0o", ""]),
        st.text("01_79aF", max_size=9),
    ),
    st.dates().map(str),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())).map(str),
    st.floats().map(repr),
    st.integers().map(str),
    st.text(st.characters(blacklist_characters="\n"), max_size=6),
)


@pytest.mark.rule("V2")
@settings(max_examples=1000)
@given(scalars)
@example("1:59:59.9_")
@example("-0:00.")
@example("9" * 310)
@example("1" + ":59" * 200)
@example("9" * 300 + ":00" * 100)
@example("9" * 310 + ":00.5")
def test_the_yaml_1_1_reading_agrees_with_pyyaml(text: str) -> None:
    assert_agrees_with_pyyaml(text.replace("\n", ""))


@pytest.mark.rule("V2")
@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_the_reading_as_text_changes_nothing(text: str) -> None:
    assert as_text(text) == text


# --- Moments as text ---

ISO_AND_RFC3339 = [
    # the scalar, how Python and its relatives print it, how RFC 3339 does
    ("2026-07-28", ["2026-07-28"], ["2026-07-28T00:00:00Z", "2026-07-28T00:00:00.000Z", "2026-07-28T02:00:00+02:00"]),
    (
        "2026-07-28 10:20:30",
        ["2026-07-28T10:20:30", "2026-07-28 10:20:30"],
        ["2026-07-28T10:20:30Z", "2026-07-28T10:20:30.000Z", "2026-07-28T10:20:30+00:00"],
    ),
    (
        "2026-07-28T10:20:30.5+02:00",
        ["2026-07-28T10:20:30.500000+02:00", "2026-07-28 10:20:30.500000+02:00"],
        ["2026-07-28T10:20:30.5+02:00", "2026-07-28T08:20:30.5Z", "2026-07-28T08:20:30.500000000Z"],
    ),
    (
        "2026-07-28T10:20:30Z",
        ["2026-07-28T10:20:30+00:00", "2026-07-28 10:20:30+00:00"],
        ["2026-07-28T10:20:30Z", "2026-07-28T10:20:30+00:00"],
    ),
]


@pytest.mark.rule("V2")
@pytest.mark.parametrize(("scalar", "iso", "rfc3339"), ISO_AND_RFC3339)
def test_a_moment_is_written_in_two_standard_forms(scalar: str, iso: list[str], rfc3339: list[str]) -> None:
    moment = yaml_1_1(scalar)
    assert isinstance(moment, Moment)
    assert all(moment.is_written_as_iso(text) for text in iso)
    assert all(moment.is_written_as_rfc3339(text) for text in rfc3339)


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-07-28",
        "2026-07-29T00:00:00Z",
        "2026-07-28T00:00:01Z",
        "2026-07-28T00:00:00",
        "2026-07-28 00:00:00Z",
        "2026-07-28T00:00Z",
        "20260728T000000Z",
        "2026-07-28T00:00:00+0000",
        "2026-07-28T00:00:00.0000000001Z",
        "2026-07-28T00:00:00z",
        "2026-07-27T24:00:00Z",
        "2026-07-28T00:00:00+99:99",
        "2026-02-30T00:00:00Z",
        "٢٠٢٦-07-28T00:00:00Z",
        " 2026-07-28T00:00:00Z",
        "2026-07-28T00:00:00Z\n",
    ],
)
def test_any_other_text_is_not_that_moment_in_rfc_3339(text: str) -> None:
    assert not Moment(value=date(2026, 7, 28)).is_written_as_rfc3339(text)


@pytest.mark.parametrize("text", ["", "2026-07-28T00:00:00", "2026-7-28", "28 July 2026", "2026-07-28\n"])
def test_any_other_text_is_not_that_moment_in_iso_form(text: str) -> None:
    assert not Moment(value=date(2026, 7, 28)).is_written_as_iso(text)


@given(st.datetimes(timezones=st.one_of(st.none(), st.timezones())), st.text("0123456789-:.+TZ ", max_size=30))
@example(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23))), "9999-12-31T23:59:59-23:59")
def test_comparing_any_moment_with_any_text_never_fails(value: datetime, text: str) -> None:
    moment = Moment(value=value)
    assert moment.is_written_as_iso(value.isoformat())
    assert moment.is_written_as_rfc3339(text) in {True, False}


# --- Documents ---

json_texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x85\u2028\u2029\ufeff"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | json_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_texts, inner, max_size=4),
    max_leaves=8,
)
json_objects = st.dictionaries(json_texts, json_values, max_size=5)


def dump(document: object, *, strings: str | None, **options: Any) -> str:
    """The document as PyYAML writes it, without anchors, every string in one style."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=strings)

    Dumper.add_representer(str, represent)
    return str(yaml.dump(document, Dumper=Dumper, **options))


def keys_of(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from keys_of(inner)


def is_text(scalar: str, resolve: Callable[[str], object]) -> bool:
    try:
        return isinstance(resolve(scalar), str)
    except NotJson:
        return False


layouts = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([True, False, None]),
        "allow_unicode": st.booleans(),
        "width": st.sampled_from([5, 80, 10**6]),
        "indent": st.sampled_from([2, 4, 8]),
        "line_break": st.sampled_from(["\n", "\r\n"]),
        "sort_keys": st.just(value=False),
    }
)


@pytest.mark.rule("F4")
@settings(max_examples=100)
@given(json_objects, st.sampled_from(['"', "'", "|", ">"]), layouts)
def test_a_json_document_dumped_by_pyyaml_in_any_style_is_read_back_as_it_was(
    document: dict[str, Any], strings: str, layout: dict[str, Any]
) -> None:
    text = dump(document, strings=strings, **layout)
    if yaml.safe_load(text) != document:  # PyYAML does not write every string correctly in every style
        return
    assert same(read(text), document)


@pytest.mark.rule("V2")
@settings(max_examples=100)
@given(json_objects, layouts)
def test_what_pyyaml_dumps_in_its_own_style_the_yaml_1_1_reading_reads_as_pyyaml_does(
    document: dict[str, Any], layout: dict[str, Any]
) -> None:
    text = dump(document, strings=None, **layout)
    # A key such as 0o14 is text to PyYAML, which leaves it unquoted, and a number in YAML 1.2.
    if not any(is_text(key, yaml_1_1) and not is_text(key, core_schema) for key in keys_of(document)):
        assert same(read(text, yaml_1_1), yaml.safe_load(text))


@pytest.mark.rule("F4")
@given(json_objects)
def test_a_json_document_is_yaml_and_means_the_same(document: dict[str, Any]) -> None:
    text = json.dumps(document).replace("\x7f", "\\u007f")
    if "\\ud" not in text:  # JSON escapes what lies beyond 16 bits as two surrogates, YAML does not
        assert same(read(text), document)


fragments = st.sampled_from(
    [
        *"-?:,[]{}#&*!|>'\"%@`~<=0 \t\n\r\x00\x85\u2028\ufeff\\",
        *[
            "a",
            "b: ",
            "- ",
            "? ",
            ": ",
            "---",
            "--- ",
            "...",
            "!!str ",
            "!!int ",
            "!<x> ",
            "!%ff ",
            "&a ",
            "*a",
            "<<: ",
        ],
        *[
            "%TAG ",
            "%YAML 1.1",
            "\n  ",
            "\n",
            "\n- ",
            "|\n",
            ">-\n",
            "yes",
            "1e999",
            ".nan",
            "0o7",
            "\\ud800",
            "\\x",
            "é",
        ],
    ]
)
yaml_like = st.lists(fragments, max_size=30).map("".join)


def attempt(data: bytes, resolve: Callable[[str], object]) -> dict[str, Any] | FrontmatterError:
    try:
        return read_mapping(data, resolve, first_line=2).fields
    except FrontmatterError as error:
        return error


@pytest.mark.rule("F4")
@settings(max_examples=600)
@given(
    st.one_of(
        yaml_like.map(str.encode), st.text(st.characters(blacklist_categories=["Cs"])).map(str.encode), st.binary()
    )
)
@example(b"a: !<%ed%a0%80> x")
@example(b"a: !%c0%80 x")
@example(b"a: !a%f5%80%80%80 x")
@example(b"\xff\xfea\x00:\x00 \x00b\x00")
@example(b'a: "\\ud800"')
def test_any_bytes_are_a_mapping_of_json_values_or_a_frontmatter_error(data: bytes) -> None:
    for resolve in READINGS:
        outcome = attempt(data, resolve)
        if isinstance(outcome, FrontmatterError):
            assert outcome.rule == "F4"
            assert 2 <= outcome.line <= 3 + len(re.findall(rb"\r|\n|\x85|\xa8", data))
        else:
            json.dumps(outcome, allow_nan=False, default=lambda moment: moment.value.isoformat())
    try:
        lenient = read_mapping(data, lenient=True)
    except FrontmatterError:
        return
    json.dumps(lenient.fields, allow_nan=False)


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    "text", ["", "\n", "# only a comment\n", "{}", "--- # explicit and empty\n", "---\n...\n", "\ufeff"]
)
def test_an_empty_document_has_no_fields(text: str) -> None:
    assert read(text) == {}


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    "text", ["[a, b]", "- a\n- b\n", "a", "12", "null", "~", "''", '"a: b"', "|\n  a: b\n", "!!str", "!!str a"]
)
def test_a_list_or_a_scalar_is_not_a_mapping_of_fields(text: str) -> None:
    assert refusal(text).message == "The frontmatter is not a mapping of fields to values."


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\n---\nc: d\n", 2),
        ("a: b\n--- # more\nc: d\n", 2),
        ("a: b\n...\n---\nc: d\n", 3),
        ("--- # first, empty\n--- # second\nname: x\n", 2),
        ("---\n---\n", 2),
        ("---\n---\n[unclosed", 2),
        ("{}\n--- {}\n", 2),
    ],
)
def test_a_second_document_is_refused_where_it_starts(text: str, line: int) -> None:
    error = refusal(text)
    assert "second YAML document" in error.message
    assert error.line == line


@pytest.mark.rule("F4")
def test_a_line_of_three_dots_ends_the_document_and_nothing_may_follow() -> None:
    assert read("a: b\n...\n") == {"a": "b"}
    assert read("a: b\n...\n# a comment\n") == {"a": "b"}
    assert refusal("a: b\n...\nc: d\n").line == 3


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: &x b\n", 1),
        ("a: b\nc: *x\n", 2),
        ("&x a: b\n", 1),
        ("a: &x [b]\n", 1),
        ("a: &x {b: c}\n", 1),
        ("a: [*x]\n", 1),
        ("? *x\n: b\n", 1),
        ("a: &x\n", 1),
        ("--- &x\n", 1),
        ("--- &x\na: b\n", 1),
        ("base: &base {a: 1}\nall:\n  <<: *base\n", 1),
        ("a: &a [&b [*a, *b]]\n", 1),
    ],
)
def test_anchors_and_aliases_are_refused_wherever_they_stand(text: str, line: int) -> None:
    error = refusal(text)
    assert "anchors and aliases" in error.message
    assert error.line == line


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    "text",
    [
        "a: !!int 5\n",
        "a: !!binary aGk=\n",
        "a: !!python/object/apply:os.system [x]\n",
        "a: !custom x\n",
        "a: !<x> y\n",
        "a: ! 12\n",
        "a: !!set {b}\n",
        "a: !!seq [b]\n",
        "a: !!str [b]\n",
        "!!map\na: b\n",
        "!!str {a: b}\n",
        "!x a: b\n",
        "a: !!timestamp 2026-07-28\n",
        "a: [!!float 1]\n",
    ],
)
def test_a_tag_other_than_the_one_for_strings_is_refused(text: str) -> None:
    error = refusal(text)
    assert "tag" in error.message
    assert error.line in {1, 2}


@pytest.mark.rule("F4")
@pytest.mark.parametrize("tag", ["!<%ed%a0%80>", "!%ed%a0%80", "!a%c0%80", "!%f5%80%80%80", "!<a%ED%BF%BF>"])
def test_a_tag_that_escapes_what_is_not_utf_8_is_refused_on_its_line(tag: str) -> None:
    error = refusal(f"a: 100%\nb: {tag} x\n")
    assert error.message == "A YAML tag does not decode to UTF-8."
    assert error.line == 2


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%YAML 1.1\n--- # x\na: b\n", 1),
        ("\ufeff%YAML 1.2\n--- # x\na: b\n", 1),
        ("%TAG !e! tag:yaml.org,2002:\n--- # x\na: !e!str 1\n", 1),
        ("# comment\n\n%X\n--- # x\na: b\n", 3),
        ("a: b\n...\n%YAML 1.2\n---\n", 3),
        ("a: b\r%YAML 1.1\r---\r", 1),
    ],
)
def test_directives_are_refused_where_they_stand(text: str, line: int) -> None:
    error = refusal(text)
    assert error.message == "YAML directives are not read."
    assert error.line == line


@pytest.mark.rule("F4")
def test_a_percent_sign_elsewhere_is_text() -> None:
    assert read("a: 100%\nb: |\n  %TAG\nc: '%x'\nd: x\n  %y\n") == {"a": "100%", "b": "%TAG\n", "c": "%x", "d": "x %y"}


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 1\n", 2),
        ('a: 1\nb: 2\n"a": 3\n', 3),
        ("x:\n  a: 1\n  'a': 2\n", 3),
        ("x: {a: 1, a: 2}\n", 1),
        ("a: [1]\na: {}\n", 2),
        ("'1': a\n\"1\": b\n", 2),
    ],
)
def test_a_key_that_stands_twice_in_one_mapping_is_refused_at_the_second(text: str, line: int) -> None:
    error = refusal(text)
    assert "a second time" in error.message
    assert error.line == line


def test_one_key_may_stand_in_several_mappings() -> None:
    assert read("a: {a: {a: 1}}\nb: [{a: 1}, {a: 2}]\n") == {"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]}


@pytest.mark.rule("F4")
@pytest.mark.parametrize("key", ["1", "-1.5", "0x1", "true", "False", "null", "~", ".nan", ".inf", "1e999", "9" * 400])
def test_a_key_that_is_not_a_string_is_refused_and_the_author_told_to_quote_it(key: str) -> None:
    for text in (f"{key}: x\n", f"a:\n  {key}: x\n"):
        error = refusal(text)
        assert "is not a string" in error.message
        assert error.fix is not None


@pytest.mark.rule("F4")
@pytest.mark.parametrize("key", ["yes", "on", "2026-07-28", "012x", "=", "1.2.3", "'1'", '"true"', "!!str 1", "''"])
def test_a_key_that_the_core_schema_takes_for_text_is_a_string_in_every_reading(key: str) -> None:
    expected = key.strip("'\"").removeprefix("!!str ")
    for resolve in READINGS:
        assert read(f"{key}: x\n", resolve) == {expected: "x"}


@pytest.mark.rule("F4")
@pytest.mark.parametrize("text", ["? [a]\n: b\n", "? {a: b}\n: c\n", "{[a]: b}", "x:\n  ? - a\n  : b\n", "{{a: b}: c}"])
def test_a_list_or_a_mapping_as_a_key_is_refused(text: str) -> None:
    assert refusal(text).message == "A key is a list or a mapping; keys are strings."


@pytest.mark.rule("F4")
def test_an_explicit_key_is_a_key_like_any() -> None:
    assert read("? a\n: b\n? c\n") == {"a": "b", "c": None}
    assert read("? |\n  long\n: b\n") == {"long\n": "b"}


@pytest.mark.rule("F4")
def test_a_merge_key_is_refused_since_readers_differ_and_merges_nothing_when_read_leniently() -> None:
    with pytest.raises(FrontmatterError, match="merge"):
        read("<<: {a: b}\nc: d\n")
    assert read("'<<': {a: b}\nc: d\n") == {"<<": {"a": "b"}, "c": "d"}
    lenient = read_mapping(b"<<: {a: b}\nc: d\n", lenient=True)
    assert lenient.fields == {"<<": {"a": "b"}, "c": "d"}
    assert len(lenient.repairs) == 1


def nested(depth: int) -> list[str]:
    """Documents whose innermost container lies this deep, the mapping of fields being the first."""
    inner = depth - 1
    return [
        "a: " + "[" * inner + "]" * inner,
        "a: " + "{a: " * (inner - 1) + "{}" + "}" * (inner - 1),
        "a:\n" + "".join("  " * level + "- \n" for level in range(inner - 1)) + "  " * inner + "- x\n",
        "".join("  " * level + "a:\n" for level in range(depth)),
        "a:\n " + "- " * inner + "x\n",
    ]


@pytest.mark.rule("F4")
def test_nesting_of_64_levels_is_read_and_of_65_is_refused() -> None:
    assert MAX_DEPTH == 64
    for text in nested(64):
        value: Any = read(text)
        depth = 0
        while isinstance(value, list | dict):
            depth += 1
            value = next(iter(value.values() if isinstance(value, dict) else value), None)
        assert depth == 64
    for text in nested(65):
        assert refusal(text).message == "The frontmatter is nested more than 64 levels deep."


@pytest.mark.rule("F4")
@pytest.mark.parametrize("piece", ["[", "{", "- ", "? ", "{a: ", "[[], ", "-\t"])
def test_fifty_thousand_levels_are_refused_without_a_crash(piece: str) -> None:
    refusal("a:\n " + piece * 50_000)


def test_siblings_do_not_count_as_depth() -> None:
    assert read("a: [" + "[], {}, " * 1000 + "]") == {"a": [[], {}] * 1000}


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\n\tc: d\n", 2),
        ("\ta: b\n", 1),
        ("a: b: c\n", 1),
        ("a: [1, 2\n", 2),
        ("a: 'x\n", 2),
        ("a: b\n c: d\n", 2),
        ("a: @x\n", 1),
        ("a: `x\n", 1),
        ("a: b\nc\n", 3),
        ("a: b\n\x00", 2),
        ("a: \x1b\n", 1),
        ("a: b\n\n\x7f\n", 3),
        ('a: "\\ud800"\n', 1),
        ('a: "\\q"\n', 1),
        ("- a\nb: c\n", 2),
        ("*x\n", 1),
    ],
)
def test_what_is_not_yaml_is_refused_at_its_line_of_the_file(text: str, line: int) -> None:
    error = refusal(text, first_line=10)
    assert error.line == line + 9 or "mapping of fields" in error.message
    assert error.message.startswith("The frontmatter is not ") or "anchors" in error.message


@pytest.mark.rule("F4")
def test_bytes_that_are_not_utf_8_are_refused_by_the_reader_too() -> None:
    assert refusal(b"a: b\nc: \xff\n").line == 2


def test_a_tab_may_separate_a_value_from_its_key() -> None:
    assert read("a:\tb\nc: d\t\n") == {"a": "b", "c": "d"}


def test_the_lines_are_those_of_the_top_level_keys_counted_from_the_first_line() -> None:
    mapped = read_mapping(b"# comment\na: 1\n\nb:\n  c: 2\n'd': |\n  x\n  y\ne: 5\n", first_line=2)
    assert mapped.lines == {"a": 3, "b": 5, "d": 7, "e": 10}
    assert mapped.repairs == []


# --- Linear time ---

# Each is given the number of bytes it may have; those where every few bytes are a value take a part of it.
FAMILIES: dict[str, Callable[[int], bytes]] = {
    "deep flow lists": lambda size: b"a: " + b"[" * size,
    "deep flow mappings": lambda size: b"a: " + b"{a: " * (size // 4),
    "deep block lists": lambda size: b"a:\n " + b"- " * (size // 2),
    "deep explicit keys": lambda size: b"? " * (size // 2),
    "many keys": lambda size: b"".join(b"k%06d: v\n" % number for number in range(size // 22)),
    "many explicit keys": lambda size: b"".join(b"? k%06d\n" % number for number in range(size // 20)),
    "one key twice": lambda size: b"a: b\n" * (size // 5),
    "one long plain scalar": lambda size: b"a: " + b"x" * size,
    "one plain scalar of many words": lambda size: b"a: " + b"x " * (size // 2),
    "one plain scalar of many lines": lambda size: b"a: x" + b"\n x" * (size // 3),
    "one long key": lambda size: b"? " + b"k" * size + b"\n: v",
    "a plain key that is too long": lambda size: b"k" * size + b": v",
    "a quoted key that is too long": lambda size: b'"' + b"k" * size + b'": v',
    "many single quotes": lambda size: b"a: " + b"'" * size,
    "many double quotes": lambda size: b"a: [" + b'"",' * (size // 9) + b"]",
    "a quote that never ends": lambda size: b'a: "' + b"x\n " * (size // 3),
    "many escapes": lambda size: b'a: "' + b"\\x41" * (size // 4) + b'"',
    "many anchors": lambda size: b"a: [" + b"&a x," * (size // 5) + b"]",
    "a long anchor": lambda size: b"a: &" + b"a" * size,
    "a long tag": lambda size: b"a: !" + b"%41" * (size // 3),
    "many directives": lambda size: (
        b"".join(b"%%TAG !%05d! x\n" % number for number in range(size // 16)) + b"--- #\na: b"
    ),
    "many directives after an end": lambda size: (
        b"a: b\n...\n" + b"".join(b"%%TAG !%05d! x\n" % number for number in range(size // 16)) + b"--- #\na: b"
    ),
    "a tag that does not decode": lambda size: b"a: '" + b"!" * (size - 40) + b"'\nb: !<%ed%a0%80> x",
    "many blank lines": lambda size: b"\n" * size + b"a: b",
    "many blank lines in a block": lambda size: b"a: |" + b"\n" * size + b"  x",
    "many comments": lambda size: b"#\n" * (size // 2) + b"a: b",
    "many almost closing lines": lambda size: b"---x\n" * (size // 5),
    "many documents": lambda size: b"--- x\n" * (size // 6),
    "many ends": lambda size: b"...\n" * (size // 4),
    "colons": lambda size: b":" * size,
    "colons as a value": lambda size: b"a: " + b":" * size,
    "colons and spaces": lambda size: b"a: " + b": " * (size // 2),
    "colons and lines": lambda size: b"a" + b":\n" * (size // 2),
    "question marks": lambda size: b"?\n" * (size // 2),
    "hyphens": lambda size: b"a:\n" + b"-\n" * (size // 10),
    "commas": lambda size: b"a: [" + b"," * size,
    "asterisks": lambda size: b"a: " + b"*" * size,
    "exclamation marks": lambda size: b"a: " + b"!" * size,
    "a long integer": lambda size: b"a: " + b"9" * size,
    "a long fraction": lambda size: b"a: 1." + b"1" * size,
    "a long small fraction": lambda size: b"a: 0." + b"0" * size + b"1",
    "a long exponent": lambda size: b"a: 1e-" + b"9" * size,
    "a long hexadecimal number": lambda size: b"a: 0x" + b"f" * size,
    "a long base-sixty number": lambda size: b"a: 1" + b":1" * (size // 2),
    "spaces": lambda size: b"a: " + b" " * size + b"b",
    "tabs": lambda size: b"a: " + b"\t" * size + b"b",
    "carriage returns": lambda size: b"a: b" + b"\r" * size,
    "a folded block": lambda size: b"a: >\n" + b" x\n\n" * (size // 4),
    "a block with growing indentation": lambda size: b"a: |\n" + b"\n".join(b" " * n for n in range(int(size**0.5))),
    "short flow list": lambda size: b"a: [" + b"1," * (size // 16) + b"]",
    "pairs in a flow list": lambda size: b"a: [" + b"x: y," * (size // 25) + b"]",
    "lists in sixty lists": lambda size: b"a: " + b"[" * 60 + b"[]," * (size // 24) + b"]" * 60,
}


# A number is typed in every reading, so these are read in each.
NUMBERS = [family for family in FAMILIES if family.startswith("a long ")]


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    ("family", "resolve"),
    [(family, core_schema) for family in FAMILIES] + [(family, yaml_1_1) for family in NUMBERS],
)
def test_hostile_frontmatter_is_read_or_refused_in_linear_time(family: str, resolve: Callable[[str], object]) -> None:
    data = FAMILIES[family](MEBIBYTE - 1000)
    assert MEBIBYTE // 10 < len(data) <= MEBIBYTE
    started = time.process_time()
    outcome = attempt(data, resolve)
    assert time.process_time() - started < 18
    assert isinstance(outcome, dict) or len(outcome.message) < 1000


# --- Repairs for local skills ---


@pytest.mark.parametrize(
    ("text", "fields", "repair"),
    [
        ("a: 1\na: 2\n", {"a": 2}, (3, 'the key "a" stands here a second time; the last one is used')),
        ("1: a\n", {"1": "a"}, (2, 'the key "1" is not a string; it is read as text')),
        ("a: .nan\n", {"a": ".nan"}, (2, '".nan" is a number that JSON cannot hold; it is read as text')),
        ("a: 1e999\n", {"a": "1e999"}, (2, '"1e999" is a number that JSON cannot hold; it is read as text')),
        ("1e999: a\n", {"1e999": "a"}, (2, 'the key "1e999" is not a string; it is read as text')),
    ],
)
def test_a_lenient_reading_repairs_what_has_an_obvious_meaning_and_says_so(
    text: str, fields: dict[str, object], repair: tuple[int, str]
) -> None:
    mapped = read_mapping(text.encode(), first_line=2, lenient=True)
    assert mapped.fields == fields
    assert mapped.repairs == [repair]
    refusal(text)


@pytest.mark.parametrize("text", ["a: &x b", "a: !x b", "a: b\n---\nc: d", "[a]", "? [a]\n: b", "%X\n--- # x\na: b"])
def test_a_lenient_reading_refuses_the_rest_like_the_strict_one(text: str) -> None:
    with pytest.raises(FrontmatterError):
        read_mapping(text.encode(), lenient=True)


def test_a_mapping_has_no_lines_and_no_repairs_unless_they_are_given() -> None:
    assert Mapped(fields={}) == Mapped(fields={}, lines={}, repairs=[])


@pytest.mark.rule("B4")
@pytest.mark.parametrize("text", ["\u202e{}: x\n\u202e{}: y\n", "a: !\u202e{} x\n", "a: !<%E2%80%AE{}> x\n"])
def test_a_refusal_shows_hostile_text_short_and_visible(text: str) -> None:
    message = refusal(text.format("k" * 500, "k" * 500)).message
    assert "\u202e" not in message
    assert len(message) < 300
