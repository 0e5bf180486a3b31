"""Frontmatters that a careless author, or YAML at its worst, might produce: a grammar for hypothesis.

Left out is what `python_yaml` says it does not follow of skills-ref: entries without a key, U+0085 or U+2028 in
blocks, comments in the place of values.
"""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["skill_md"]

_SCALARS = (
    "1.0", "12", "017", "0o17", "0x1F", "1_000", "1:30", "1e3", "1e999", ".5", "-.5", "+12", "9" * 30, "true",
    "True", "yes", "no", "on", "y", "~", "null", "", ".nan", ".inf", "=", "<<", "2026-01-02", "2026-02-30",
    "2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "é", "日本", "it's", 'say "x"', "a:b", "a: b", "a:", ":a",
    "a #c", "a#c", "-", "-a", "- a", "?", "?a", "? a", "@a", "`a`", "%a", ",a", "a, b", "]", "}", "a]",
    "a{b}", "...", "---", "a --- b", "a---b", '"q"', '"q" ', '"q" #c', '"q"#c', '"q" a', '"\\x41"',
    '"\\u00e9"', '"\\U0001F600"', '"\\q"', '"a\\', '"open', "'q'", "'it''s'", "'open", '""', "''", "&a b",
    "*a", "!!str 1", "!!int 1", "!!int a", "!a b", "! 1", "!!str", "&a", "!!binary aGk=", "\ta", "a\tb",
    "a\t", "a\t#c", "\t", "a ", "\x07", "\x7f", "\xa0", "\u2028", "\x85", "\ufeff", "\U0001f600", "a\rb",
    "a\\b",
)  # fmt: skip
_FLOWS = (
    "[]", "{}", "[a, b]", "[a, b] #c", "[a,]", "[,a]", "[a b, 1]", "[a", "[a]]", "[[a], {b: c}]", "{a: b}",
    "{a: b, a: c}", "{a}", "{a:}", "{a:b}", "{a: }", '{"a":1}', "{'a' : b}", "[a: b]", "[? a]", "{? a: b}",
    "[-]", "[- a]", "[a:b]", "['q', \"q\"]", "[*a]", "[&a b]", "[!!str a]", "{1: a}", "{~: a}", "[#c]",
    "[a #c]", "{a: [b}", "[.nan]", "[2026-01-02]", "{a: b}c", "{__proto__: a}", "[http://a]", "[a, 'b': c]",
    "{a: 'b'}", "{a: b, }",
)  # fmt: skip
_KEYS = (
    "a b", '"quoted"', "'single'", '"quoted" ', "spaced ", "1", "~", "true", "yes", "2026-01-02", "é", "-k",
    "?k", ":k", "k:k", "k#k", "k #k", "<<", "=", "__proto__", "[k]", "{k}", "&a k", "*a ", "!!str k",
    '"k\\x41"', '"open', "? key", ".nan", "1.5", "k,k", "%k", "@k", "key\t",
)  # fmt: skip
_BLOCK_LINES = ("text", "more text", "", "   ", " deeper", "\ttab", "# no comment", "a: b", "- a")
_FIRST_LINES = ("", "", "text", "text", '"open', "'open", "[a,", "{a: b,", "text #c", "12", "- a")
_NEXT_LINES = ("text", "text", "text", "text", "", "# c", 'close"', "close'", "b]", "c: d}", "- b", "a: b", "text #c")
_INDENTS = ("", " ", "  ", "   ", "    ", "\t", "  \t")


def _mostly(*usual: str, odd: tuple[str, ...]) -> st.SearchStrategy[str]:
    """One of the usual spellings, but for one time in thirty."""
    repeated = usual * (30 * len(odd) // len(usual) + 1)
    return st.sampled_from(repeated + odd)


_plain_scalar = st.sampled_from(("text", "two words", "'1.0'", '"quoted"'))
_scalar = st.one_of(_plain_scalar, _plain_scalar, st.sampled_from(_SCALARS + _FLOWS))
_separator = _mostly(": ", odd=(":  ", ":\t", ":", " : "))
_indent = _mostly("  ", "    ", odd=_INDENTS)
_block_header = _mostly("|", ">", "|-", ">-", odd=("|+", "|2", ">1-", "|-2", "| #c", "|#c", "> a", ">\t", "|--"))
_dash = _mostly("- ", odd=("-   ", "-\t", "- - ", "- k: ", "-"))
_noise = st.one_of(st.sampled_from(("", "# comment", "  # comment")), _scalar, st.builds(str.__add__, _indent, _scalar))
_rarely = st.sampled_from([False] * 30 + [True])


def _indented(lines: list[str], indent: str) -> list[str]:
    return [indent + line for line in lines]


@st.composite
def _block_scalar(draw: st.DrawFn) -> list[str]:
    lines = draw(st.lists(st.sampled_from(_BLOCK_LINES), max_size=4))
    return [draw(_block_header), *_indented(lines, draw(_indent))]


@st.composite
def _continued(draw: st.DrawFn) -> list[str]:
    """A scalar or a flow collection that goes on in the next lines."""
    lines = draw(st.lists(st.sampled_from(_NEXT_LINES), min_size=1, max_size=3))
    return [draw(st.sampled_from(_FIRST_LINES)), *_indented(lines, draw(_indent))]


@st.composite
def _collection(draw: st.DrawFn, inner: st.SearchStrategy[list[str]]) -> list[str]:
    """A list or a mapping below its key: the first line is empty, the others are indented, mostly alike."""
    lines = [draw(_mostly("", odd=("# comment", "&a", "!!map")))]
    is_list = draw(st.booleans())
    indent = draw(_mostly("  ", "    ", odd=_INDENTS))
    for number in range(draw(st.integers(1, 3))):
        first, *rest = draw(inner)
        if is_list:
            dash = draw(_dash)
            entry = [f"{dash}{first}", *_indented(rest, " " * len(dash))]
        else:
            key = draw(_mostly(f"key{number}", odd=_KEYS))
            entry = [f"{key}{draw(_separator)}{first}", *rest]
        lines += _indented(entry, indent)
        if draw(_rarely):
            indent = draw(_indent)
        if draw(_rarely):
            lines.append(draw(_noise))
    return lines


_text = st.one_of(_scalar.map(lambda text: [text]), _block_scalar(), _continued())
_nested = _collection(st.recursive(_text, _collection, max_leaves=3))


@st.composite
def skill_md(draw: st.DrawFn) -> bytes:
    """A whole SKILL.md for a skill in the directory `demo`, right in most of its parts and odd in one or two."""
    entries = [["name: demo"], ["description: Does a thing."]]
    for usual, value in ((("license", "compatibility", "x-text"), _text), (("metadata", "x-more"), _nested)):
        if draw(st.booleans()):
            continue
        first, *rest = draw(value)
        field = draw(_mostly(*usual, odd=("name", "description", *_KEYS)))
        if field in {"name", "description"}:
            entries = [entry for entry in entries if not entry[0].startswith(field)]
        entries.insert(draw(st.integers(0, len(entries))), [f"{field}{draw(_separator)}{first}", *rest])
    if draw(_rarely):
        entries.insert(draw(st.integers(0, len(entries))), [draw(_noise)])
    lines = [line for entry in entries for line in entry]
    if draw(_rarely):
        lines = _indented(lines, draw(_indent))
    opening = draw(_mostly("---", odd=("--- ", "---\t", "----", "\ufeff---", "--- #c")))
    closing = draw(_mostly("---", odd=("--- ", "---\t", " ---", "----", "...", "--- #c")))
    body = draw(st.sampled_from(("", "Body.", "Body.\n---", "Body.\n---\nMore.", "---")))
    newline = draw(_mostly("\n", odd=("\r\n", "\r\n", "\r")))
    return newline.join([opening, *lines, closing, *body.split("\n")]).encode()
