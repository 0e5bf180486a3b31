"""SHA-256 digests in the one spelling the specification allows (E3)."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Self

from skillquay.core.hidden import shorten

__all__ = ["Digest"]

_FORM = re.compile(r"sha256:[0-9a-f]{64}")


class Digest(str):
    """`sha256:` and 64 lowercase hexadecimal digits. A digest says that bytes agree, never that they are safe (V4)."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """A digest from outside; a `ValueError` says what is wrong with it."""
        if not isinstance(text, str) or not _FORM.fullmatch(text):
            shown = shorten(text) if isinstance(text, str) else type(text).__name__
            raise ValueError(f'a digest is "sha256:" and 64 lowercase hexadecimal digits, not "{shown}"')
        return str.__new__(cls, text)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The digest of these bytes."""
        return str.__new__(cls, "sha256:" + sha256(data).hexdigest())
