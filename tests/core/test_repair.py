"""Repairs never change what an author meant, and are done once and for all."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.frontmatter import parse_frontmatter
from skillquay.core.repair import quote_broken_values, rename, repair
from skillquay.errors import FrontmatterError


def skill_md(frontmatter: str, body: str = "Body\n") -> bytes:
    return f"---\n{frontmatter}---\n{body}".encode()


def fields(data: bytes) -> dict[str, object]:
    return dict(parse_frontmatter(data).fields)


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("description: Use when: the user asks\n", "Use when: the user asks"),
        ("description: It's for: Ann's files\n", "It's for: Ann's files"),
        ("description: Ends with a colon:\n", "Ends with a colon:"),
        ("description: Use: this # a comment\n", "Use: this"),
        ("description: Use: issue #12\n", "Use: issue #12"),
        ("description: Use: this\n  and: that\n", "Use: this and: that"),
        ("description: Use this\n  when: asked\n", "Use this when: asked"),
        ("description: Use: this\n\n  and that\nlicense: MIT\n", "Use: this\nand that"),
        ("description: '*' is fine\n", None),
        ("description: *stars* at the start\n", "*stars* at the start"),
        ("description: @mention someone\n", "@mention someone"),
        ("description: `code` first\n", "`code` first"),
        ("description: %percent first\n", "%percent first"),
        ("description: Use: this\r\nlicense: MIT\r\n", "Use: this"),
    ],
)
def test_a_value_that_yaml_cannot_read_is_quoted(written: str, meant: str | None) -> None:
    data = skill_md(written)
    with pytest.raises(FrontmatterError):
        parse_frontmatter(data)
    mended = repair(data)
    if meant is None:
        assert mended.data == data
        return
    assert fields(mended.data)["description"] == meant
    assert mended.steps[0][0] == 2
    assert repair(mended.data).steps == ()


@pytest.mark.rule("F5")
def test_text_in_block_scalars_and_quotes_is_left_alone_while_a_broken_line_beside_it_is_mended() -> None:
    data = skill_md("a: |\n  x: y: z\nb: 'p: q: r'\nc: broken: value\nd: >-\n  u: v: w\n")
    mended = repair(data)
    assert fields(mended.data) == {"a": "x: y: z\n", "b": "p: q: r", "c": "broken: value", "d": "u: v: w"}
    assert [line for line, _ in mended.steps] == [5]


@pytest.mark.rule("F3")
def test_numbers_dates_and_booleans_are_quoted_where_the_format_wants_text_and_only_there() -> None:
    data = skill_md(
        "name: 2026\ndescription: d\nlicense: 1.0\ncount: 3\nlist: [1, 2]\n"
        "metadata:\n  version: 1.10\n  day: 2026-01-02\n  on: yes\n  deep:\n    n: 1\n  list:\n    - 4\n  none:\n"
    )
    mended = fields(repair(data).data)
    assert mended["name"] == "2026"
    assert mended["license"] == "1.0"
    assert mended["count"] == 3
    assert mended["list"] == [1, 2]
    assert mended["metadata"] == {
        "version": "1.10", "day": "2026-01-02", "on": "yes", "deep": {"n": 1}, "list": [4], "none": None,
    }  # fmt: skip


def test_a_byte_order_mark_and_spaces_behind_the_closing_line_are_removed() -> None:
    data = b"\xef\xbb\xbf---\nname: a\n--- \t\r\nBody\n"
    mended = repair(data)
    assert mended.data == b"---\nname: a\n---\r\nBody\n"
    assert [line for line, _ in mended.steps] == [1, 3]


def test_what_needs_no_repair_is_not_touched() -> None:
    data = skill_md('name: a\ndescription: "Use when: asked"\nmetadata:\n  version: "1.0"\n')
    assert repair(data).data is data or repair(data).data == data
    assert repair(data).steps == ()


@pytest.mark.parametrize("data", [b"", b"no frontmatter", b"---\nname: a\n", b"---\n\xff\n---\n", b"---\n[1]\n---\n"])
def test_what_cannot_be_mended_is_left_as_it_is(data: bytes) -> None:
    assert repair(data).data == data


def test_a_file_that_quoting_does_not_make_readable_is_not_half_mended() -> None:
    data = skill_md("description: Use: this\nother: [broken\n")
    assert repair(data).data == data
    assert repair(data).steps == ()


@given(st.binary(max_size=300) | st.text("ab1\ufeff: '\"#\n-|>*&@[]{}", max_size=120).map(str.encode))
def test_any_bytes_can_be_given_and_repair_settles(data: bytes) -> None:
    for content in (data, b"---\n" + data + b"\n---\nBody\n"):
        once = repair(content)
        assert repair(once.data).data == once.data


@given(
    st.text("abc xyz:#'-,.!", min_size=1, max_size=60).filter(lambda text: text.strip() == text and text[0].isalpha())
)
def test_a_sentence_in_one_line_is_kept_word_for_word(sentence: str) -> None:
    data = skill_md(f"description: {sentence}\n")
    mended = fields(repair(data).data)["description"]
    before_comment = sentence.partition(" # ")[0].rstrip()
    try:
        plain = yaml.safe_load(f"description: {sentence}\n")["description"]
    except yaml.YAMLError:
        plain = before_comment if " # " in sentence else sentence
    assert mended == plain


@given(st.text("ab: '#\n  -|", max_size=100))
def test_values_that_are_quoted_keep_every_line_in_its_place(text: str) -> None:
    yaml_text = f"description: {text}\n".encode()
    quoted, _ = quote_broken_values(yaml_text)
    assert quoted.count(b"\n") == yaml_text.count(b"\n")
    assert quoted.replace(b"'", b"") == yaml_text.replace(b"'", b"")


@pytest.mark.parametrize(
    "frontmatter",
    [
        "".join(f"k{number}: a: b\n" for number in range(60_000)),
        "description: a" + " " * 900_000 + "b: c\n",
        "description: a\n" + "  b: c\n" * 100_000,
        "description: a" + " #" * 400_000 + ": b\n",
    ],
    ids=["many broken lines", "a run of spaces", "a long value", "many comments"],
)
def test_a_megabyte_of_broken_lines_takes_no_more_than_a_few_passes(frontmatter: str) -> None:
    data = skill_md(frontmatter)
    once = repair(data).data
    assert repair(once).data == once


def test_a_file_with_more_broken_lines_than_a_person_overlooks_is_left_alone() -> None:
    data = skill_md("".join(f"k{number}: a: b\n" for number in range(17)))
    assert repair(data).data == data
    assert len(fields(repair(skill_md("".join(f"k{number}: a: b\n" for number in range(16)))).data)) == 16


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    "frontmatter",
    [
        "license: &x MIT\ncompatibility: *x\n",  # read by YAML, refused by policy
        'license: &m MIT\ndescription: "x\n  y: *b* c\n  "\n',
        "description: Use: it\n  # todo remove\n",
        "description: null\nlicense: ~\nmetadata:\n  x: ~\n",
    ],
)
def test_what_a_repair_would_give_another_meaning_is_left_alone(frontmatter: str) -> None:
    assert repair(skill_md(frontmatter)).data == skill_md(frontmatter)


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    "beside",
    ["notes:\n  - |\n    foo: bar: baz\n", "my key: |\n  foo: bar: baz\n", "license: MIT #note: internal\n"],
)
def test_only_the_broken_line_is_touched(beside: str) -> None:
    mended = repair(skill_md(f"{beside}other: a: b\n"))
    assert mended.data == skill_md(f"{beside}other: 'a: b'\n")


def test_byte_order_marks_anywhere_do_no_harm() -> None:
    inside = b"---\n\xef\xbb\xbfname: a\ndescription: 12\n---\n"
    assert repair(inside).data in {inside, inside.replace(b"12", b'"12"')}
    twice = b"\xef\xbb\xbf\xef\xbb\xbf---\nname: a\n---\n"
    assert repair(twice).data == b"---\nname: a\n---\n"
    beside = "\ufeff，text".encode()  # its first byte is also that of the mark
    assert repair(beside).data == "，text".encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: Old Name\n", 'name: "new"\n'),
        ("name: foo\n  bar\n", "name: foo\n  bar\n"),
        ('name: "foo\n  bar"\n', 'name: "foo\n  bar"\n'),
        ('"name": foo\n', '"name": foo\n'),
        ("name: a\nname: b\n", "name: a\nname: b\n"),
        ("name: 'old'   # why\n", 'name: "new"   # why\n'),
        ("name: old\r\n", 'name: "new"\r\n'),
        ("name: |\n  old\n", "name: |\n  old\n"),
        ("other:\n  name: old\n", "other:\n  name: old\n"),
    ],
)
def test_a_skill_is_renamed_where_its_name_stands_on_one_line(before: str, after: str) -> None:
    assert rename(skill_md(before), "new") == skill_md(after)


@pytest.mark.parametrize("data", [b"---\n--- # c\n---\nbody", b"---\n# nothing\n---\n", b"---\n\n---\n"])
def test_a_document_without_any_field_is_left_alone(data: bytes) -> None:
    assert repair(data).data == data
