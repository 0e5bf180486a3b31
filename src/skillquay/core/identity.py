"""Who a skill is: the server as the host names it, and the URI on that server; never one of the two alone (N1)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from skillquay.core.hidden import shorten, visible
from skillquay.errors import LabelError

if TYPE_CHECKING:
    from skillquay.core.digests import Digest
    from skillquay.core.uris import SkillUri

__all__ = ["MAX_LABEL", "ServerLabel", "SkillId"]

MAX_LABEL = 64
_SAFE_IN_FILE_NAMES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServerLabel:
    """A server as this host calls it, tied to the configuration that says so (`scope`, such as a file's path).

    The same label in another workspace is another server. What a server says of its own name never comes in here.
    """

    label: str
    scope: str

    def __post_init__(self) -> None:
        if visible(self.label) != self.label or self.label != self.label.strip():
            raise LabelError(f'The server label "{shorten(self.label)}" has hidden characters or outer spaces in it.')
        if not 1 <= len(self.label.encode()) <= MAX_LABEL:
            raise LabelError(
                f'The server label "{shorten(self.label)}" must have 1 to {MAX_LABEL} letters, or fewer where they are '
                "not plain ones: 64 bytes of UTF-8."
            )

    @property
    def directory(self) -> str:
        """A file name from which the label can be read whole, and which no other label or scope shares (K2).

        Bytes other than a-z, 0-9, `_` and `-` are written as `=hh`, so that names which a file system would fold
        together stay apart. The limit on labels keeps it well below the 255 bytes a file name may have.
        """
        return _directory(self.label, self.scope)

    @property
    def looks(self) -> str:
        """What labels that a person could take for each other have in common."""
        return unicodedata.normalize("NFKC", self.label).casefold()

    def told_from(self, *others: ServerLabel) -> str:
        """The label, with its scope where another server has one that looks the same."""
        looks_same = self.looks in {other.looks for other in others}
        return f"{self} ({visible(self.scope)})" if looks_same else str(self)

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SkillId:
    """The identity of a served skill, everywhere: registry, approvals, cache, tools, paths.

    Two spellings of one URI are one skill; `uri` keeps the one its server uses.
    """

    server: ServerLabel
    key: tuple[str, ...] = field(init=False, repr=False)
    uri: SkillUri = field(compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.uri.key)

    def cache_path(self, digest: Digest) -> tuple[str, str, str]:
        """Path segments for content of this skill: the server can be told from the first, nothing collides (K2)."""
        return (self.server.directory, _hashed(self.uri), digest.removeprefix("sha256:"))

    def __str__(self) -> str:
        return f"{self.server}: {shorten(self.uri, 200)}"


@lru_cache(maxsize=256)  # a host asks for the same few again and again
def _directory(label: str, scope: str) -> str:
    hashed = sha256(scope.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    readable = "".join(chr(byte) if byte in _SAFE_IN_FILE_NAMES else f"={byte:02x}" for byte in label.encode())
    return f"{readable}@{hashed}"


@lru_cache(maxsize=1024)
def _hashed(uri: str) -> str:
    return sha256(uri.encode()).hexdigest()
