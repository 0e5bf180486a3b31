"""URIs of skills and their files: parsed once, decoded once, and never able to walk anywhere (U1-U5, X3)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote_to_bytes

from skillquay.core.hidden import shorten
from skillquay.errors import UriError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LOCAL_SCHEMES", "MAX_URI_LENGTH", "SKILL_MD", "SkillUri", "reference_paths"]

MAX_URI_LENGTH = 4096
SKILL_MD = "SKILL.md"

# Schemes that name something on the reader's own machine. A server that offers one is refused (X3).
LOCAL_SCHEMES = frozenset(
    {"about", "blob", "chrome", "chrome-extension", "content", "data", "file", "filesystem", "jar", "javascript"}
    | {"localfile", "ms-appdata", "npipe", "res", "resource", "smb", "unix", "vbscript", "view-source", "vscode-file"}
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BEYOND_ASCII = "\u00a0-\u2027\u202a-\ud7ff\ue000-\U0010ffff"
_AUTHORITY = re.compile(rf"(?:[A-Za-z0-9._~!$&'()*+,;={_BEYOND_ASCII}-]|%[0-9A-Fa-f]{{2}})+")
_PATH = re.compile(rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@/\[\]{_BEYOND_ASCII}-]|%[0-9A-Fa-f]{{2}})*")
_PORT = re.compile(r":[0-9]{1,5}")
_WALKS = re.compile("[/\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
# What nearly all URIs look like; none of these could fail a check below.
_PLAIN_URI = re.compile(rf"skill://{_PLAIN_PATH.pattern}")
_SURROGATE = re.compile("[\ud800-\udfff]")

_SAFE_IN_AUTHORITY = "!$&'()*+,;="
_SAFE_IN_PATH = "!$&'()*+,;=:@"


class SkillUri(str):
    """A URI that passed every check of U3, in the spelling it was given.

    Two spellings of one place (`Q&A.md`, `Q%26A.md`) are different strings with the same `key`. The first segment sits
    in the authority position and means nothing: nothing here ever resolves it.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """A URI from outside; a `UriError` says what is wrong with it."""
        _check(text)
        return str.__new__(cls, text)

    @classmethod
    def build(cls, segments: Sequence[str], *, scheme: str = "skill") -> Self:
        """The URI of these decoded segments, percent-encoded once."""
        first, *rest = segments or [""]
        for segment in segments:
            _check_segment(segment, "/".join(segments))
        path = [quote(first, _SAFE_IN_AUTHORITY), *(quote(segment, _SAFE_IN_PATH) for segment in rest)]
        return cls(f"{scheme}://{'/'.join(path)}")

    @property
    def scheme(self) -> str:
        """The scheme, in lowercase."""
        return self.partition(":")[0].lower()

    @property
    def segments(self) -> tuple[str, ...]:
        """The decoded segments; the one in the authority position comes first."""
        path = self.partition("://")[2]
        parts = path.split("/")
        return tuple(map(_decode, parts)) if "%" in path else tuple(parts)

    @property
    def key(self) -> tuple[str, ...]:
        """What all spellings of this place have in common: the scheme and the decoded segments."""
        scheme, _, path = self.partition("://")
        parts = path.split("/")
        return (scheme.lower(), *map(_decode, parts)) if "%" in path else (scheme.lower(), *parts)

    @property
    def name(self) -> str:
        """The decoded last segment."""
        return _decode(self.rpartition("/")[2])

    @property
    def is_skill(self) -> bool:
        """True when this has the form of a skill's URI: `SKILL.md`, spelled out, inside a named directory (U1)."""
        return self.endswith("/" + SKILL_MD) and len(self.segments) > 1

    @property
    def root(self) -> SkillUri:
        """The skill's directory, without a trailing slash."""
        if not self.is_skill:
            raise UriError(f'"{shorten(self)}" is not the URI of a SKILL.md inside a named directory.', rule="U1")
        return str.__new__(SkillUri, self.rpartition("/")[0])

    def contains(self, other: SkillUri) -> bool:
        """True when `other` lies strictly inside this directory, however either is spelled."""
        key, inner = self.key, other.key
        return len(inner) > len(key) and inner[: len(key)] == key

    def relative(self, other: SkillUri) -> str:
        """The path of `other` below this directory, decoded."""
        return "/".join(other.segments[len(self.segments) :])

    def child(self, path: str) -> SkillUri:
        """The file or directory at `path`, decoded segments joined by `/`, below this directory."""
        text = self + "/" + (path if len(path) > MAX_URI_LENGTH else _encoded(path))
        if len(text) > MAX_URI_LENGTH:
            raise _too_long(text)
        return str.__new__(SkillUri, text)


def reference_paths(reference: str) -> tuple[str, ...]:
    """The relative paths a reference in a skill may mean, most literal first (U5).

    A reference is a path as an author or a model writes it: `references/GUIDE.md`, `./a.md#setup`, `my%20file.md`,
    `templates/`. Absolute paths, other schemes, drives, backslashes and `..` are refused: they never walk (U3, P3).
    """
    shown = shorten(reference)
    if len(reference) > MAX_URI_LENGTH:
        raise _too_long(reference)
    bare = reference.partition("#")[0].split("/")
    paths = [_relative_path(reference.split("/"), shown), _relative_path(bare, shown)]
    # Decoded piece by piece: a slash that was encoded stays inside its segment, where it is refused.
    paths.append(_relative_path([_decode(piece) for piece in bare], shown))
    return tuple(dict.fromkeys(path for path in paths if path))


def _relative_path(pieces: list[str], shown: str) -> str:
    is_absolute = len(pieces) > 1 and not pieces[0]
    if is_absolute or _SCHEME.match(pieces[0]):  # a drive looks like a scheme
        raise UriError(f'"{shown}" is not a path relative to the skill. Give one such as references/GUIDE.md.')
    without_slash = pieces[:-1] if len(pieces) > 1 and not pieces[-1] else pieces
    segments = [piece for piece in without_slash if piece != "."]
    for segment in segments:
        _check_segment(segment, shown)
    return "/".join(segments)


def _check(text: str) -> None:
    if not isinstance(text, str):
        raise UriError(f"A URI is a string, not {type(text).__name__}.")
    if len(text) > MAX_URI_LENGTH:
        raise _too_long(text)
    if _PLAIN_URI.fullmatch(text):
        return
    shown = shorten(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        raise UriError(f'"{shown}" is not a URI: it has no scheme. Write it as skill://path/SKILL.md.')
    if not LOCAL_SCHEMES.isdisjoint((scheme[1].lower(), *scheme[1].lower().split("+"))):
        raise UriError(f'"{shown}" names something on the reader\'s own machine; a server may not offer it.', rule="X3")
    if not text.startswith("//", scheme.end()):
        raise UriError(f'"{shown}" is not of the form scheme://path.')
    authority, slash, path = text[scheme.end() + 2 :].partition("/")
    port = None if scheme[1].lower() == "skill" else _PORT.search(authority)
    if not _AUTHORITY.fullmatch(authority, 0, port.start() if port else len(authority)) or (
        port and port.end() != len(authority)
    ):
        raise UriError(f'"{shown}" has no usable first segment after "://".')
    if not _PATH.fullmatch(path):
        raise UriError(f'"{shown}" has a character that a URI path may not hold unencoded.')
    for segment in (authority, *(path.split("/") if slash else ())):
        _check_segment(_decode(segment), text)


@lru_cache(maxsize=1024)  # the files of a thousand skills have few different names
def _encoded(path: str) -> str:
    if _PLAIN_PATH.fullmatch(path):
        return path
    for segment in path.split("/"):
        _check_segment(segment, path)
    return quote(path, _SAFE_IN_PATH + "/")


def _too_long(text: str) -> UriError:
    return UriError(f'"{shorten(text)}" is {len(text)} characters long; a URI here has at most {MAX_URI_LENGTH}.')


def _check_segment(segment: str, whole: str) -> None:
    if not segment:
        raise UriError(f'"{shorten(whole)}" has an empty segment.')
    if segment in {".", ".."}:
        raise UriError(f'"{shorten(whole)}" has a "{segment}" segment; paths here never walk up or stand still.')
    if _SURROGATE.search(segment):
        raise UriError(f'"{shorten(whole)}" has a segment that is not UTF-8.')
    if _WALKS.search(segment):
        raise UriError(f'"{shorten(whole)}" has a segment with a slash, a backslash or a control character in it.')


def _decode(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise UriError(f'"{shorten(segment)}" does not decode to UTF-8.') from None
