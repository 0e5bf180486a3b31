"""Make hidden content visible wherever a person reads text from outside (B4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Hidden", "find_hidden", "shorten", "visible"]

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"
# With the two groups below, all that Unicode calls default-ignorable: nothing is drawn where one of these stands.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_SEPARATOR = "\u2028\u2029"
_TAGS = "\U000e0000-\U000e0fff"
_SURROGATE = "\ud800-\udfff"

_INVISIBLE = re.compile(f"[{_CONTROL}{_BIDI}{_ZERO_WIDTH}{_SEPARATOR}{_TAGS}{_SURROGATE}\ufff9-\uffff\t\n]")
_HIDDEN = re.compile(
    f"(?P<tag>[{_TAGS}]+)"
    f"|(?P<bidi>[{_BIDI}]+)"
    # One variation selector or joiner, or one before the other, belongs to an emoji or a script; a run of them carries
    # a message.
    f"|(?P<zero>(?!\ufe0f\u200d(?![{_ZERO_WIDTH}]))[{_ZERO_WIDTH}]{{2,}}|[\u200b\u2060\ufeff\u00ad\u180e])"
    f"|(?P<control>[{_CONTROL}]+)"
    "|(?P<comment><!--)"
)
_MAY_HIDE = re.compile(f"[{_TAGS}{_BIDI}{_ZERO_WIDTH}{_CONTROL}<]")
_KINDS = {
    "tag": "Unicode tag characters",
    "bidi": "bidirectional controls",
    "zero": "zero-width characters",
    "control": "control characters",
    "comment": "an HTML comment",
}


def visible(text: str) -> str:
    """The text on one line, each invisible or control character written as `⟨U+202E⟩`."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def shorten(text: str, limit: int = 80) -> str:
    """`visible` text, cut to about `limit` characters with an ellipsis; megabytes are never echoed."""
    return visible(text) if len(text) <= limit else visible(text[: limit - 1]) + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Something in a text that a person reading it would not see."""

    kind: str
    line: int


def find_hidden(text: str, *, limit: int = 100) -> tuple[Hidden, ...]:
    """Where the text hides something from a person: at most `limit` places, each with its line."""
    found: list[Hidden] = []
    line, counted_to = 1, 0
    first = _MAY_HIDE.search(text, 1 if text.startswith("\ufeff") else 0)
    for match in _HIDDEN.finditer(text, first.start()) if first else ():
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        kind = _KINDS[str(match.lastgroup)]
        if match[0] == "\r" * len(match[0]) and text.startswith("\n", match.end()):
            continue
        if not found or found[-1] != Hidden(kind=kind, line=line):
            found.append(Hidden(kind=kind, line=line))
        if len(found) >= limit:
            break
    return tuple(found)
